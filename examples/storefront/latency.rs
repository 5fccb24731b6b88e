//! The switch on a dependency: how long it takes to answer, changeable while it runs.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long an answer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Millis(u64),
    /// The dependency accepts and does not answer, until that changes.
    Never,
}

/// How long a dependency takes to answer. Clones share the switch.
///
/// A call takes the latency that is in force when it starts and keeps it: when a slow dependency
/// recovers, the calls that it already holds still take their full time. So after a switch back,
/// held threads come free over one old latency, as after a real slowdown. What a hung dependency
/// holds is answered when it returns.
#[derive(Clone, Debug)]
pub(crate) struct Latency(Arc<Switch>);

#[derive(Debug)]
struct Switch {
    pace: Mutex<Pace>,
    changed: Condvar,
}

impl Latency {
    pub(crate) fn from_millis(millis: u64) -> Self {
        let pace = Mutex::new(Pace::Millis(millis));
        Self(Arc::new(Switch { pace, changed: Condvar::new() }))
    }

    pub(crate) fn set(&self, pace: Pace) {
        *self.pace() = pace;
        self.0.changed.notify_all();
    }

    /// Blocks the calling thread for as long as the dependency takes now.
    pub(crate) fn pass(&self) {
        let pace = self.pace();
        if let Pace::Millis(millis) = *pace {
            drop(pace);
            thread::sleep(Duration::from_millis(millis));
        } else {
            let back = self.0.changed.wait_while(pace, |pace| *pace == Pace::Never);
            drop(back.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.0.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
