//! On the worker: taking a job that has a slot, giving the slot back, looking for work.

use std::time::{Duration, Instant};

use super::outbox::Outbox;
use super::{Phase, Running, State};
use crate::error::Rejection;
use crate::event::Outcome;

/// A job that a worker has taken.
#[derive(Debug, Clone)]
pub(crate) struct Taken<J> {
    pub(crate) job: J,
    pub(crate) waited: Duration,
}

impl<J: Clone> State<J> {
    /// Gives `worker` the next job that has a slot.
    ///
    /// `searching` says that it was counted as looking: it stops looking either way.
    pub(crate) fn take(
        &mut self,
        worker: usize,
        searching: bool,
        now: Instant,
        out: &mut Outbox<J>,
    ) -> Option<Taken<J>> {
        if searching {
            self.searching -= 1;
        }
        self.expire(now, out);
        while let Some(entry) = self.ready.pop_front() {
            if entry.deadline.is_past(now) {
                self.taken -= 1;
                self.end(entry, Rejection::DeadlinePast, now, out);
                self.fill(now, out);
                continue;
            }
            self.note_levels(now, out);
            let waited = now.saturating_duration_since(entry.since);
            let taken = Taken { job: entry.job.clone(), waited };
            debug_assert!(self.running[worker].is_none(), "a worker took a second job");
            self.running[worker] = Some(Running { entry, started: now });
            self.wait_times.record(waited);
            // Nobody else may know of the rest, and this job may take long after all.
            self.staff(out);
            return Some(taken);
        }
        self.note_levels(now, out);
        self.note_end(out);
        None
    }

    /// The closure of `worker`'s job has returned and its captures are dropped. Says how long it ran.
    ///
    /// From here on the worker counts as looking for work, until it takes a job or stops: so nobody is
    /// woken for what it is about to find itself.
    pub(crate) fn release(
        &mut self,
        worker: usize,
        outcome: Outcome,
        now: Instant,
        out: &mut Outbox<J>,
    ) -> Duration {
        let now = self.not_before_latest(now);
        // PANIC: a worker releases what `take` gave it, once; the wrapper's loop has no other order.
        let Running { mut entry, started } =
            self.running[worker].take().expect("a worker releases the job that it took");
        self.searching += 1;
        self.set_alarm(&mut entry, None, out);
        self.taken -= 1;
        let ran = now.saturating_duration_since(started);
        self.totals.busy = self.totals.busy.saturating_add(ran);
        self.totals.count(outcome);
        self.run_times.record(ran);
        self.expire(now, out);
        self.fill(now, out);
        self.note_levels(now, out);
        self.note_end(out);
        ran
    }

    /// Takes note of whether jobs usually end sooner than a sleeper wakes.
    pub(crate) fn note_pace(&mut self, quick: bool) {
        self.quick = quick;
    }

    /// The worker found nothing and stays awake to look again.
    pub(crate) fn start_search(&mut self) {
        self.searching += 1;
    }

    /// The worker has something else to do first, of which nobody knows how long it takes.
    pub(crate) fn stop_search(&mut self, out: &mut Outbox<J>) {
        self.searching -= 1;
        self.staff(out);
    }

    /// The worker found nothing and goes to sleep. Whoever wakes it counts it as searching.
    pub(crate) fn fall_asleep(&mut self) {
        debug_assert!(self.ready.is_empty(), "a worker sleeps while a job waits for a thread");
        self.sleeping += 1;
    }

    /// Whether one worker that looks already is enough, so that another may sleep at once.
    pub(crate) fn is_searched(&self) -> bool {
        self.searching > 0
    }

    /// Whether a worker that has just found nothing is not needed any more. If anything is queued,
    /// every slot is taken, and the workers that hold them come back for it.
    pub(crate) fn may_leave(&self) -> bool {
        self.phase == Phase::Draining
    }

    /// Whether every accepted job has ended and no more will come.
    pub(crate) fn is_drained(&self) -> bool {
        self.phase == Phase::Draining && self.taken == 0 && self.lane.queue.is_empty()
    }
}
