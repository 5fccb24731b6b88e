//! [`Facts`] and [`Vitals`]: what an error, an event or a log line may say about a bulkhead.

use std::time::Duration;

use crate::name::Name;
use crate::sync::{Kept, Tally};

/// What was decided about a bulkhead when it was built.
///
/// Errors point at it, and outlive the bulkhead; so it is kept for good. A shared pointer would be
/// counted up and down with every refusal, on one cache line for all the threads that are refused: just
/// when a thread must lose no time. What stays is bounded by the number of different descriptions that
/// the process builds, some 150 bytes each; equal ones are kept once.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Facts {
    pub(crate) name: Name,
    pub(crate) threads: usize,
    pub(crate) queue: usize,
    /// How many callers may wait for a place, and how long; 0 if none may.
    pub(crate) submitters: usize,
    pub(crate) at_most: Duration,
    pub(crate) queue_limit: Option<Duration>,
    pub(crate) call_limit: Option<Duration>,
}

impl Facts {
    pub(crate) fn keep(self) -> &'static Self {
        static KEPT: Kept<Facts> = Kept::new();
        KEPT.keep(self)
    }

    /// How long until `jobs` jobs have ended, all threads working, if they go on at this pace.
    pub(crate) fn time_for(&self, jobs: usize, pace: Pace) -> Option<Duration> {
        let rounds = jobs.div_ceil(self.threads.max(1));
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        pace.of_one().map(|of_one| of_one.saturating_mul(rounds))
    }
}

/// How long one job runs: nanoseconds, 0 until a job has ended. A refusal notes it as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace(u64);

impl Pace {
    pub(crate) fn of_one(self) -> Option<Duration> {
        (self.0 != 0).then(|| Duration::from_nanos(self.0))
    }
}

/// The facts, and what a bulkhead learns about itself.
#[derive(Debug)]
pub(crate) struct Vitals {
    pub(crate) facts: &'static Facts,
    /// A moving average of the run time in nanoseconds; 0 until a job has ended.
    pace: Tally,
    /// Panics of hooks and of the clock. Here, where a job can count its own, too.
    pub(crate) hook_panics: Tally,
}

impl Vitals {
    pub(crate) const fn new(facts: &'static Facts) -> Self {
        Self { facts, pace: Tally::new(0), hook_panics: Tally::new(0) }
    }

    /// Learns from a run. Called under the compartment's lock, so that no sample is lost.
    pub(crate) fn learn(&self, ran: Duration) {
        let sample = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX).max(1);
        let before = self.pace.get();
        // One part in eight: follows a change of the dependency within some ten jobs, and is not
        // thrown by one slow answer.
        let now = if before == 0 { sample } else { before - before / 8 + sample / 8 };
        self.pace.set(now.max(1));
    }

    pub(crate) fn pace(&self) -> Pace {
        Pace(self.pace.get())
    }

    /// Whether jobs usually end sooner than a thread can be put to sleep and woken.
    pub(crate) fn is_quick(&self) -> bool {
        self.pace().of_one().is_some_and(|pace| pace < Duration::from_micros(20))
    }
}
