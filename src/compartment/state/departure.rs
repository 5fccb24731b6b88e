//! Leaving early: withdrawn, expired, or ended by closing.

use std::time::Instant;

use super::outbox::{News, Outbox};
use super::{Phase, State};
use crate::error::Rejection;
use crate::time::Deadline;

/// What a withdrawal found.
#[derive(Debug)]
pub(crate) enum Withdrawn<J> {
    /// It had no place yet; it has left the line.
    Waiting(J),
    /// It was accepted and is ended unstarted. Its end is in the outbox.
    Unstarted,
    /// It is running, or over.
    Gone,
}

impl<J: Clone> State<J> {
    /// Takes a job out of the line or the queue. `why` counts only if it had been accepted.
    pub(crate) fn withdraw(
        &mut self,
        seq: u64,
        why: Rejection,
        now: Instant,
        out: &mut Outbox<J>,
    ) -> Withdrawn<J> {
        let withdrawn = if let Some(mut waiter) = self.lane.waiters.remove(seq) {
            self.set_alarm(&mut waiter, None, out);
            Withdrawn::Waiting(waiter.job)
        } else if self.remove_unstarted(seq, why, now, out) {
            Withdrawn::Unstarted
        } else {
            Withdrawn::Gone
        };
        self.fill(now, out);
        self.note_levels(now, out);
        self.note_end(out);
        withdrawn
    }

    fn remove_unstarted(
        &mut self,
        seq: u64,
        why: Rejection,
        now: Instant,
        out: &mut Outbox<J>,
    ) -> bool {
        if let Some(entry) = self.lane.queue.remove(seq) {
            self.end(entry, why, now, out);
            return true;
        }
        let Some(index) = self.ready.iter().position(|entry| entry.seq == seq) else {
            return false;
        };
        // PANIC: `index` was found in the same deque just above.
        let entry = self.ready.remove(index).expect("the index was found just now");
        self.taken -= 1;
        self.end(entry, why, now, out);
        true
    }

    /// Ends a job that must not queue because the worker that would have to serve it waits for it.
    /// One that has a slot may stay: a thread is coming for it.
    pub(crate) fn break_ring(&mut self, seq: u64, now: Instant, out: &mut Outbox<J>) {
        if self.lane.queue.get(seq).is_some() {
            self.withdraw(seq, Rejection::WouldDeadlock, now, out);
        }
    }

    /// Acts on every limit that has come by `now`, as an operation of its own.
    pub(crate) fn sweep(&mut self, now: Instant, out: &mut Outbox<J>) {
        self.expire(now, out);
        self.note_levels(now, out);
    }

    pub(super) fn expire(&mut self, now: Instant, out: &mut Outbox<J>) {
        self.latest = self.latest.max(Some(now));
        let mut freed = false;
        // Waiting callers go first of all: a place freed by this very sweep must not go to one whose
        // time has passed. So nothing is handed on before the last limit has been acted on.
        while let Some(seq) = self.alarms.due(now) {
            if let Some(mut waiter) = self.lane.waiters.remove(seq) {
                let why = late_reason(waiter.patience, waiter.alarm, Rejection::WaitLimit);
                self.set_alarm(&mut waiter, None, out);
                out.news.push(News::Refused(waiter.job, why));
            } else if let Some(entry) = self.lane.queue.get(seq) {
                let why = late_reason(entry.deadline, entry.alarm, Rejection::QueueLimit);
                self.remove_unstarted(seq, why, now, out);
                freed = true;
            } else if self.remove_unstarted(seq, Rejection::DeadlinePast, now, out) {
                freed = true;
            } else {
                self.mark_overdue(seq, out);
            }
        }
        if freed {
            self.fill(now, out);
            self.note_end(out);
        }
    }

    fn mark_overdue(&mut self, seq: u64, out: &mut Outbox<J>) {
        let running = self.running.iter_mut().flatten().find(|running| running.entry.seq == seq);
        // PANIC: an alarm is cleared when its job ends, so whose alarm rings is in one of the places.
        let running = running.expect("an alarm belongs to a job that has not ended");
        if let Some(at) = running.entry.alarm.take() {
            self.alarms.clear(at, seq, running.entry.covered);
        }
        out.news.push(News::Overdue(running.entry.job.clone()));
    }

    /// The limit that job `seq` has while it waits or is queued, for the caller that watches it.
    pub(crate) fn alarm_of(&self, seq: u64) -> Option<Instant> {
        let entry = self.lane.waiters.get(seq).or_else(|| self.lane.queue.get(seq))?;
        entry.alarm
    }

    /// So many callers of running jobs are about to learn that their time has passed.
    pub(crate) fn count_call_limits(&mut self, callers: u64) {
        self.totals.call_limit_running += callers;
    }

    /// Lets nobody in any more. Waiting callers are sent away; accepted jobs still run.
    pub(crate) fn drain(&mut self, out: &mut Outbox<J>) {
        self.phase = Phase::Draining;
        while let Some(mut waiter) = self.lane.waiters.pop_front() {
            self.set_alarm(&mut waiter, None, out);
            out.news.push(News::Refused(waiter.job, Rejection::ShuttingDown));
        }
        // Every sleeper looks once more, and leaves or stays.
        out.wake_workers += self.sleeping;
        self.searching += self.sleeping;
        self.sleeping = 0;
        out.wake_timekeeper = true;
    }

    /// Ends every accepted job that has not started.
    pub(crate) fn end_unstarted(&mut self, why: Rejection, now: Instant, out: &mut Outbox<J>) {
        while let Some(entry) = self.ready.pop_front() {
            self.taken -= 1;
            self.end(entry, why, now, out);
        }
        while let Some(entry) = self.lane.queue.pop_front() {
            self.end(entry, why, now, out);
        }
        self.fill(now, out);
        self.note_levels(now, out);
        self.note_end(out);
    }
}

/// Which of two limits rang. Equal limits report the whole call: it is the caller's own.
fn late_reason(call: Deadline, alarm: Option<Instant>, other: Rejection) -> Rejection {
    let by_call = call.instant().is_some_and(|call| alarm.is_none_or(|alarm| call <= alarm));
    if by_call { Rejection::DeadlinePast } else { other }
}
