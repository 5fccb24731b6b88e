//! [`Deadline`]: a point in time, or never.

use std::time::{Duration, Instant};

/// A point in time after which an answer is worth nothing, or never.
///
/// A time limit given as a [`Duration`] becomes a `Deadline` once, where the call comes in, and is
/// then passed down unchanged. A duration so long that the clock cannot express its end, such as
/// [`Duration::MAX`], means [`never`](Deadline::never).
///
/// ```
/// use std::time::{Duration, Instant};
/// use watertight::Deadline;
///
/// let soon = Deadline::after(Duration::from_millis(250));
/// assert!(!soon.is_past(Instant::now()));
/// assert_eq!(soon.earlier(Deadline::never()), soon);
/// assert_eq!(Deadline::after(Duration::MAX), Deadline::never());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// The deadline that does not come.
    #[must_use]
    pub const fn never() -> Self {
        Self(None)
    }

    /// The deadline at this point in time.
    #[must_use]
    pub const fn at(instant: Instant) -> Self {
        Self(Some(instant))
    }

    /// The deadline that far from now, by the system's monotonic clock.
    ///
    /// With a [`ManualClock`](crate::ManualClock) use `Deadline::at(clock.now() + limit)`.
    #[must_use]
    pub fn after(limit: Duration) -> Self {
        Self::from_now(Instant::now(), limit)
    }

    pub(crate) fn from_now(now: Instant, limit: Duration) -> Self {
        Self(now.checked_add(limit))
    }

    /// The point in time, unless it is never.
    #[must_use]
    pub const fn instant(self) -> Option<Instant> {
        self.0
    }

    /// Whether this deadline has come by `now`. At the very instant it has.
    #[must_use]
    pub fn is_past(self, now: Instant) -> bool {
        self.0.is_some_and(|at| at <= now)
    }

    /// The time left at `now`: zero when past, `None` when never.
    #[must_use]
    pub fn remaining(self, now: Instant) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(now))
    }

    /// Whichever of the two comes first.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(mine), Some(theirs)) => Self(Some(mine.min(theirs))),
            (one, other) => Self(one.or(other)),
        }
    }
}

impl From<Instant> for Deadline {
    fn from(instant: Instant) -> Self {
        Self::at(instant)
    }
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_instant_itself_is_past() {
        let now = Instant::now();
        assert!(Deadline::at(now).is_past(now));
        assert!(!Deadline::at(now + Duration::from_nanos(1)).is_past(now));
        assert!(!Deadline::never().is_past(now));
    }

    #[test]
    fn a_limit_that_the_clock_cannot_express_is_never() {
        let now = Instant::now();
        assert_eq!(Deadline::from_now(now, Duration::MAX), Deadline::never());
    }

    #[test]
    fn earlier_prefers_a_point_in_time_to_never() {
        let at = Deadline::at(Instant::now());
        assert_eq!(at.earlier(Deadline::never()), at);
        assert_eq!(Deadline::never().earlier(at), at);
        assert_eq!(Deadline::never().earlier(Deadline::never()), Deadline::never());
    }
}
