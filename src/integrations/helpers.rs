//! [`Helpers`]: which helper threads of a bulkhead there are, and waiting for them to go.

use std::time::Instant;

use crate::sync::{Arc, Condvar, Mutex};

#[derive(Debug, Default)]
pub(crate) struct Helpers {
    /// The names of those that have been started and are not gone.
    alive: Mutex<Vec<String>>,
    changed: Condvar,
}

impl Helpers {
    /// Counts a thread that is about to be started. What is returned is for when it is gone.
    pub(crate) fn starting(self: &Arc<Self>, name: &str) -> impl FnOnce() + Send + use<> {
        self.alive.lock().push(name.to_owned());
        let (helpers, name) = (Arc::clone(self), name.to_owned());
        move || helpers.gone(&name)
    }

    pub(crate) fn gone(&self, name: &str) {
        self.alive.lock().retain(|other| other != name);
        // WAKE: all, since more than one may shut down at once.
        self.changed.notify_all();
    }

    pub(crate) fn are_gone(&self) -> bool {
        self.alive.lock().is_empty()
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
        alive.clone()
    }
}
