//! What ordinary builds use: `parking_lot` locks and the standard library's threads and atomics.

use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Instant;

pub(crate) use parking_lot::MutexGuard;
pub(crate) use std::sync::Arc as OwnerArc;
pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::thread_local;

/// A lock that a panic cannot poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }
}

/// A condition variable whose guard travels by value, which is the shape that loom has.
#[derive(Debug, Default)]
pub(crate) struct Condvar(parking_lot::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(&mut guard);
        guard
    }

    /// Waits until notified or until `until`; the flag says that the time ran out.
    ///
    /// The mutex is an argument because the model needs it to place the time-out anywhere.
    pub(crate) fn wait_until<'a, T>(
        &self,
        _mutex: &'a Mutex<T>,
        mut guard: MutexGuard<'a, T>,
        until: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        let timed_out = self.0.wait_until(&mut guard, until).timed_out();
        (guard, timed_out)
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// How a thread is started.
#[derive(Debug)]
pub(crate) struct ThreadSpec {
    /// At most 15 bytes, or Linux cuts it.
    pub(crate) name: String,
    /// Bytes; `None` leaves the platform's default.
    pub(crate) stack_size: Option<usize>,
}

/// A started thread, to be joined once it has said that it is gone.
pub(crate) type ThreadHandle = thread::JoinHandle<()>;

thread_local! {
    /// Runs when the thread is really over. It is registered before any user code runs on the
    /// thread, and thread-local destructors run in reverse order of registration: so the user's own
    /// destructors, which may block, are behind us when it fires.
    static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

struct AtExit(Option<Box<dyn FnOnce() + Send>>);

impl Drop for AtExit {
    fn drop(&mut self) {
        if let Some(gone) = self.0.take() {
            // A panic in a thread-local destructor aborts the process. What goes here may hold the
            // last reference to a user's hook, whose destructor is not ours.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(gone)) {
                // Its destructor is not ours either.
                std::mem::forget(payload);
            }
        }
    }
}

/// Starts a thread that runs `body`, and `gone` as the very last thing.
pub(crate) fn spawn(
    spec: ThreadSpec,
    gone: impl FnOnce() + Send + 'static,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<ThreadHandle> {
    let mut builder = thread::Builder::new().name(spec.name);
    if let Some(bytes) = spec.stack_size {
        builder = builder.stack_size(bytes);
    }
    let gone: Box<dyn FnOnce() + Send> = Box::new(gone);
    builder.spawn(move || {
        AT_EXIT.with(|slot| *slot.borrow_mut() = Some(AtExit(Some(gone))));
        body();
    })
}

/// Has a thread that others start say when it is over: what is returned is to be the first thing
/// that it runs, and `gone` will be the last. Dropped unrun, it runs `gone` at once.
#[cfg(all(feature = "r2d2", not(watertight_loom)))]
pub(crate) fn when_thread_ends(
    gone: impl FnOnce() + Send + 'static,
) -> impl FnOnce() + Send + 'static {
    let at_exit = AtExit(Some(Box::new(gone)));
    move || AT_EXIT.with(|slot| *slot.borrow_mut() = Some(at_exit))
}

/// The system's number of the present thread, as `top -H` and `/proc` show it. `None` where nothing
/// of ours needs it.
pub(crate) fn current_tid() -> Option<u32> {
    #[cfg(target_os = "linux")]
    let tid = u32::try_from(rustix::thread::gettid().as_raw_pid()).ok();
    #[cfg(not(target_os = "linux"))]
    let tid = None;
    tid
}

/// Looks for `done` a bounded number of times: first in place, then giving the core away.
///
/// It bridges the few microseconds between two jobs without a system call. The bounds are small
/// because the cores are shared: an idle runtime must use none of them.
pub(crate) fn spin_until(done: impl Fn() -> bool) -> bool {
    const SPINS: u32 = 64;
    const YIELDS: u32 = 8;
    for _ in 0..SPINS {
        if done() {
            return true;
        }
        std::hint::spin_loop();
    }
    for _ in 0..YIELDS {
        if done() {
            return true;
        }
        thread::yield_now();
    }
    done()
}
