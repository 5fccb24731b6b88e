//! Which threads of a compartment there are, and waiting for them to come and go.

use std::time::Instant;

use super::Compartment;
use super::affinity::Pinning;
use super::scheduling::Scheduling;
use crate::sync::{MutexGuard, OwnerArc, ThreadHandle, ThreadSpec, current_tid, spawn};

/// What the runtime and the threads tell each other.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Whether the runtime was completed; `None` while it is being built. No user code runs on a
    /// thread before.
    opened: Option<bool>,
    /// Threads that have been started and are not gone.
    alive: usize,
    /// The workers in order, then the timekeeper; `None` before a thread has checked in.
    here: Vec<Option<Here>>,
}

/// A thread that has checked in.
#[derive(Debug, Clone)]
struct Here {
    tid: Option<u32>,
    pinning: Pinning,
    scheduling: Scheduling,
    gone: bool,
}

/// One thread of a compartment.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) kind: ThreadKind,
    /// The system's number of it; `None` where it is not known.
    pub(crate) tid: Option<u32>,
    #[allow(dead_code, reason = "the audit has no use for it")]
    pub(crate) pinning: Pinning,
    /// It has run its last line. The system may show it a moment longer, or have given its number
    /// to a stranger.
    pub(crate) gone: bool,
}

/// What a thread of a bulkhead is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ThreadKind {
    /// Runs jobs; the worker's index, from 0.
    Worker(usize),
    /// Ends what is past its limit.
    Timekeeper,
    /// Opens, tests or closes connections, or looks names up.
    Helper,
}

impl Life {
    pub(super) fn new(workers: usize) -> Self {
        let timekeeper = 1;
        Self { opened: None, alive: 0, here: vec![None; workers + timekeeper] }
    }

    /// Where worker number `worker`, or the timekeeper, is noted.
    fn place(&mut self, worker: Option<usize>) -> Option<&mut Option<Here>> {
        match worker {
            Some(worker) => self.here.get_mut(worker),
            None => self.here.last_mut(),
        }
    }
}

impl Compartment {
    /// Starts one thread of `compartment`: worker number `worker`, or the timekeeper.
    pub(crate) fn start_thread(
        compartment: &OwnerArc<Self>,
        spec: ThreadSpec,
        worker: Option<usize>,
    ) -> std::io::Result<ThreadHandle> {
        compartment.life.lock().alive += 1;
        let (body, gone) = (OwnerArc::clone(compartment), OwnerArc::clone(compartment));
        let started = spawn(
            spec,
            move || gone.thread_gone(worker),
            move || match worker {
                Some(worker) => body.work(worker),
                None => body.keep_time(),
            },
        );
        if started.is_err() {
            compartment.thread_gone(worker);
        }
        started
    }

    fn thread_gone(&self, worker: Option<usize>) {
        self.change_life(|life| {
            life.alive -= 1;
            if let Some(Some(here)) = life.place(worker) {
                here.gone = true;
            }
        });
    }

    /// Lets the threads begin, or tells them that nothing comes of it.
    pub(crate) fn open(&self, complete: bool) {
        self.change_life(|life| life.opened = Some(complete));
    }

    fn change_life(&self, change: impl FnOnce(&mut Life)) {
        change(&mut self.life.lock());
        // WAKE: all, since threads that wait to begin and callers that wait for threads sleep here.
        self.life_changed.notify_all();
    }

    /// Notes that the present thread is there, as worker number `worker` or as the timekeeper, and
    /// blocks until it may begin. Says whether anything comes of it.
    pub(super) fn check_in(
        &self,
        worker: Option<usize>,
        pinning: Pinning,
        scheduling: Scheduling,
    ) -> bool {
        let here = Here { tid: current_tid(), pinning, scheduling, gone: false };
        let mut life = self.life.lock();
        if let Some(place) = life.place(worker) {
            *place = Some(here);
        }
        // WAKE: all, see `change_life`; here it is for the runtime that is being built.
        self.life_changed.notify_all();
        loop {
            if let Some(opened) = life.opened {
                return opened;
            }
            life = self.life_changed.wait(life);
        }
    }

    /// Blocks until every thread has checked in, which takes it a few system calls and no user code.
    /// Says what became of each worker's pinning and scheduling.
    pub(crate) fn wait_until_all_are_here(&self) -> (Vec<Pinning>, Vec<Scheduling>) {
        let mut life = self.life.lock();
        while life.here.iter().any(Option::is_none) {
            life = self.life_changed.wait(life);
        }
        let here = life.here.iter().flatten();
        let workers = here.take(self.rules.threads);
        workers.map(|here| (here.pinning.clone(), here.scheduling.clone())).unzip()
    }

    /// The threads that have checked in, those that are gone too: workers, timekeeper, helpers.
    pub(crate) fn threads(&self) -> Vec<Thread> {
        let here = self.life.lock().here.clone();
        let workers = self.rules.threads;
        let own = here.into_iter().enumerate().filter_map(|(place, here)| {
            let Here { tid, pinning, gone, .. } = here?;
            let worker = (place < workers).then_some(place);
            let kind = worker.map_or(ThreadKind::Timekeeper, ThreadKind::Worker);
            Some(Thread { name: self.thread_name_of(worker), kind, tid, pinning, gone })
        });
        own.chain(self.resource_threads()).collect()
    }

    /// Blocks until every thread is gone or `until` has come. Says how many are left.
    pub(crate) fn wait_until_gone(&self, until: Option<Instant>) -> usize {
        let mut life = self.life.lock();
        let mut timed_out = false;
        while life.alive > 0 && !timed_out {
            (life, timed_out) = self.wait_life(life, until);
        }
        life.alive
    }

    fn wait_life<'a>(
        &'a self,
        life: MutexGuard<'a, Life>,
        until: Option<Instant>,
    ) -> (MutexGuard<'a, Life>, bool) {
        match until {
            Some(until) => self.life_changed.wait_until(&self.life, life, until),
            None => (self.life_changed.wait(life), false),
        }
    }
}
