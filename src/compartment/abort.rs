//! [`AbortGuard`]: how a blocked job is reached when nobody wants its result any more.
//!
//! Nobody can stop a closure, but one that blocks in a system call can be freed by whoever breaks
//! what it is blocked on: a socket is shut down, a query is cancelled. The job says how.

use std::fmt;

use crate::contain::{contain, drop_contained};
use crate::sync::{Arc, Condvar, Mutex};

/// What a job has left with us for the case that it is to stop.
#[derive(Debug, Default)]
pub(crate) struct Abort(Mutex<Orders>);

#[derive(Debug, Default)]
struct Orders {
    /// It is to stop: what is registered from now on acts at once.
    given: bool,
    hooks: Vec<Arc<Hook>>,
}

struct Hook {
    act: Box<dyn Fn() + Send + Sync>,
    phase: Mutex<Phase>,
    /// The job sleeps here in the destructor of its guard, while the hook acts.
    acted: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Armed,
    Acting,
    /// It has acted, or never will.
    Over,
}

impl Abort {
    /// Tells the job to stop, once: its hooks act on this thread. Says how many of them panicked.
    pub(crate) fn give(&self) -> u64 {
        let hooks = {
            let mut orders = self.0.lock();
            orders.given = true;
            std::mem::take(&mut orders.hooks)
        };
        // LOCK: free, since the hooks are user code.
        let act = |hook: Arc<Hook>| {
            let panicked = hook.fire();
            // The job may have taken it back meanwhile: then what it captured goes here.
            drop_contained(hook);
            u64::from(panicked)
        };
        hooks.into_iter().map(act).sum()
    }

    /// Registers a hook. If the job is to stop already, it acts here, and if it panics, `panicked` is
    /// called.
    pub(super) fn on_abort(
        &self,
        act: Box<dyn Fn() + Send + Sync>,
        panicked: impl FnOnce(),
    ) -> AbortGuard<'_> {
        let hook = Arc::new(Hook { act, phase: Mutex::new(Phase::Armed), acted: Condvar::new() });
        let mut orders = self.0.lock();
        if orders.given {
            // LOCK: free, the hook is user code.
            drop(orders);
            if hook.fire() {
                panicked();
            }
        } else {
            orders.hooks.push(Arc::clone(&hook));
        }
        AbortGuard { abort: self, hook: Some(hook) }
    }
}

impl Hook {
    /// Acts, unless it has or never will. Says whether that panicked.
    fn fire(&self) -> bool {
        {
            let mut phase = self.phase.lock();
            if *phase != Phase::Armed {
                return false;
            }
            *phase = Phase::Acting;
        }
        let panicked = contain(&self.act);
        *self.phase.lock() = Phase::Over;
        // WAKE: only the guard's owner sleeps there.
        self.acted.notify_one();
        panicked
    }

    /// Sees to it that the hook does not act any more, waiting while it is at it.
    fn disarm(&self) {
        let mut phase = self.phase.lock();
        while *phase == Phase::Acting {
            phase = self.acted.wait(phase);
        }
        *phase = Phase::Over;
    }
}

/// Keeps what [`Context::on_abort`](super::Context::on_abort) registered. Dropped, it takes it back:
/// once it is gone the hook neither acts nor is acting, so what it would break can go to another job.
#[must_use = "dropped at once, the hook is taken back at once"]
pub struct AbortGuard<'a> {
    abort: &'a Abort,
    /// `None` once it has been taken back.
    hook: Option<Arc<Hook>>,
}

impl Drop for AbortGuard<'_> {
    fn drop(&mut self) {
        let Some(hook) = self.hook.take() else { return };
        let mine = {
            let mut orders = self.abort.0.lock();
            let index = orders.hooks.iter().position(|other| Arc::ptr_eq(other, &hook));
            index.map(|index| orders.hooks.swap_remove(index))
        };
        hook.disarm();
        // LOCK: free, what the hook captured is user data.
        drop_contained((mine, hook));
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").finish_non_exhaustive()
    }
}

impl fmt::Debug for AbortGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortGuard").finish_non_exhaustive()
    }
}
