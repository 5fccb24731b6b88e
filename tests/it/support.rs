//! What the tests share: gates instead of sleeps, and a watchdog instead of a hung run.

use std::future::Future;
use std::pin::pin;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use watertight::{Bulkhead, BulkheadBuilder, JobHandle, Runtime};

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

pub(crate) fn build(bulkhead: BulkheadBuilder) -> (Runtime, Bulkhead) {
    let runtime = Runtime::builder().bulkhead(bulkhead).build().unwrap();
    let handle = runtime.bulkheads().next().unwrap().clone();
    (runtime, handle)
}

/// Fills the threads with jobs that wait at the gate.
pub(crate) fn hold(bulkhead: &Bulkhead, gate: &Gate, jobs: usize) -> Vec<JobHandle<()>> {
    (0..jobs)
        .map(|_| {
            let gate = gate.clone();
            bulkhead.submit(move |_| gate.pass()).unwrap()
        })
        .collect()
}

/// Exactly `threads` jobs start together: no slot has been lost, and none made up.
pub(crate) fn capacity_is(bulkhead: &Bulkhead, threads: usize) {
    eventually("at rest", || {
        let now = bulkhead.snapshot();
        (now.running, now.queued, now.waiting) == (0, 0, 0)
    });
    let gate = Gate::new();
    let held = hold(bulkhead, &gate, threads);
    gate.wait_for(threads);
    assert_eq!(bulkhead.snapshot().running, threads);
    gate.open();
    for job in held {
        job.join().unwrap();
    }
    let rest = bulkhead.snapshot();
    assert_eq!(rest.arrivals, rest.totals.accepted + rest.rejected_in_all(), "{rest}");
    assert_eq!(rest.totals.accepted, rest.totals.ended(), "{rest}");
}

#[cfg(target_os = "linux")]
pub(crate) fn threads_named(prefix: &str) -> usize {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with(prefix))
        .count()
}

/// Names the part that a child process plays; without it a test is the parent.
const PART: &str = "WATERTIGHT_TEST_PART";

/// The part that this process plays, if another test started it.
pub(crate) fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// This test binary as a command that runs `test` alone, in the given part. The test asks for
/// [`part`] first and plays it.
pub(crate) fn child(test: &str, part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(PART, part);
    command
}

/// Waits until the process has ended, or ends it and fails.
pub(crate) fn ends(what: &str, mut command: Command) -> Output {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > WATCHDOG {
            child.kill().unwrap();
            let said = child.wait_with_output().unwrap();
            panic!("{what}: the process has not ended after {WATCHDOG:?}: {said:?}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.wait_with_output().unwrap()
}

/// The memory of this process that is really there, in bytes.
#[cfg(target_os = "linux")]
pub(crate) fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1_024
}

/// Panics when it is dropped, and counts that it did.
pub(crate) struct Bomb(pub(crate) Arc<std::sync::atomic::AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if !thread::panicking() {
            std::panic::resume_unwind(Box::new("a destructor"));
        }
    }
}
