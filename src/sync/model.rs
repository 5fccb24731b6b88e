//! The same names as `real`, on loom.
//!
//! Differences that the models must live with:
//! - loom has no time. [`Condvar::wait_until`] follows [`set_time`]: either the time-out falls
//!   anywhere between two critical sections, or it never comes. A model with a limit runs in both.
//! - loom's condition variables never wake spuriously and wake in arrival order.
//! - Nobody spins: a spin is a busy loop of identical states to the model.
//! - At most five threads, the model's main thread included.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub(crate) use loom::sync::MutexGuard;
pub(crate) use loom::sync::atomic::AtomicU64;
pub(crate) use loom::thread_local;

#[cfg(not(feature = "_std-arc"))]
pub(crate) use loom::sync::Arc as OwnerArc;
#[cfg(feature = "_std-arc")]
pub(crate) use std::sync::Arc as OwnerArc;

/// When modelled time-outs come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// A timed wait may end at any moment, before or after every other critical section.
    AnyMoment,
    /// A timed wait is a plain wait.
    Never,
}

static ANY_MOMENT: AtomicBool = AtomicBool::new(false);

/// Chooses the time mode of the models that this process runs next. The models run one at a time.
pub(crate) fn set_time(time: Time) {
    ANY_MOMENT.store(time == Time::AnyMoment, Ordering::SeqCst);
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        // PANIC: only a panic under the lock poisons it, and no user code runs there.
        self.0.lock().expect("no panic happens under a lock")
    }
}

#[derive(Debug)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        // PANIC: see `Mutex::lock`.
        self.0.wait(guard).expect("no panic happens under a lock")
    }

    pub(crate) fn wait_until<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        _until: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        if ANY_MOMENT.load(Ordering::SeqCst) {
            drop(guard);
            (mutex.lock(), true)
        } else {
            (self.wait(guard), false)
        }
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[derive(Debug)]
pub(crate) struct ThreadSpec {
    pub(crate) name: String,
    pub(crate) stack_size: Option<usize>,
}

pub(crate) type ThreadHandle = loom::thread::JoinHandle<()>;

pub(crate) fn spawn(
    spec: ThreadSpec,
    gone: impl FnOnce() + Send + 'static,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<ThreadHandle> {
    let _ = spec.stack_size;
    loom::thread::Builder::new().name(spec.name).spawn(move || {
        body();
        gone();
    })
}

/// A modelled thread is none of the system's.
pub(crate) fn current_tid() -> Option<u32> {
    None
}

pub(crate) fn spin_until(done: impl Fn() -> bool) -> bool {
    done()
}
