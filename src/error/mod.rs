//! Everything that can go wrong, sorted by the one question a caller has: did the closure start?
//!
//! Floor 1.

mod build;
mod call;
mod rejection;

pub use self::build::{BuildError, BuildErrorKind, ShutdownError, UnknownBulkhead};
pub use self::call::{CallError, Flatten, NotStarted, Panicked, TimeLimit, TimedOut};
pub use self::rejection::{Rejected, Rejection};
