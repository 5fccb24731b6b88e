//! [`Snapshot`]: a bulkhead's numbers at one instant.

use std::fmt;
use std::time::Duration;

use crate::compartment::{Compartment, Histogram, Peaks, Totals};
use crate::error::Rejection;

/// The numbers of one bulkhead at one instant.
///
/// Everything from `running` to `run_times`, `arrivals` excepted, is read under one lock, so it agrees with itself. The
/// counts of arrivals and refusals are kept apart, to keep refusing cheap: at rest `arrivals` is
/// `totals.accepted` plus all refusals, and in between it is never less.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Snapshot {
    /// The bulkhead's name.
    pub bulkhead: String,
    /// Its threads.
    pub threads: usize,
    /// How many jobs may be queued.
    pub queue: usize,
    /// How many jobs may run at once; at most `threads`.
    pub limit: usize,
    /// Jobs that run now.
    pub running: usize,
    /// Jobs that have been accepted and have not started.
    pub queued: usize,
    /// Callers that wait for a place.
    pub waiting: usize,
    /// Running jobs whose caller is gone: its time passed, or it dropped the call's future.
    pub overdue: usize,
    /// How long the longest-running job has been running.
    pub oldest_running: Option<Duration>,
    /// How long the longest-queued job has been queued.
    pub oldest_queued: Option<Duration>,
    /// How long the bulkhead has been full without a break, if it is.
    pub saturated_for: Option<Duration>,
    /// Calls that have come, refused ones included.
    pub arrivals: u64,
    /// What has happened since the bulkhead was built.
    pub totals: Totals,
    /// The highest values of the last minute or two.
    pub recent: Peaks,
    /// How long jobs waited between their acceptance and their start, those that started.
    pub wait_times: Histogram,
    /// How long jobs ran, those that returned or panicked.
    pub run_times: Histogram,
    /// Panics in hooks of the observer, of threads and of aborted jobs, and in the clock, caught.
    pub hook_panics: u64,
    /// Panics in destructors of closures that were never started, caught.
    pub drop_panics: u64,
    rejected: [u64; Rejection::COUNT],
}

impl Snapshot {
    pub(crate) fn of(compartment: &Compartment) -> Self {
        let (numbers, overdue) = compartment.numbers();
        let rejected = Rejection::ALL.map(|why| compartment.refusals(why));
        Self {
            bulkhead: compartment.name().to_owned(),
            threads: compartment.rules.threads,
            queue: compartment.rules.queue,
            limit: numbers.limit,
            running: numbers.running,
            queued: numbers.queued + numbers.ready,
            waiting: numbers.waiting,
            overdue,
            oldest_running: numbers.oldest_running,
            oldest_queued: numbers.oldest_queued,
            saturated_for: numbers.saturated_for,
            arrivals: compartment.arrivals(),
            totals: numbers.totals,
            recent: numbers.recent,
            wait_times: numbers.wait_times,
            run_times: numbers.run_times,
            hook_panics: compartment.hook_panics(),
            drop_panics: compartment.drop_panics(),
            rejected,
        }
    }

    /// Submissions refused at the door for this reason.
    #[must_use]
    pub const fn rejected(&self, why: Rejection) -> u64 {
        self.rejected[why.index()]
    }

    /// Submissions refused at the door, for whichever reason.
    #[must_use]
    pub fn rejected_in_all(&self) -> u64 {
        self.rejected.iter().sum()
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bulkhead, threads, queue, running, queued, waiting, overdue, .. } = self;
        write!(
            f,
            "{bulkhead}: {running} of {threads} threads running, {queued} queued (of {queue})"
        )?;
        if *waiting > 0 {
            write!(f, ", {waiting} callers waiting")?;
        }
        if *overdue > 0 {
            write!(f, ", {overdue} overdue")?;
        }
        if let Some(age) = self.oldest_running {
            write!(f, ", oldest runs for {age:.1?}")?;
        }
        if let Some(full) = self.saturated_for {
            write!(f, ", full for {full:.1?}")?;
        }
        let (accepted, refused) = (self.totals.accepted, self.rejected_in_all());
        write!(f, "; {} arrived, {accepted} accepted, {refused} refused", self.arrivals)?;
        for why in Rejection::ALL {
            match self.rejected(why) {
                0 => {}
                n => write!(f, " ({why} {n})")?,
            }
        }
        Ok(())
    }
}

/// What a bulkhead can cost its callers: see [`Bulkhead::footprint`](crate::Bulkhead::footprint).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Footprint {
    /// The most callers that can be inside at once: running, queued, and waiting for a place.
    pub callers: usize,
    /// The longest that one of them is held by `call`; `None` without a limit.
    pub longest_call: Option<Duration>,
    /// The longest that one is held by `submit`, which only waits for a place; `None` without a
    /// limit.
    pub longest_submit: Option<Duration>,
}
