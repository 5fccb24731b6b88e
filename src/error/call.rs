//! What can come back from a call instead of its value.

use std::any::Any;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::{Rejected, Rejection};
use crate::sync::Exclusive;
use crate::vitals::Facts;

/// Why a call did not return its closure's value.
///
/// The first two say that the closure **never started**, so the work may safely be done elsewhere;
/// [`never_started`](CallError::never_started) asks just that. `E` is the closure's own error, kept
/// with its type by [`Flatten::flat`]; without it the closure's value is whatever it returned and
/// `Failed` cannot occur.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError<E = Infallible> {
    /// Refused at the door.
    Rejected(Rejected),
    /// Accepted, but ended before it started; the closure has been dropped.
    NotStarted(NotStarted),
    /// The caller's time passed while the closure was running. It may still be: its thread stays
    /// taken until it returns.
    TimedOut(TimedOut),
    /// The closure panicked. The thread that ran it serves on.
    Panicked(Panicked),
    /// The closure returned an error of its own.
    Failed(E),
}

impl<E> CallError<E> {
    /// Whether the closure was never started, so that doing the work elsewhere cannot do it twice.
    #[must_use]
    pub const fn never_started(&self) -> bool {
        matches!(self, Self::Rejected(_) | Self::NotStarted(_))
    }

    /// The reason, if the closure was never started.
    #[must_use]
    pub fn rejection(&self) -> Option<Rejection> {
        match self {
            Self::Rejected(rejected) => Some(rejected.reason()),
            Self::NotStarted(not_started) => Some(not_started.reason()),
            _ => None,
        }
    }

    /// Which time limit ended the call, if one did.
    #[must_use]
    pub fn time_limit(&self) -> Option<TimeLimit> {
        match self {
            Self::TimedOut(timed_out) => Some(timed_out.limit()),
            _ => match self.rejection()? {
                Rejection::WaitLimit => Some(TimeLimit::Wait),
                Rejection::QueueLimit => Some(TimeLimit::Queue),
                Rejection::DeadlinePast => Some(TimeLimit::Call),
                _ => None,
            },
        }
    }

    /// The bulkhead's name, unless the error is the closure's own.
    #[must_use]
    pub fn bulkhead(&self) -> Option<&str> {
        match self {
            Self::Rejected(rejected) => Some(rejected.bulkhead()),
            Self::NotStarted(not_started) => Some(not_started.bulkhead()),
            Self::TimedOut(timed_out) => Some(timed_out.bulkhead()),
            Self::Panicked(panicked) => Some(panicked.bulkhead()),
            Self::Failed(_) => None,
        }
    }
}

impl CallError {
    fn with_failure<E>(self) -> CallError<E> {
        match self {
            Self::Rejected(rejected) => CallError::Rejected(rejected),
            Self::NotStarted(not_started) => CallError::NotStarted(not_started),
            Self::TimedOut(timed_out) => CallError::TimedOut(timed_out),
            Self::Panicked(panicked) => CallError::Panicked(panicked),
            Self::Failed(never) => match never {},
        }
    }
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(rejected) => rejected.fmt(f),
            Self::NotStarted(not_started) => not_started.fmt(f),
            Self::TimedOut(timed_out) => timed_out.fmt(f),
            Self::Panicked(panicked) => panicked.fmt(f),
            Self::Failed(_) => f.write_str("the job returned an error"),
        }
    }
}

impl<E: Error + 'static> Error for CallError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl<F, E> From<Rejected<F>> for CallError<E> {
    /// Drops the refused closure, so that `bulkhead.submit(f)?.join()?` reads as it should.
    fn from(rejected: Rejected<F>) -> Self {
        Self::Rejected(rejected.forget())
    }
}

/// Brings the error of a closure that returns a `Result` next to those of the call.
///
/// ```
/// use watertight::{Bulkhead, CallError, Flatten, Runtime};
///
/// let runtime = Runtime::builder().bulkhead(Bulkhead::builder("config").threads(1)).build()?;
/// let config = runtime.bulkhead("config")?;
///
/// match config.call(|_| "12x".parse::<u32>()).flat() {
///     Err(CallError::Failed(parse)) => assert_eq!(parse.to_string(), "invalid digit found in string"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub trait Flatten {
    /// The value of a call that went well.
    type Value;
    /// The closure's own error.
    type Failure;

    /// Turns `Result<Result<T, E>, CallError>` into `Result<T, CallError<E>>`.
    ///
    /// # Errors
    ///
    /// The call's error, or the closure's own as [`CallError::Failed`].
    fn flat(self) -> Result<Self::Value, CallError<Self::Failure>>;
}

impl<T, E> Flatten for Result<Result<T, E>, CallError> {
    type Value = T;
    type Failure = E;

    fn flat(self) -> Result<T, CallError<E>> {
        match self {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(failure)) => Err(CallError::Failed(failure)),
            Err(error) => Err(error.with_failure()),
        }
    }
}

/// A limit on time. The limits are never confused: an error says which of them fired, and where two
/// are due at the same instant it says [`Call`](TimeLimit::Call).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeLimit {
    /// On the wait for a place (`at_most` of [`RejectionPolicy::Wait`](crate::RejectionPolicy)).
    Wait,
    /// On the time in the queue ([`queue_limit`](crate::BulkheadBuilder::queue_limit)).
    Queue,
    /// On one attempt of several. For layers that try again; no bulkhead reports it.
    Attempt,
    /// On the whole call ([`call_limit`](crate::BulkheadBuilder::call_limit), or a deadline given).
    Call,
}

impl TimeLimit {
    /// The limit as one lower-case word, for logs and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Queue => "queue",
            Self::Attempt => "attempt",
            Self::Call => "call",
        }
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A job had been accepted and ended before it started.
#[derive(Debug, Clone)]
pub struct NotStarted {
    reason: Rejection,
    about: &'static Facts,
    waited: Duration,
}

impl NotStarted {
    pub(crate) fn new(reason: Rejection, about: &'static Facts, waited: Duration) -> Self {
        Self { reason, about, waited }
    }

    /// Why.
    #[must_use]
    pub const fn reason(&self) -> Rejection {
        self.reason
    }

    /// The bulkhead's name.
    #[must_use]
    pub fn bulkhead(&self) -> &str {
        self.about.name.as_str()
    }

    /// How long the job had been queued.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        self.waited
    }
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, waited) = (self.bulkhead(), self.waited);
        write!(f, "bulkhead `{name}` never started the job: ")?;
        match (self.reason, self.about.queue_limit) {
            (Rejection::QueueLimit, Some(limit)) => {
                write!(f, "it was not started within its `queue_limit` of {limit:?}")
            }
            (reason, _) => f.write_str(match reason {
                Rejection::Displaced => "a newer job took its place in the full queue",
                Rejection::DeadlinePast => "the call's deadline passed before it started",
                Rejection::Cancelled => "it was cancelled",
                Rejection::WouldDeadlock => {
                    "a worker of this bulkhead began to wait for it, which only that worker could end"
                }
                Rejection::ShuttingDown => "the runtime shut down",
                other => other.as_str(),
            }),
        }?;
        write!(f, " (it was queued for {waited:.1?})")
    }
}

impl Error for NotStarted {}

/// The caller's time passed while the closure was running.
#[derive(Debug, Clone)]
pub struct TimedOut {
    limit: TimeLimit,
    about: &'static Facts,
}

impl TimedOut {
    pub(crate) fn new(limit: TimeLimit, about: &'static Facts) -> Self {
        Self { limit, about }
    }

    /// Which limit fired.
    #[must_use]
    pub const fn limit(&self) -> TimeLimit {
        self.limit
    }

    /// The bulkhead's name.
    #[must_use]
    pub fn bulkhead(&self) -> &str {
        self.about.name.as_str()
    }
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, limit) = (self.bulkhead(), self.limit);
        write!(f, "the {limit} limit passed while the job was running in bulkhead `{name}`")?;
        if let Some(call_limit) = self.about.call_limit {
            write!(f, " (its `call_limit` is {call_limit:?}, for calls that bring no deadline)")?;
        }
        f.write_str("; its thread stays taken until the job returns")
    }
}

impl Error for TimedOut {}

/// The closure panicked; this is what it panicked with.
pub struct Panicked {
    about: &'static Facts,
    payload: Exclusive<Box<dyn Any + Send>>,
    message: Option<String>,
}

impl Panicked {
    pub(crate) fn new(about: &'static Facts, payload: Box<dyn Any + Send>) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Self { about, payload: Exclusive::new(payload), message }
    }

    /// The bulkhead's name.
    #[must_use]
    pub fn bulkhead(&self) -> &str {
        self.about.name.as_str()
    }

    /// The message, if the panic had one: nearly all have.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// The payload, for instance to go on with [`std::panic::resume_unwind`].
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload.into_inner()
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.bulkhead();
        match self.message() {
            Some(message) => write!(f, "the job panicked in bulkhead `{name}`: {message}"),
            None => write!(f, "the job panicked in bulkhead `{name}`, without a message"),
        }
    }
}

impl fmt::Debug for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Panicked")
            .field("bulkhead", &self.bulkhead())
            .field("message", &self.message())
            .finish_non_exhaustive()
    }
}

impl Error for Panicked {}
