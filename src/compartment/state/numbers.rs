//! What others may know: the numbers at one instant, and what a newcomer sees at the door.

use std::time::{Duration, Instant};

use super::{Phase, State};
use crate::compartment::door::Door;
use crate::compartment::histogram::Histogram;
use crate::compartment::peaks::Peaks;
use crate::compartment::policy::RejectionPolicy;
use crate::compartment::totals::Totals;

/// The numbers at one instant. See the public `Snapshot`, which is made from it.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    pub(crate) limit: usize,
    pub(crate) running: usize,
    pub(crate) ready: usize,
    pub(crate) queued: usize,
    pub(crate) waiting: usize,
    pub(crate) oldest_running: Option<Duration>,
    pub(crate) oldest_queued: Option<Duration>,
    pub(crate) saturated_for: Option<Duration>,
    pub(crate) totals: Totals,
    pub(crate) recent: Peaks,
    pub(crate) wait_times: Histogram,
    pub(crate) run_times: Histogram,
}

impl<J: Clone> State<J> {
    /// Whether a newcomer that will not wait is refused, one that will is too, and nobody is let in.
    pub(crate) fn door(&self) -> Door {
        Door {
            full: !self.has_vacancy() && self.rules.policy != RejectionPolicy::DropOldest,
            crowded: self.lane.waiters.len() >= self.rules.submitters(),
            closed: self.phase != Phase::Open,
            queued: self.lane.queue.len(),
            waiting: self.lane.waiters.len(),
        }
    }

    /// Jobs that wait for a thread.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn levels(&self) -> Peaks {
        let (running, queued) = (self.taken - self.ready.len(), self.lane.queue.len());
        Peaks { running, queued, waiting: self.lane.waiters.len() }
    }

    pub(crate) fn numbers(&self, now: Instant) -> Numbers {
        let now = self.not_before_latest(now);
        let age = |since: Instant| now.saturating_duration_since(since);
        let running_ages = self.running.iter().flatten().map(|running| age(running.started));
        let running_now = running_ages.clone().fold(Duration::ZERO, Duration::saturating_add);
        let oldest_ready = self.ready.front().map(|entry| entry.since);
        let oldest_queued = self.lane.queue.front().map(|entry| entry.since);
        let mut totals = self.totals.clone();
        totals.peaks = self.recent.ever();
        totals.busy = totals.busy.saturating_add(running_now);
        let saturated_for = self.full_since.map(age);
        totals.full = totals.full.saturating_add(saturated_for.unwrap_or_default());
        Numbers {
            limit: self.limit,
            running: self.levels().running,
            ready: self.ready.len(),
            queued: self.lane.queue.len(),
            waiting: self.lane.waiters.len(),
            oldest_running: running_ages.max(),
            oldest_queued: oldest_ready.into_iter().chain(oldest_queued).min().map(age),
            saturated_for,
            totals,
            recent: self.recent.seen_at(now),
            wait_times: self.wait_times.clone(),
            run_times: self.run_times.clone(),
        }
    }

    pub(crate) fn is_running(&self, seq: u64) -> bool {
        self.running.iter().flatten().any(|running| running.entry.seq == seq)
    }

    /// The jobs that run now: worker, job, and for how long.
    pub(crate) fn running(&self, now: Instant) -> impl Iterator<Item = (usize, &J, Duration)> {
        self.running.iter().enumerate().filter_map(move |(worker, running)| {
            let running = running.as_ref()?;
            Some((worker, &running.entry.job, now.saturating_duration_since(running.started)))
        })
    }

    #[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
    pub(crate) fn has_alarms(&self) -> bool {
        !self.alarms.is_empty()
    }
}
