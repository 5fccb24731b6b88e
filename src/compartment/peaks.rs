//! [`Peaks`]: the highest values of the last minute or two.

use std::time::{Duration, Instant};

/// How long a window is: as long as the longest interval at which systems are commonly scraped.
const WINDOW: Duration = Duration::from_secs(60);

/// The highest values: of the last 60 to 120 seconds in [`Snapshot::recent`](crate::Snapshot), of all
/// time in [`Totals::peaks`](crate::Totals).
///
/// A burst between two scrapes shows in no gauge. The recent ones remember it for at least a minute,
/// however many read them and however often: no reading takes anything away. The time is that of two
/// windows that take turns, as Micrometer's maxima do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peaks {
    /// The most jobs that ran at once.
    pub running: usize,
    /// The most jobs that were queued at once.
    pub queued: usize,
    /// The most callers that waited for a place at once.
    pub waiting: usize,
}

impl Peaks {
    fn highest(self, other: Self) -> Self {
        Self {
            running: self.running.max(other.running),
            queued: self.queued.max(other.queued),
            waiting: self.waiting.max(other.waiting),
        }
    }
}

/// The two windows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecentPeaks {
    /// When the present window ends; `None` until anything has been noted.
    until: Option<Instant>,
    present: Peaks,
    before: Peaks,
    /// The highest values of the windows that are over.
    ever: Peaks,
    /// The values as they are since the last note.
    level: Peaks,
}

impl RecentPeaks {
    /// Takes note of the values from `now` on.
    pub(super) fn note(&mut self, values: Peaks, now: Instant) {
        if self.until.is_none_or(|until| now >= until) {
            // After a whole window without a note, the level is what it has held all along.
            let is_next =
                self.until.and_then(|until| until.checked_add(WINDOW)).is_some_and(|end| now < end);
            self.ever = self.ever.highest(self.present);
            self.before = if is_next { self.present } else { self.level };
            // What was so until now was so in this window, too, if it began before.
            self.present = self.level;
            // A clock at the end of its range has no more windows; each note is one then.
            self.until = now.checked_add(WINDOW);
        }
        self.level = values;
        self.present = self.present.highest(values);
    }

    /// The highest values of all.
    pub(super) fn ever(&self) -> Peaks {
        self.ever.highest(self.present)
    }

    /// The highest values of this window and the one before, seen from `now`.
    pub(super) fn seen_at(mut self, now: Instant) -> Peaks {
        self.note(self.level, now);
        self.present.highest(self.before)
    }
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    fn running(running: usize) -> Peaks {
        Peaks { running, ..Peaks::default() }
    }

    #[test]
    fn a_peak_is_remembered_for_one_window_and_forgotten_after_two() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut recent = RecentPeaks::default();
        recent.note(running(1), at(0));
        recent.note(running(9), at(59));
        recent.note(running(2), at(59));
        assert_eq!(recent.seen_at(at(59)).running, 9);
        assert_eq!(recent.seen_at(at(118)).running, 9, "a minute later");
        assert_eq!(recent.seen_at(at(181)).running, 2, "and no longer than two");
        recent.note(running(3), at(70));
        assert_eq!(recent.seen_at(at(129)).running, 9);
        assert_eq!(recent.seen_at(at(131)).running, 3);
        assert_eq!(recent.ever().running, 9);
    }

    #[test]
    fn a_level_that_holds_is_a_peak_however_old_it_is() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut recent = RecentPeaks::default();
        recent.note(running(5), at(0));
        assert_eq!(recent.seen_at(at(10_000)).running, 5);
        recent.note(running(0), at(10_000));
        assert_eq!(recent.seen_at(at(10_050)).running, 5, "it was so until just now");
        assert_eq!(recent.seen_at(at(10_121)).running, 0);
    }

    #[test]
    fn reading_takes_nothing_away() {
        let now = Instant::now();
        let mut recent = RecentPeaks::default();
        recent.note(running(7), now);
        recent.note(running(0), now);
        assert_eq!([recent.seen_at(now).running, recent.seen_at(now).running], [7, 7]);
    }
}
