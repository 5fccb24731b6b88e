//! The life of a timekeeper thread: time passes even when every worker is wedged.
//!
//! Every bulkhead has one, because a caller can bring a deadline to any of them. It sleeps until the
//! earliest limit that no blocked caller watches, and for good while there is none.

use std::time::Instant;

use super::{Compartment, Mail, Pinning, Scheduling, here};

impl Compartment {
    /// The body of the timekeeper thread.
    pub(crate) fn keep_time(&self) {
        here::belongs_to(self.runtime);
        // Neither pinned nor scheduled as the workers are: it must be punctual when they starve.
        if !self.check_in(None, Pinning::NotAsked, Scheduling::NotAsked) {
            return;
        }
        let mut reached = None;
        while self.tick(reached) {
            reached = self.sleep_until_next_limit();
        }
        self.close_resources();
    }

    /// Acts on every limit that has come: ends, wakes, then drops. Says whether there will be more.
    ///
    /// `reached` has come for sure, since somebody has waited for it, whatever a coarse clock says.
    pub(crate) fn tick(&self, reached: Option<Instant>) -> bool {
        let now = self.now();
        let now = reached.map_or(now, |reached| now.max(reached));
        let mut mail = Mail::new();
        let (discards, aborts, more) = {
            let mut locked = self.locked.lock();
            locked.state.sweep(now, &mut mail);
            self.seal(&mut locked, &mail);
            let discards = std::mem::take(&mut locked.discards);
            (discards, std::mem::take(&mut locked.aborts), !locked.state.is_drained())
        };
        self.deliver(&mail);
        for job in aborts {
            self.abort(job.header());
        }
        for (job, why) in discards {
            // Whoever ended the job tells its caller too; the first to come does, and the closure is
            // dropped only after that.
            job.end_unstarted(why);
            self.discard(&job);
        }
        more
    }

    /// Returns the limit that has come, if that is what has ended the sleep.
    pub(crate) fn sleep_until_next_limit(&self) -> Option<Instant> {
        let mut locked = self.locked.lock();
        // What has been asked for since the last tick is looked at first. The request is taken back
        // here, before the tick that answers it reads the clock: a clock that is moved while a tick
        // is under way leaves its request standing.
        while !std::mem::take(&mut locked.tick) {
            match locked.state.timekeeper_sleeps().filter(|_| self.callers_keep_time()) {
                None => locked = self.time.wait(locked),
                Some(until) => {
                    let (guard, timed_out) = self.time.wait_until(&self.locked, locked, until);
                    locked = guard;
                    if timed_out {
                        return Some(until);
                    }
                }
            }
        }
        None
    }

    /// The clock was moved by hand: the timekeeper looks at once.
    pub(crate) fn clock_moved(&self) {
        self.locked.lock().tick = true;
        // WAKE: there is one timekeeper, and `tick` is set under the lock.
        self.time.notify_one();
    }
}
