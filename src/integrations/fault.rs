//! [`Fault`]: whose fault it is that a call to a dependency did not go well.

use std::time::Duration;

/// Whose fault a call's end is: what a circuit breaker counts, and what it must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The server has too much to do, or gave no answer in time; it may have said when to come back.
    Overload {
        /// When to come back: an HTTP response's `Retry-After`, if it had one in seconds.
        retry_after: Option<Duration>,
    },
    /// The server, or the way to it, is broken.
    Failure,
    /// The request itself was wrong; the server is well.
    Caller,
}
