//! Closing: nobody is let in, what has not started ends, and what runs is asked to stop.

use std::time::Duration;

use super::Compartment;
use super::delivery::Mail;
use super::state::State;
use crate::error::Rejection;
use crate::sync::Arc;

/// A worker that runs a job, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stuck {
    pub(crate) worker: usize,
    pub(crate) age: Duration,
}

impl Compartment {
    /// Lets nobody in any more; what was accepted still runs.
    pub(crate) fn drain(&self) {
        self.change(State::drain);
    }

    /// Ends every accepted job that has not started. Their callers are told here, and their
    /// closures dropped by the timekeeper. Returns how long each had waited.
    pub(crate) fn end_unstarted(&self) -> Vec<Duration> {
        let now = self.now();
        let mut mail = Mail::new();
        {
            let mut locked = self.locked.lock();
            locked.state.end_unstarted(Rejection::ShuttingDown, now, &mut mail);
            self.seal(&mut locked, &mail);
            self.leave_to_timekeeper(&mut locked, &mail);
        }
        let waits = mail.ended().map(|(_, _, waited)| waited).collect();
        self.deliver_keeping(&mail);
        waits
    }

    /// Asks whatever still runs to stop: it sees itself cancelled, and the timekeeper runs its abort
    /// hooks, so that none of them can hold up whoever shuts down.
    pub(crate) fn abort_running(&self) {
        let now = self.now();
        {
            let mut locked = self.locked.lock();
            let running = locked.state.running(now).map(|(_, job, _)| Arc::clone(job));
            let running: Vec<_> = running.inspect(|job| job.header().cancelled.raise()).collect();
            locked.aborts.extend(running);
            locked.tick = true;
        }
        // WAKE: there is one timekeeper, and `tick` is set under the lock.
        self.time.notify_one();
    }

    /// The jobs that run now, and for how long they have.
    pub(crate) fn stuck(&self) -> Vec<Stuck> {
        let now = self.now();
        let locked = self.locked.lock();
        locked.state.running(now).map(|(worker, _, age)| Stuck { worker, age }).collect()
    }
}
