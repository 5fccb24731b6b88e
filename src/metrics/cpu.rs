//! [`Ledger`]: how much CPU time the threads of bulkheads have had, and how long they waited for it.
//!
//! The system counts by thread and forgets a thread when it ends. Here what a thread had is kept for
//! its bulkhead, so that the sum never falls.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// What the system says of one thread, or the sum over some.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// On a core.
    pub(super) ran: Duration,
    /// Ready to run, with no core free.
    pub(super) waited: Duration,
}

impl Times {
    fn plus(self, other: Self) -> Self {
        Self {
            ran: self.ran.saturating_add(other.ran),
            waited: self.waited.saturating_add(other.waited),
        }
    }
}

/// What has been read so far, by compartment.
#[derive(Debug, Default)]
pub(super) struct Ledger(HashMap<u64, Account>);

#[derive(Debug, Default)]
struct Account {
    /// Of threads that have ended, as far as it was read.
    ended: Times,
    alive: HashMap<u32, Times>,
    /// The system has said anything at all.
    is_known: bool,
}

impl Ledger {
    /// The sum over a compartment's threads, of which these are alive; `None` where the system does
    /// not say.
    pub(super) fn read(
        &mut self,
        compartment: u64,
        threads: impl Iterator<Item = u32>,
        times_of: impl Fn(u32) -> Option<Times>,
    ) -> Option<Times> {
        let account = self.0.entry(compartment).or_default();
        let before = std::mem::take(&mut account.alive);
        for tid in threads {
            let old = before.get(&tid).copied().unwrap_or_default();
            // If it cannot be read the thread is about to go; what it had stays.
            let new = times_of(tid).inspect(|_| account.is_known = true).unwrap_or(old);
            account.alive.insert(tid, new);
        }
        for (tid, old) in before {
            // A number that has less than before is a new thread's.
            if account.alive.get(&tid).is_none_or(|new| new.ran < old.ran) {
                account.ended = account.ended.plus(old);
            }
        }
        let sum = account.alive.values().fold(account.ended, |sum, one| sum.plus(*one));
        account.is_known.then_some(sum)
    }

    /// Forgets compartments that are gone.
    pub(super) fn keep(&mut self, is_there: impl Fn(u64) -> bool) {
        self.0.retain(|compartment, _| is_there(*compartment));
    }
}

/// What the system says of a thread of this process. Only Linux does.
pub(super) fn times_of(tid: u32) -> Option<Times> {
    parse(&fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?)
}

/// The text is three numbers: nanoseconds on a core, nanoseconds of waiting for one, turns.
fn parse(schedstat: &str) -> Option<Times> {
    let mut numbers = schedstat.split_whitespace().map(|number| number.parse().ok());
    let (ran, waited) = (numbers.next()??, numbers.next()??);
    Some(Times { ran: Duration::from_nanos(ran), waited: Duration::from_nanos(waited) })
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    fn times(ran: u64, waited: u64) -> Times {
        Times { ran: Duration::from_nanos(ran), waited: Duration::from_nanos(waited) }
    }

    #[test]
    fn the_time_of_a_thread_that_ended_is_kept() {
        let mut ledger = Ledger::default();
        let first = |tid| Some(times(u64::from(tid) * 10, 1));
        assert_eq!(ledger.read(7, [1, 2].into_iter(), first), Some(times(30, 2)));
        let later = |tid| Some(times(u64::from(tid) * 10 + 5, 2));
        assert_eq!(ledger.read(7, [2, 3].into_iter(), later), Some(times(10 + 25 + 35, 5)));
        assert_eq!(ledger.read(7, [].into_iter(), later), Some(times(70, 5)));
    }

    #[test]
    fn a_number_that_the_system_gives_to_a_new_thread_starts_anew() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.read(7, [1].into_iter(), |_| Some(times(100, 9))), Some(times(100, 9)));
        assert_eq!(ledger.read(7, [1].into_iter(), |_| Some(times(3, 1))), Some(times(103, 10)));
    }

    #[test]
    fn a_thread_that_cannot_be_read_keeps_what_it_had() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.read(7, [1].into_iter(), |_| None), None);
        assert_eq!(ledger.read(7, [1].into_iter(), |_| Some(times(5, 5))), Some(times(5, 5)));
        assert_eq!(ledger.read(7, [1].into_iter(), |_| None), Some(times(5, 5)));
    }

    #[test]
    fn only_three_numbers_are_an_answer_of_the_system() {
        assert_eq!(parse("1041864 12 2\n"), Some(times(1_041_864, 12)));
        assert_eq!(parse(""), None);
        assert_eq!(parse("x y z"), None);
    }
}
