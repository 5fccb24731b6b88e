//! The switch on a dependency: how long it takes to answer, changeable while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// How long a dependency takes to answer. Clones share the switch.
///
/// A call takes the latency that is in force when it starts and keeps it: when a slow dependency
/// recovers, the calls that it already holds still take their full time. So after a switch back,
/// held threads come free over one old latency, as after a real slowdown.
#[derive(Clone, Debug)]
pub(crate) struct Latency(Arc<AtomicU64>);

impl Latency {
    pub(crate) fn from_millis(millis: u64) -> Self {
        Self(Arc::new(AtomicU64::new(millis)))
    }

    pub(crate) fn set_millis(&self, millis: u64) {
        self.0.store(millis, Ordering::Relaxed);
    }

    /// Blocks the calling thread for as long as the dependency takes now.
    pub(crate) fn pass(&self) {
        thread::sleep(Duration::from_millis(self.0.load(Ordering::Relaxed)));
    }
}
