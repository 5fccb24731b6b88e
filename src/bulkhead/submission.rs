//! The way of a closure into a compartment, and of the answer back to a blocked caller.

use super::Bulkhead;
use crate::compartment::{
    Admission, AfterWait, Answer, AtDoor, Context, Header, Job, JobCell, Route, ToCaller, Woken,
    here,
};
use crate::error::{CallError, Rejected, Rejection, TimeLimit, TimedOut};
use crate::sync::Arc;
use crate::time::Deadline;

/// Whether a submission may wait for a place, where the policy has it wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    MayWait,
    Never,
}

/// When a call's time is up.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// The bulkhead's own limit, from when the call comes in.
    CallLimit,
    Deadline(Deadline),
}

/// A job that has a place, and the number by which it can be withdrawn.
pub(super) type BroughtIn<F, T, R> = (Arc<JobCell<F, T, R>>, u64);

impl Bulkhead {
    /// Turns away who has no chance, at the price of one atomic read and two counts.
    ///
    /// INLINE: into callers that do nothing else themselves, so that a refusal does not pay for the
    /// registers and the stack of an admission.
    #[inline]
    pub(super) fn greet<F>(&self, manner: Manner, job: F) -> Result<F, Rejected<F>> {
        self.compartment.count_arrival();
        match self.compartment.turns_away(manner == Manner::MayWait) {
            None => Ok(job),
            Some((why, depth)) => {
                self.compartment.count_refusal(why);
                Err(Rejected::new(why, &self.compartment.vitals, depth, job))
            }
        }
    }

    /// Counts a refusal that was decided here, and hands the closure back.
    pub(super) fn turn_away<F, T, R>(
        &self,
        cell: &JobCell<F, T, R>,
        why: Rejection,
    ) -> Rejected<F> {
        self.compartment.count_refusal(why);
        self.give_back(cell, why)
    }

    /// Hands the closure of a job back that was sent away from the line.
    pub(super) fn give_back<F, T, R>(
        &self,
        cell: &JobCell<F, T, R>,
        why: Rejection,
    ) -> Rejected<F> {
        let depth = self.compartment.depth_for(why);
        // PANIC: a job's closure is taken once: by the worker, by whoever ends it unstarted, or, as
        // here, by whoever brought it. The compartment has said that this one was not let in.
        let job = cell.take_body().expect("a refused job still has its closure");
        Rejected::new(why, &self.compartment.vitals, depth, job)
    }

    pub(super) fn cell<F, T, R>(
        &self,
        deadline: Deadline,
        job: F,
        route: R,
    ) -> Arc<JobCell<F, T, R>> {
        Arc::new(JobCell::new(job, Header::new(self.compartment.id, deadline), route))
    }

    pub(super) fn deadline(&self, until: Until) -> Deadline {
        match until {
            Until::Deadline(deadline) => deadline,
            Until::CallLimit => {
                self.compartment.vitals.facts.call_limit.map_or(Deadline::never(), |limit| {
                    Deadline::from_now(self.compartment.now(), limit)
                })
            }
        }
    }

    /// Brings a job in, waiting for a place if it may.
    pub(super) fn bring_in<F, T, R>(
        &self,
        manner: Manner,
        deadline: Deadline,
        job: F,
        route: R,
    ) -> Result<BroughtIn<F, T, R>, Rejected<F>>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
        R: Route<T> + 'static,
    {
        let job = self.greet(manner, job)?;
        self.ask_in(manner, deadline, job, route)
    }

    #[inline(never)]
    fn ask_in<F, T, R>(
        &self,
        manner: Manner,
        deadline: Deadline,
        job: F,
        route: R,
    ) -> Result<BroughtIn<F, T, R>, Rejected<F>>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
        R: Route<T> + 'static,
    {
        let cell = self.cell(deadline, job, route);
        // Only the wait for a place is this caller's; the job itself it leaves to run.
        let patience = deadline.earlier(here::deadline());
        let may_wait = manner == Manner::MayWait;
        let offered = Arc::clone(&cell) as Arc<dyn Job>;
        let rejected = match self.compartment.offer(offered, patience, false, may_wait) {
            Admission::Accepted(seq) => return Ok((cell, seq)),
            Admission::Refused(_, why) => self.turn_away(&cell, why),
            Admission::Waiting(seq) => match self.wait_at_door(&cell, seq) {
                None => return Ok((cell, seq)),
                Some(why) => self.give_back(&cell, why),
            },
        };
        // Whoever sent it away may hold the cell a little longer; nothing of the user's is left in it.
        cell.recall();
        Err(rejected)
    }

    /// Waits for a place; a reason says that there is none.
    fn wait_at_door<F, T, R>(&self, cell: &JobCell<F, T, R>, seq: u64) -> Option<Rejection> {
        loop {
            // The timekeeper watches this limit too, for the time when nobody waits; here the
            // caller need not rely on it.
            let until = if self.compartment.callers_keep_time() {
                self.compartment.limit_of(seq)
            } else {
                None
            };
            match cell.slot().wait_at_door(until) {
                AtDoor::Refused(why) => return Some(why),
                AtDoor::Granted => return None,
                AtDoor::TimedOut => {
                    let reached = until.unwrap_or_else(|| self.compartment.now());
                    self.compartment.sweep(reached);
                }
            }
        }
    }

    pub(super) fn call_and_wait<F, T>(&self, until: Until, job: F) -> Answer<T>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        let job = self.greet(Manner::MayWait, job)?;
        self.ask_in_and_wait(until, job)
    }

    #[inline(never)]
    fn ask_in_and_wait<F, T>(&self, until: Until, job: F) -> Answer<T>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        let deadline = self.deadline(until).earlier(here::deadline());
        let cell = self.cell(deadline, job, ToCaller);
        let _waiting = here::current_job().map(|current| here::wait_for(cell.header(), current));
        let covered = self.compartment.callers_keep_time();
        let offered = Arc::clone(&cell) as Arc<dyn Job>;
        let seq = match self.compartment.offer(offered, deadline, covered, true) {
            Admission::Refused(_, why) => return Err(self.turn_away(&cell, why).into()),
            Admission::Accepted(seq) | Admission::Waiting(seq) => seq,
        };
        self.wait_out(&cell, seq, deadline, covered)
    }

    /// Waits for the answer and watches the job's limits meanwhile, if that is up to the caller.
    fn wait_out<F, T>(
        &self,
        cell: &JobCell<F, T>,
        seq: u64,
        deadline: Deadline,
        covered: bool,
    ) -> Answer<T> {
        let next = || {
            // Past the queue only the deadline is left.
            let limit = || self.compartment.limit_of(seq).or(deadline.instant());
            if covered { limit() } else { None }
        };
        if self.compartment.vitals.is_quick() {
            cell.slot().look_briefly();
        }
        let mut until = next();
        loop {
            match cell.slot().wait(until) {
                Woken::Answer(answer) => return answer,
                Woken::Refused(why) => return Err(self.give_back(cell, why).into()),
                // In the queue another limit applies than at the door.
                Woken::Granted => until = next(),
                Woken::TimedOut => {
                    let reached = until.unwrap_or_else(|| self.compartment.now());
                    match self.compartment.caller_woke(seq, deadline, reached) {
                        AfterWait::WaitOn => until = next(),
                        AfterWait::Leave => return self.leave_running(cell),
                        AfterWait::Hear => until = None,
                    }
                }
            }
        }
    }

    /// The caller's time is up and the closure runs: leave it, unless its answer is just coming.
    fn leave_running<F, T>(&self, cell: &JobCell<F, T>) -> Answer<T> {
        if let Some(answer) = cell.slot().leave() {
            return answer;
        }
        cell.header().left.raise();
        self.compartment.abort(cell.header());
        self.compartment.count_call_limit();
        Err(self.timed_out())
    }

    pub(super) fn timed_out(&self) -> CallError {
        CallError::TimedOut(TimedOut::new(TimeLimit::Call, self.compartment.vitals.facts))
    }
}
