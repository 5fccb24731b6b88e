//! [`ConnectionError`]: why a job got no connection.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::sync::Arc;
use crate::vitals::Facts;

/// What a manager's attempt to connect failed with.
pub(super) type Cause = Arc<dyn Error + Send + Sync>;

/// A job got no connection, so its closure was **never started**: it was dropped on its worker.
///
/// It comes as [`CallError::Failed`](crate::CallError::Failed) from a pool's `call`. That the
/// bulkhead was full is another error, [`CallError::Rejected`](crate::CallError::Rejected).
///
/// [`source`](Error::source) is the manager's own error, for `downcast_ref`, where there is one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionError {
    kind: ConnectionErrorKind,
    about: &'static Facts,
    waited: Duration,
    cause: Option<Cause>,
}

/// The sort of thing that kept a job from its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionErrorKind {
    /// No attempt to connect came to an end in the time that the job had: the other side is slow or
    /// silent.
    NoConnectionInTime,
    /// The attempts to connect failed. The source says why.
    CannotConnect,
    /// The pool was closed, with its runtime.
    Closed,
}

impl ConnectionErrorKind {
    /// The kind as one lower-case word with underscores, for logs and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoConnectionInTime => "no_connection_in_time",
            Self::CannotConnect => "cannot_connect",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for ConnectionErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ConnectionError {
    pub(super) fn new(
        kind: ConnectionErrorKind,
        about: &'static Facts,
        waited: Duration,
        cause: Option<Cause>,
    ) -> Self {
        Self { kind, about, waited, cause }
    }

    /// What sort of thing it was.
    #[must_use]
    pub const fn kind(&self) -> ConnectionErrorKind {
        self.kind
    }

    /// The bulkhead's name.
    #[must_use]
    pub fn bulkhead(&self) -> &str {
        self.about.name.as_str()
    }

    /// How long the job's worker waited for a connection.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        self.waited
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, waited) = (self.bulkhead(), self.waited);
        match self.kind {
            ConnectionErrorKind::NoConnectionInTime => {
                write!(
                    f,
                    "bulkhead `{name}` got no connection within {waited:.1?}: the other side is slow \
                     or silent, or `connect_limit` or the call's limit too short for it"
                )
            }
            ConnectionErrorKind::CannotConnect => {
                write!(f, "bulkhead `{name}` cannot connect (it waited for {waited:.1?})")
            }
            ConnectionErrorKind::Closed => {
                write!(f, "the connection pool of bulkhead `{name}` is closed")
            }
        }
    }
}

impl Error for ConnectionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as _)
    }
}

/// An attempt to connect that had no error of the manager's to fail with.
#[derive(Debug)]
pub(super) enum NoAttempt {
    /// The manager panicked.
    Panicked(Option<String>),
    /// Connections are discarded faster than they can be closed.
    Unclosed(usize),
}

impl fmt::Display for NoAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(Some(message)) => {
                write!(f, "the connection manager panicked: {message}")
            }
            Self::Panicked(None) => f.write_str("the connection manager panicked"),
            Self::Unclosed(connections) => write!(
                f,
                "{connections} discarded connections have not been closed yet, because closing or \
                 testing one hangs; no more are opened meanwhile"
            ),
        }
    }
}

impl Error for NoAttempt {}
