//! Which threads of a compartment there are, and waiting for them to come and go.

use std::time::Instant;

use super::Compartment;
use super::affinity::Pinning;
use crate::sync::{MutexGuard, OwnerArc, ThreadHandle, ThreadSpec, spawn};

/// What the runtime and the threads tell each other.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Whether the runtime was completed; `None` while it is being built. No user code runs on a
    /// thread before.
    opened: Option<bool>,
    /// Threads that have been started and are not gone.
    alive: usize,
    /// By worker; `None` until the thread has tried.
    pinned: Vec<Option<Pinning>>,
}

impl Life {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            opened: None,
            alive: 0,
            pinned: std::iter::repeat_with(|| None).take(threads).collect(),
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
            move || gone.thread_gone(),
            move || match worker {
                Some(worker) => body.work(worker),
                None => body.keep_time(),
            },
        );
        if started.is_err() {
            compartment.thread_gone();
        }
        started
    }

    fn thread_gone(&self) {
        self.change_life(|life| life.alive -= 1);
    }

    /// Lets the threads begin, or tells them that nothing comes of it.
    pub(crate) fn open(&self, complete: bool) {
        self.change_life(|life| life.opened = Some(complete));
    }

    pub(super) fn report_pinning(&self, worker: usize, pinned: Pinning) {
        self.change_life(|life| life.pinned[worker] = Some(pinned));
    }

    fn change_life(&self, change: impl FnOnce(&mut Life)) {
        change(&mut self.life.lock());
        // WAKE: all, since threads that wait to begin and callers that wait for threads sleep here.
        self.life_changed.notify_all();
    }

    pub(super) fn wait_until_open(&self) -> bool {
        let mut life = self.life.lock();
        loop {
            if let Some(opened) = life.opened {
                return opened;
            }
            life = self.life_changed.wait(life);
        }
    }

    /// Blocks until every worker has tried to pin itself: a few system calls, no user code.
    pub(crate) fn wait_until_pinned(&self) -> Vec<Pinning> {
        let mut life = self.life.lock();
        while life.pinned.iter().any(Option::is_none) {
            life = self.life_changed.wait(life);
        }
        life.pinned.iter().flatten().cloned().collect()
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
