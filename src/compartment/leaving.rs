//! Leaving early: jobs that are taken out, limits that have come, callers that go.

use std::time::Instant;

use super::state::Withdrawn;
use super::{Compartment, Header, Job};
use crate::error::Rejection;
use crate::sync::Arc;
use crate::time::Deadline;

/// What a caller does that has waited until one of its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterWait {
    /// Another limit is next.
    WaitOn,
    /// Its time is up, and its job runs.
    Leave,
    /// Its job is over, or was sent away: what became of it is on its way to the slot.
    Hear,
}

impl Compartment {
    /// Takes a job out before it starts, if it is not too late.
    pub(crate) fn withdraw(&self, seq: u64, why: Rejection) -> Withdrawn<Arc<dyn Job>> {
        let now = self.now();
        self.change(|state, mail| state.withdraw(seq, why, now, mail))
    }

    /// Ends a queued job that a worker of this compartment is about to wait for.
    pub(crate) fn break_ring(&self, seq: u64) {
        let now = self.now();
        self.change(|state, mail| state.break_ring(seq, now, mail));
    }

    /// The limit that a job at the door or in the queue has.
    pub(crate) fn limit_of(&self, seq: u64) -> Option<Instant> {
        self.locked.lock().state.alarm_of(seq)
    }

    /// Acts on the limits that have come, at the latest by `reached`.
    pub(crate) fn sweep(&self, reached: Instant) {
        let now = self.now().max(reached);
        self.change(|state, mail| state.sweep(now, mail));
    }

    /// A caller that watches its own limits has waited until `reached`. Says what it is to do.
    pub(crate) fn caller_woke(&self, seq: u64, deadline: Deadline, reached: Instant) -> AfterWait {
        // Having waited for it, the instant has come, whatever a coarse clock says.
        let now = self.now().max(reached);
        self.change(|state, mail| {
            state.sweep(now, mail);
            if state.alarm_of(seq).is_some() || !deadline.is_past(now) {
                return AfterWait::WaitOn;
            }
            match state.withdraw(seq, Rejection::DeadlinePast, now, mail) {
                Withdrawn::Gone if state.is_running(seq) => AfterWait::Leave,
                // Whoever ended it, here or on another thread, has taken it out of the state and is
                // about to say so.
                _ => AfterWait::Hear,
            }
        })
    }

    /// Counts a caller that has left a running job at its deadline by itself.
    pub(crate) fn count_call_limit(&self) {
        self.locked.lock().state.count_call_limits(1);
    }

    /// Tells a running job that nobody wants its result any more. Its hooks act on this thread.
    pub(crate) fn abort(&self, job: &Header) {
        self.vitals.hook_panics.add(job.abort.give());
    }
}
