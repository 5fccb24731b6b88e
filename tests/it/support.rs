//! What the tests share: gates instead of sleeps, and a watchdog instead of a hung run.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// How long a test waits for what must happen before it calls it a hang. Only a failing test waits.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// A door that jobs wait at until the test opens it, and that counts who has come.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    arrived: usize,
    inside: usize,
    open: bool,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Called by a job: waits until the gate is open.
    pub(crate) fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.arrived += 1;
        state.inside += 1;
        changed.notify_all();
        while !state.open {
            state = changed.wait(state).unwrap();
        }
        state.inside -= 1;
    }

    pub(crate) fn open(&self) {
        let (state, changed) = &*self.0;
        state.lock().unwrap().open = true;
        changed.notify_all();
    }

    /// Waits until `n` jobs in all have come to the gate.
    pub(crate) fn wait_for(&self, n: usize) {
        let (state, changed) = &*self.0;
        let state = state.lock().unwrap();
        let (state, late) =
            changed.wait_timeout_while(state, WATCHDOG, |state| state.arrived < n).unwrap();
        assert!(!late.timed_out(), "only {} of {n} jobs came to the gate", state.arrived);
    }
}

/// Runs `f` on a thread of its own and fails if it does not return in time.
pub(crate) fn within<T: Send + 'static>(what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = done.send(f());
    });
    match result.recv_timeout(WATCHDOG) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: still not done after {WATCHDOG:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(()) => unreachable!("the thread sends before it ends"),
        },
    }
}

/// Waits until `condition` holds, looking again and again.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < WATCHDOG, "{what}: still not true after {WATCHDOG:?}");
        std::thread::yield_now();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor that there can be.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
