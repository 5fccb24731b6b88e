//! [`Helpers`]: which helper threads of a bulkhead there are, and waiting for them to come and go.

use std::time::Instant;

use crate::compartment::{Pinning, Thread, ThreadKind};
use crate::sync::{Arc, Condvar, Mutex, current_tid};

/// The few threads of one client or pool, started once.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    started: Mutex<Vec<Helper>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Helper {
    name: String,
    /// `None` before it has checked in.
    here: Option<Thread>,
}

impl Helper {
    fn is_alive(&self) -> bool {
        self.here.as_ref().is_none_or(|thread| !thread.gone)
    }
}

impl Helpers {
    /// Counts a thread that is about to be started. What is returned is for when it is gone.
    pub(crate) fn starting(self: &Arc<Self>, name: &str) -> impl FnOnce() + Send + use<> {
        self.started.lock().push(Helper { name: name.to_owned(), here: None });
        let (helpers, name) = (Arc::clone(self), name.to_owned());
        move || helpers.gone(&name)
    }

    /// For the thread of that name to say that it is there.
    pub(crate) fn check_in(self: &Arc<Self>, name: &str) -> impl FnOnce() + Send + use<> {
        let (helpers, name) = (Arc::clone(self), name.to_owned());
        move || {
            let (kind, tid, pinning) = (ThreadKind::Helper, current_tid(), Pinning::NotAsked);
            if let Some(me) = helpers.started.lock().iter_mut().find(|helper| helper.name == name) {
                me.here = Some(Thread { name, kind, tid, pinning, gone: false });
            }
            // WAKE: all, as in `gone`.
            helpers.changed.notify_all();
        }
    }

    pub(crate) fn gone(&self, name: &str) {
        self.started.lock().retain_mut(|helper| {
            let is_meant = helper.name == name;
            let here = helper.here.as_mut().filter(|_| is_meant);
            here.map(|thread| thread.gone = true).is_some() || !is_meant
        });
        // WAKE: all, since more than one may shut down at once.
        self.changed.notify_all();
    }

    pub(crate) fn are_gone(&self) -> bool {
        !self.started.lock().iter().any(Helper::is_alive)
    }

    /// Blocks until every thread that has been started has checked in, the first thing that it does.
    pub(crate) fn wait_until_all_are_here(&self) {
        let mut started = self.started.lock();
        while started.iter().any(|helper| helper.here.is_none()) {
            started = self.changed.wait(started);
        }
    }

    /// Blocks until none is left or `until` has come. Names those that are left.
    pub(crate) fn wait_until_gone(&self, until: Option<Instant>) -> Vec<String> {
        let mut started = self.started.lock();
        let mut timed_out = false;
        while started.iter().any(Helper::is_alive) && !timed_out {
            (started, timed_out) = match until {
                Some(until) => self.changed.wait_until(&self.started, started, until),
                None => (self.changed.wait(started), false),
            };
        }
        started.iter().filter(|one| one.is_alive()).map(|one| one.name.clone()).collect()
    }

    /// Those that have checked in.
    pub(crate) fn threads(&self) -> Vec<Thread> {
        self.started.lock().iter().filter_map(|helper| helper.here.clone()).collect()
    }
}
