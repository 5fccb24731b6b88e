//! The same names as `real`, on shuttle, which runs threads in random orders.
//!
//! Shuttle has no time: [`Condvar::wait_until`] throws a coin for whether the time-out comes, and
//! places it between two critical sections.

use std::io;
use std::time::Instant;

use shuttle::rand::Rng;
pub(crate) use shuttle::sync::MutexGuard;
pub(crate) use shuttle::sync::atomic::AtomicU64;
pub(crate) use shuttle::thread_local;
pub(crate) use std::sync::Arc as OwnerArc;

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        // PANIC: only a panic under the lock poisons it, and no user code runs there.
        self.0.lock().expect("no panic happens under a lock")
    }
}

#[derive(Debug)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
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
        if shuttle::rand::thread_rng().gen_bool(0.5) {
            drop(guard);
            shuttle::thread::yield_now();
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

pub(crate) type ThreadHandle = shuttle::thread::JoinHandle<()>;

pub(crate) fn spawn(
    spec: ThreadSpec,
    gone: impl FnOnce() + Send + 'static,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<ThreadHandle> {
    let _ = spec.stack_size;
    shuttle::thread::Builder::new().name(spec.name).spawn(move || {
        body();
        gone();
    })
}

/// A modelled thread is none of the system's.
pub(crate) fn current_tid() -> Option<u32> {
    None
}

pub(crate) fn spin_until(done: impl Fn() -> bool) -> bool {
    done() || {
        shuttle::thread::yield_now();
        done()
    }
}
