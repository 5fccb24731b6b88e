//! Refusals: the closure never started, so running it elsewhere is always safe.

use std::fmt;
use std::time::Duration;

use crate::vitals::{Facts, Pace, Vitals};

/// Why a closure was never started.
///
/// The first group is said at the door, by [`Rejected`], which hands the closure back. The second
/// is said of jobs that had been accepted, by [`NotStarted`](crate::NotStarted); their closures have
/// been dropped. [`as_str`](Rejection::as_str) is the same word that logs and metrics use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rejection {
    /// At the door: every thread was taken and the queue was full.
    QueueFull,
    /// At the door: the bulkhead's limit on the wait for a place passed.
    WaitLimit,
    /// At the door: as many callers as allowed were waiting for a place already.
    TooManyWaiting,
    /// The call's own deadline had passed, at the door or in the queue.
    DeadlinePast,
    /// At the door: by its recent pace the bulkhead would have answered after the deadline.
    WouldBeLate,
    /// The job would have had to queue behind the very worker that waits for it.
    WouldDeadlock,
    /// The runtime was shutting down, or is gone.
    ShuttingDown,
    /// Accepted, then pushed out of the queue by a newer job (`RejectionPolicy::DropOldest`).
    Displaced,
    /// Accepted, then not started within the bulkhead's limit on the time in the queue.
    QueueLimit,
    /// Accepted, then cancelled before it started.
    Cancelled,
}

impl Rejection {
    pub(crate) const COUNT: usize = 10;

    /// Every reason, in the order of [`index`](Rejection::index).
    pub(crate) const ALL: [Self; Self::COUNT] = [
        Self::QueueFull,
        Self::WaitLimit,
        Self::TooManyWaiting,
        Self::DeadlinePast,
        Self::WouldBeLate,
        Self::WouldDeadlock,
        Self::ShuttingDown,
        Self::Displaced,
        Self::QueueLimit,
        Self::Cancelled,
    ];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The reason as one lower-case word with underscores, for logs and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::WaitLimit => "wait_limit",
            Self::TooManyWaiting => "too_many_waiting",
            Self::DeadlinePast => "deadline_past",
            Self::WouldBeLate => "would_be_late",
            Self::WouldDeadlock => "would_deadlock",
            Self::ShuttingDown => "shutting_down",
            Self::Displaced => "displaced",
            Self::QueueLimit => "queue_limit",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A submission was refused at the door. The closure is inside, unstarted and unharmed.
///
/// Take it back with [`into_job`](Rejected::into_job) to run it elsewhere or later; or run it on the
/// caller's own thread with [`run_here`](Rejected::run_here), which is a choice that the caller makes
/// visibly, so no policy makes it.
#[must_use = "the refused closure is inside"]
pub struct Rejected<F = ()> {
    reason: Rejection,
    about: &'static Facts,
    /// As it was then.
    pace: Pace,
    depth: usize,
    job: F,
}

impl<F> Rejected<F> {
    pub(crate) fn new(reason: Rejection, vitals: &Vitals, depth: usize, job: F) -> Self {
        Self { reason, about: vitals.facts, pace: vitals.pace(), depth, job }
    }

    /// Why.
    #[must_use]
    pub const fn reason(&self) -> Rejection {
        self.reason
    }

    /// The name of the bulkhead that refused.
    #[must_use]
    pub fn bulkhead(&self) -> &str {
        self.about.name.as_str()
    }

    /// How many were ahead: jobs in the queue, or, where too many were waiting, waiting callers.
    #[must_use]
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// The bound that [`depth`](Rejected::depth) stands against.
    #[must_use]
    pub fn limit(&self) -> usize {
        match self.reason {
            Rejection::TooManyWaiting => self.about.submitters,
            _ => self.about.queue,
        }
    }

    /// When a new attempt has a chance, by the bulkhead's recent pace.
    ///
    /// The time in which its threads get through what was ahead and one job more; at least a
    /// millisecond. One second as long as no job has ended. Computed when asked for, so that a
    /// refusal costs nothing.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        const UNKNOWN: Duration = Duration::from_secs(1);
        let ahead = self.depth.saturating_add(1);
        self.about.time_for(ahead, self.pace).unwrap_or(UNKNOWN).max(Duration::from_millis(1))
    }

    pub(crate) const fn facts(&self) -> &'static Facts {
        self.about
    }

    /// The closure, for the caller to do with as it sees fit.
    pub fn into_job(self) -> F {
        self.job
    }

    /// The same story with another closure: the one that the caller brought, for the one around it.
    #[cfg(all(any(feature = "http", feature = "r2d2"), not(watertight_loom)))]
    pub(crate) fn with_job<G>(self, job: G) -> Rejected<G> {
        Rejected { reason: self.reason, about: self.about, pace: self.pace, depth: self.depth, job }
    }

    /// Drops the closure and keeps the story, as an error that can be boxed and sent.
    pub fn forget(self) -> Rejected {
        Rejected {
            reason: self.reason,
            about: self.about,
            pace: self.pace,
            depth: self.depth,
            job: (),
        }
    }
}

impl<F> fmt::Display for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, depth, limit) = (self.bulkhead(), self.depth, self.limit());
        let threads = self.about.threads;
        write!(f, "bulkhead `{name}` refused the job: ")?;
        match self.reason {
            Rejection::QueueFull => write!(
                f,
                "all {threads} threads are taken and its queue is full ({depth} of {limit}); \
                 shed the call, or give it more `threads` or `queue`"
            ),
            Rejection::WaitLimit => write!(
                f,
                "no place came free within {:?}, `at_most` of its rejection policy; shed the call, \
                 or give it more `threads`",
                self.about.at_most
            ),
            Rejection::TooManyWaiting => write!(
                f,
                "{depth} callers wait for a place already, `submitters` of its rejection policy \
                 allows {limit}; shed the call, or give it more `threads`"
            ),
            Rejection::DeadlinePast => f.write_str("the call's deadline had passed"),
            Rejection::WouldBeLate => f.write_str(
                "by its recent pace the answer would come after the deadline; shed the call, or \
                 switch `refuse_late` off to try all the same",
            ),
            Rejection::WouldDeadlock => f.write_str(
                "one of its own workers waits for this job, which would have to queue behind it; \
                 use a bulkhead of its own for the inner call, or do not wait for it",
            ),
            Rejection::ShuttingDown => f.write_str("its runtime is shutting down"),
            other => f.write_str(other.as_str()),
        }
    }
}

impl<F> fmt::Debug for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The closure is left out, so that it need not be `Debug`.
        f.debug_struct("Rejected")
            .field("reason", &self.reason)
            .field("bulkhead", &self.bulkhead())
            .field("depth", &self.depth)
            .field("limit", &self.limit())
            .finish_non_exhaustive()
    }
}

impl<F> std::error::Error for Rejected<F> {}
