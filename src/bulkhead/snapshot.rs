//! [`Snapshot`]: a bulkhead's numbers at one instant.

use std::fmt;
use std::time::Duration;

use crate::compartment::{Compartment, Histogram, Peaks, Totals};
use crate::error::Rejection;
use crate::time::Age;

/// The numbers of one bulkhead at one instant.
///
/// Everything from `running` to `run_times`, `arrivals` excepted, is read under one lock, so it agrees
/// with itself. The counts of arrivals and refusals are kept apart, to keep refusing cheap: at rest
/// `arrivals` is `totals.accepted` plus all refusals, and in between it is never less.
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
    /// Those of the queued jobs that have a slot already, and whose thread is on its way. The others
    /// are never more than `queue`.
    pub starting: usize,
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
            starting: numbers.ready,
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

/// One line; with `{:#}` several, with everything that a person on call may want to know.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { self.write_lines(f) } else { self.write_line(f) }
    }
}

impl Snapshot {
    fn write_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.bulkhead)?;
        self.write_now(f)?;
        let (accepted, refused) = (self.totals.accepted, self.rejected_in_all());
        write!(f, "; {} arrived, {accepted} accepted, {refused} refused", self.arrivals)?;
        write_counts(f, Rejection::ALL.map(|why| (why.as_str(), self.rejected(why))))
    }

    /// The worst first.
    fn write_now(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(full) = self.saturated_for {
            write!(f, "full for {}, ", Age(full))?;
        }
        let Self { limit, queue, running, overdue, waiting, .. } = self;
        write!(f, "{running} of {limit} threads running")?;
        if *overdue > 0 {
            write!(f, ", {overdue} overdue")?;
        }
        if let Some(age) = self.oldest_running {
            write!(f, ", oldest runs for {}", Age(age))?;
        }
        write!(f, ", {} of {queue} queued", self.queued - self.starting)?;
        if self.starting > 0 {
            write!(f, ", {} starting", self.starting)?;
        }
        if let Some(age) = self.oldest_queued {
            write!(f, ", oldest queued for {}", Age(age))?;
        }
        if *waiting > 0 {
            write!(f, ", {waiting} callers waiting")?;
        }
        Ok(())
    }

    fn write_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = &self.totals;
        write!(f, "{}\n  now      ", self.bulkhead)?;
        self.write_now(f)?;
        let Peaks { running, queued, waiting, .. } = self.recent;
        write!(f, "\n  peaks    {running} running, {queued} queued, {waiting} waiting, lately")?;
        let refused = self.rejected_in_all();
        write!(
            f,
            "\n  arrived  {}: {} accepted, {refused} refused",
            self.arrivals, totals.accepted
        )?;
        write_counts(f, Rejection::ALL.map(|why| (why.as_str(), self.rejected(why))))?;
        write!(f, "\n  ended    {}", totals.ended())?;
        let (returned, panicked) = (("returned", totals.returned), ("panicked", totals.panicked));
        let unstarted = Rejection::ALL.map(|why| (why.as_str(), totals.not_started(why)));
        write_counts(f, [returned, panicked].into_iter().chain(unstarted))?;
        if totals.call_limit_running > 0 {
            write!(f, "; {} after its caller had left", totals.call_limit_running)?;
        }
        write!(f, "\n  waits    {}", Quantiles(&self.wait_times))?;
        write!(f, "\n  runs     {}", Quantiles(&self.run_times))?;
        write!(f, "\n  in all   busy for {}, full for {}", Age(totals.busy), Age(totals.full))?;
        let (hooks, drops) = (self.hook_panics, self.drop_panics);
        if hooks + drops > 0 {
            write!(f, "\n  panics   {hooks} in hooks or the clock, {drops} in destructors")?;
        }
        Ok(())
    }
}

/// In brackets, those that have happened.
fn write_counts<'a>(
    f: &mut fmt::Formatter<'_>,
    counts: impl IntoIterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    let mut before = " (";
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        write!(f, "{before}{name} {count}")?;
        before = ", ";
    }
    if before == ", " { f.write_str(")") } else { Ok(()) }
}

/// Bounds that half of all durations, and nearly all of them, keep.
struct Quantiles<'a>(&'a Histogram);

impl fmt::Display for Quantiles<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.count();
        if all == 0 {
            return f.write_str("none yet");
        }
        for (share, said) in [(50, "half"), (99, "99 %")] {
            let mut seen = 0;
            let reached = self.0.counts().iter().position(|count| {
                seen += count;
                seen * 100 >= all * share
            });
            let bounds = self.0.bounds();
            match (reached.and_then(|bucket| bounds.get(bucket)), bounds.last()) {
                (Some(bound), _) => write!(f, "{said} within {}, ", Age(*bound))?,
                (None, Some(last)) => write!(f, "{said} up to more than {}, ", Age(*last))?,
                (None, None) => {}
            }
        }
        write!(f, "{all} in all")
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
