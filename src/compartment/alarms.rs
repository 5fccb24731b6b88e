//! [`Alarms`]: which time limit comes next.

use std::collections::BTreeSet;
use std::time::Instant;

/// The limits that are running, in the order in which they come.
///
/// Two sets, for two readers. A limit that is `covered` has a blocked caller who will come and look
/// by itself; the timekeeper need not wake up for it, but whoever holds the lock with a `now` past
/// it acts on it all the same. An entry is removed when its job no longer has that limit, so finished
/// jobs leave nothing behind.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    covered: BTreeSet<(Instant, u64)>,
    uncovered: BTreeSet<(Instant, u64)>,
}

impl Alarms {
    pub(crate) fn set(&mut self, at: Instant, seq: u64, covered: bool) {
        self.side(covered).insert((at, seq));
    }

    pub(crate) fn clear(&mut self, at: Instant, seq: u64, covered: bool) {
        let was_set = self.side(covered).remove(&(at, seq));
        debug_assert!(was_set, "an alarm was cleared that was never set");
    }

    fn side(&mut self, covered: bool) -> &mut BTreeSet<(Instant, u64)> {
        if covered { &mut self.covered } else { &mut self.uncovered }
    }

    /// The next limit that only the timekeeper looks after.
    pub(crate) fn next_uncovered(&self) -> Option<Instant> {
        self.uncovered.first().map(|(at, _)| *at)
    }

    /// The job whose limit came first, if one has come by `now`.
    pub(crate) fn due(&self, now: Instant) -> Option<u64> {
        let first = match (self.covered.first(), self.uncovered.first()) {
            (Some(one), Some(other)) => one.min(other),
            (one, other) => one.or(other)?,
        };
        (first.0 <= now).then_some(first.1)
    }

    #[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
    pub(crate) fn is_empty(&self) -> bool {
        self.covered.is_empty() && self.uncovered.is_empty()
    }
}
