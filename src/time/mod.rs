//! Points in time and where they come from.
//!
//! Floor 1. Nothing above this floor reads the system's clock: it asks a [`Clock`], or is told.

mod age;
mod clock;
mod deadline;

pub(crate) use self::age::Age;
pub use self::clock::{Clock, ManualClock, MonotonicClock};
pub use self::deadline::Deadline;
