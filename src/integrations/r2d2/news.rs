//! [`News`]: wakes the jobs that wait for a connection.
//!
//! r2d2 has a condition variable of its own, but a wait on it cannot be ended from outside, and each
//! new wait on it asks for one more connection.

use std::time::Instant;

use crate::sync::{Condvar, Mutex};

#[derive(Debug, Default)]
pub(super) struct News {
    /// How often there has been any.
    count: Mutex<u64>,
    changed: Condvar,
}

impl News {
    pub(super) fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Has everybody who waits look again.
    pub(super) fn spread(&self) {
        *self.count.lock() += 1;
        // WAKE: all, since it may concern any of them.
        self.changed.notify_all();
    }

    /// Waits until there is more than `seen`, or until `until`.
    pub(super) fn wait_for_more_than(&self, seen: u64, until: Instant) {
        let mut count = self.count.lock();
        let mut timed_out = false;
        while *count == seen && !timed_out {
            (count, timed_out) = self.changed.wait_until(&self.count, count, until);
        }
    }
}
