//! [`Helpers`]: which helper threads of a bulkhead there are, and waiting for them to come and go.

use std::time::Instant;

use crate::compartment::{Pinning, Thread, ThreadKind};
use crate::sync::{Arc, Condvar, Mutex, current_tid};

#[derive(Debug, Default)]
pub(crate) struct Helpers {
    /// Those that have been started and are not gone.
    alive: Mutex<Vec<Helper>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Helper {
    name: String,
    /// `None` before it has checked in.
    here: Option<Thread>,
}

impl Helpers {
    /// Counts a thread that is about to be started. What is returned is for when it is gone.
    pub(crate) fn starting(self: &Arc<Self>, name: &str) -> impl FnOnce() + Send + use<> {
        self.alive.lock().push(Helper { name: name.to_owned(), here: None });
        let (helpers, name) = (Arc::clone(self), name.to_owned());
        move || helpers.gone(&name)
    }

    /// For the thread of that name to say that it is there.
    pub(crate) fn check_in(self: &Arc<Self>, name: &str) -> impl FnOnce() + Send + use<> {
        let (helpers, name) = (Arc::clone(self), name.to_owned());
        move || {
            let (kind, tid, pinning) = (ThreadKind::Helper, current_tid(), Pinning::NotAsked);
            if let Some(me) = helpers.alive.lock().iter_mut().find(|helper| helper.name == name) {
                me.here = Some(Thread { name, kind, tid, pinning });
            }
            // WAKE: all, as in `gone`.
            helpers.changed.notify_all();
        }
    }

    pub(crate) fn gone(&self, name: &str) {
        self.alive.lock().retain(|helper| helper.name != name);
        // WAKE: all, since more than one may shut down at once.
        self.changed.notify_all();
    }

    pub(crate) fn are_gone(&self) -> bool {
        self.alive.lock().is_empty()
    }

    /// Blocks until every thread that has been started has checked in, the first thing that it does.
    pub(crate) fn wait_until_all_are_here(&self) {
        let mut alive = self.alive.lock();
        while alive.iter().any(|helper| helper.here.is_none()) {
            alive = self.changed.wait(alive);
        }
    }

    /// Blocks until none is left or `until` has come. Names those that are left.
    pub(crate) fn wait_until_gone(&self, until: Option<Instant>) -> Vec<String> {
        let mut alive = self.alive.lock();
        let mut timed_out = false;
        while !alive.is_empty() && !timed_out {
            (alive, timed_out) = match until {
                Some(until) => self.changed.wait_until(&self.alive, alive, until),
                None => (self.changed.wait(alive), false),
            };
        }
        alive.iter().map(|helper| helper.name.clone()).collect()
    }

    /// Those that are there now.
    pub(crate) fn threads(&self) -> Vec<Thread> {
        self.alive.lock().iter().filter_map(|helper| helper.here.clone()).collect()
    }
}
