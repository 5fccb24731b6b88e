//! The life of a worker thread.

use std::fmt;

use super::context::Context;
use super::job::Ran;
use super::state::{State, Taken};
use super::{Compartment, Job, Mail, Scheduling, affinity, here, scheduling};
use crate::contain::contain;
use crate::event::{FinishedEvent, StartedEvent};
use crate::sync::{Arc, spin_until};

use super::affinity::Pinning;

/// A function that a user wants run when a thread starts or stops.
pub(crate) type ThreadHook = Arc<dyn Fn(&ThreadInfo<'_>) + Send + Sync>;

/// See the builder's `on_thread_start` and `on_thread_stop`.
#[derive(Default, Clone)]
pub(crate) struct Hooks {
    pub(crate) start: Option<ThreadHook>,
    pub(crate) stop: Option<ThreadHook>,
}

/// Which thread has started or is about to stop.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ThreadInfo<'a> {
    /// The bulkhead's name.
    pub bulkhead: &'a str,
    /// The worker's index, from 0.
    pub worker: usize,
}

impl Compartment {
    /// The body of worker thread number `worker`.
    pub(crate) fn work(&self, worker: usize) {
        here::belongs_to(self.runtime);
        let pinned = match &self.cores {
            Some(cores) => affinity::pin(cores, worker),
            None => Pinning::NotAsked,
        };
        let scheduled = self.precedence.map_or(Scheduling::NotAsked, scheduling::schedule);
        if !self.check_in(Some(worker), pinned, scheduled) {
            return;
        }
        self.run_hook(self.hooks.start.as_ref(), worker);
        let mut looking = false;
        while let Some(taken) = self.next_job(worker, looking) {
            looking = self.run(worker, taken);
        }
        self.run_hook(self.hooks.stop.as_ref(), worker);
    }

    fn run_hook(&self, hook: Option<&super::ThreadHook>, worker: usize) {
        if let Some(hook) = hook {
            let thread = ThreadInfo { bulkhead: self.name(), worker };
            self.contain_hook(|| hook(&thread));
        }
    }

    /// The next job, or `None` when the compartment closes and there is nothing left. `searching` says
    /// whether the state machine counts this worker as looking already.
    fn next_job(&self, worker: usize, mut searching: bool) -> Option<Taken<Arc<dyn Job>>> {
        let mut has_spun = false;
        loop {
            // SEARCHING
            let now = self.now();
            let mut mail = Mail::new();
            let mut locked = self.locked.lock();
            let taken = locked.state.take(worker, searching, now, &mut mail);
            searching = false;
            if taken.is_some() || locked.state.may_leave() {
                self.seal(&mut locked, &mail);
                drop(locked);
                self.deliver(&mail);
                return taken;
            }
            if !mail.is_empty() {
                // Taking found jobs that had expired. Their callers come before our sleep.
                self.seal(&mut locked, &mail);
                drop(locked);
                self.deliver(&mail);
                continue;
            }
            if !has_spun && !locked.state.is_searched() {
                // One worker that looks is enough: it will see the next job without being woken.
                has_spun = true;
                searching = true;
                locked.state.start_search();
                drop(locked);
                spin_until(|| self.ready.get() > 0);
                continue;
            }
            // ASLEEP
            locked.state.fall_asleep();
            while locked.wake_ups == 0 {
                locked = self.work.wait(locked);
            }
            locked.wake_ups -= 1;
            searching = true;
            has_spun = false;
        }
    }

    /// Runs one job, in the order that the callers are promised: closure and captures, result that
    /// nobody wants, slot, answer, caller, observer. Says whether it still counts as looking for work.
    fn run(&self, worker: usize, taken: Taken<Arc<dyn Job>>) -> bool {
        let Taken { job, waited } = taken;
        self.observe(|observer| {
            observer.on_started(&StartedEvent { bulkhead: self.name(), worker, waited });
        });

        // RUNNING
        let Ran { outcome, settled } = {
            let _running = here::enter(Arc::clone(&job));
            job.run(&Context::new(job.header(), &self.vitals, &*self.clock, worker))
        };

        // FINISHING
        let now = self.now();
        let mut mail = Mail::new();
        let ran = {
            let mut locked = self.locked.lock();
            let ran = locked.state.release(worker, outcome, now, &mut mail);
            self.vitals.learn(ran);
            locked.state.note_pace(self.vitals.is_quick());
            self.seal(&mut locked, &mail);
            ran
        };
        // None of the user's code may stand between a worker that counts as looking and its look: a
        // job would wait for that code while others sleep.
        let mut looking =
            mail.news.is_empty() && self.observer.is_none() && job.is_published_quietly();
        if !looking {
            self.stop_search();
        }
        self.wake(&mail);
        if settled {
            if let Some(waker) = job.publish() {
                if std::mem::take(&mut looking) {
                    self.stop_search();
                }
                contain(|| waker.wake());
            }
        }
        self.discard_ended(&mail);
        self.report(&mail);
        self.observe(|observer| {
            let bulkhead = self.name();
            observer.on_finished(&FinishedEvent { bulkhead, worker, waited, ran, outcome });
        });
        looking
    }

    fn stop_search(&self) {
        self.change(State::stop_search);
    }

    /// As if quick jobs had run before, for models.
    #[cfg(all(test, watertight_loom))]
    pub(crate) fn assume_quick_jobs(&self) {
        self.locked.lock().state.note_pace(true);
    }

    /// Takes and runs one job if there is one: what a worker does, for models that play the worker.
    #[cfg(all(test, watertight_loom))]
    pub(crate) fn step(&self, worker: usize) -> bool {
        let now = self.now();
        let mut mail = Mail::new();
        let taken = {
            let mut locked = self.locked.lock();
            let taken = locked.state.take(worker, false, now, &mut mail);
            self.seal(&mut locked, &mail);
            taken
        };
        self.deliver(&mail);
        let found = taken.is_some();
        if let Some(taken) = taken {
            if self.run(worker, taken) {
                self.stop_search();
            }
        }
        found
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("start", &self.start.is_some())
            .field("stop", &self.stop.is_some())
            .finish()
    }
}
