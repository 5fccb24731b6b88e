//! Where "now" comes from.

use std::fmt;
use std::time::{Duration, Instant};

use crate::sync::{Mutex, Weak};

/// The source of "now" for a runtime.
///
/// It must be monotonic and must not block. Reading it never happens under a lock of the runtime.
/// Should it panic, the runtime counts that with the panics of hooks, and its last reading stands in.
pub trait Clock: Send + Sync + 'static {
    /// The present instant; never earlier than one returned before.
    fn now(&self) -> Instant;

    /// Registers a function to be called after every jump of the clock, if it jumps.
    ///
    /// A clock that runs at the pace of the system's, as is the default, ignores it and returns
    /// `false`. A clock that only moves when told to keeps it and returns `true`; limits are then
    /// checked when the clock moves, and not by waiting. A watcher that can no longer be upgraded
    /// may be forgotten.
    fn watch(&self, watcher: Weak<dyn Fn() + Send + Sync>) -> bool {
        let _ = watcher;
        false
    }
}

/// The system's monotonic clock: the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// A clock for tests, which stands still until it is [advanced](ManualClock::advance).
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use watertight::{Bulkhead, Clock, Deadline, ManualClock, Runtime, TimeLimit};
///
/// let clock = Arc::new(ManualClock::new());
/// let runtime = Runtime::builder()
///     .clock(Arc::clone(&clock))
///     .bulkhead(Bulkhead::builder("db").threads(1))
///     .build()?;
/// let db = runtime.bulkhead("db")?;
///
/// let (open, gate) = std::sync::mpsc::channel::<()>();
/// let deadline = Deadline::at(clock.now() + Duration::from_secs(60));
/// let job = db.submit_until(deadline, move |_| gate.recv()).map_err(|refused| refused.forget())?;
///
/// clock.advance(Duration::from_secs(61)); // an hour of tests in no time
/// let late = job.join().unwrap_err();
/// assert_eq!(late.time_limit(), Some(TimeLimit::Call));
/// # drop(open);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct ManualClock {
    start: Instant,
    state: Mutex<Manual>,
}

struct Manual {
    elapsed: Duration,
    watchers: Vec<Weak<dyn Fn() + Send + Sync>>,
}

impl ManualClock {
    /// A clock that stands at the present instant.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            state: Mutex::new(Manual { elapsed: Duration::ZERO, watchers: Vec::new() }),
        }
    }

    /// Moves the clock forward, then lets every runtime that uses it look at its limits.
    ///
    /// The threads that this ends the waiting of are woken, not waited for.
    ///
    /// # Panics
    ///
    /// If the clock would move past what [`Instant`] can express.
    pub fn advance(&self, by: Duration) {
        let watchers: Vec<_> = {
            let mut state = self.state.lock();
            let elapsed = state.elapsed.saturating_add(by);
            assert!(
                self.start.checked_add(elapsed).is_some(),
                "a manual clock cannot move {by:?} further: `Instant` ends before that",
            );
            state.elapsed = elapsed;
            state.watchers.retain(|watcher| watcher.strong_count() > 0);
            state.watchers.iter().filter_map(Weak::upgrade).collect()
        };
        // LOCK: free, since a watcher reads the clock.
        for watcher in watchers {
            watcher();
        }
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.start + self.state.lock().elapsed
    }

    fn watch(&self, watcher: Weak<dyn Fn() + Send + Sync>) -> bool {
        self.state.lock().watchers.push(watcher);
        true
    }
}

impl<C: Clock + ?Sized> Clock for crate::sync::Arc<C> {
    fn now(&self) -> Instant {
        (**self).now()
    }

    fn watch(&self, watcher: Weak<dyn Fn() + Send + Sync>) -> bool {
        (**self).watch(watcher)
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = self.state.lock().elapsed;
        f.debug_struct("ManualClock").field("elapsed", &elapsed).finish_non_exhaustive()
    }
}
