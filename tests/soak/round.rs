//! One round: build, hammer, check, close.

use std::fmt;
use std::future::Future;
use std::panic::panic_any;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context as Task, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use watertight::{
    Batch, Bulkhead, CallError, Context, Deadline, FinishedEvent, Observer, RejectedEvent,
    RejectionPolicy, Runtime, StartedEvent,
};

const SUBMITTERS: usize = 6;
const JOBS_EACH: usize = 120;
/// How long anything may take that is not a hang.
const WATCHDOG: Duration = Duration::from_secs(60);

/// What has happened over all rounds.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    rounds: u64,
    arrivals: u64,
    returned: u64,
    panicked: u64,
    not_started: u64,
    refused: u64,
    hook_panics: u64,
    drop_panics: u64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, arrivals, returned, panicked, not_started, refused, .. } = self;
        let (hooks, drops) = (self.hook_panics, self.drop_panics);
        write!(
            f,
            "{rounds} rounds, {arrivals} arrivals = {returned} returned + {panicked} panicked + \
             {not_started} not started + {refused} refused; {hooks} hooks and {drops} destructors \
             panicked"
        )
    }
}

/// What the process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footprint {
    threads: usize,
    files: usize,
    pub(crate) kilobytes: usize,
}

impl Footprint {
    pub(crate) fn now() -> Self {
        let count = |folder| std::fs::read_dir(folder).expect("Linux has it").count();
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = resident.and_then(|text| text.split_whitespace().next()?.parse().ok());
        Self {
            threads: count("/proc/self/task"),
            files: count("/proc/self/fd"),
            kilobytes: kilobytes.expect("VmRSS is a number"),
        }
    }

    /// Waits until threads and files are back at `baseline`; they must be.
    pub(crate) fn settled_at(baseline: &Self) -> Self {
        let start = Instant::now();
        loop {
            let now = Self::now();
            if (now.threads, now.files) == (baseline.threads, baseline.files) {
                return now;
            }
            assert!(start.elapsed() < WATCHDOG, "left behind: {baseline}, now {now}");
            thread::yield_now();
        }
    }

    pub(crate) fn max(self, other: Self) -> Self {
        if self.kilobytes < other.kilobytes { other } else { self }
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, files, kilobytes } = self;
        write!(f, "{threads} threads, {files} files, {kilobytes} kB resident")
    }
}

/// Panics now and then, as any user code may.
fn stumble() {
    if fastrand::u8(..) == 0 {
        panic_any("on purpose, in a hook");
    }
}

struct Clumsy;

impl Observer for Clumsy {
    fn on_rejected(&self, _: &RejectedEvent<'_>) {
        stumble();
    }

    fn on_started(&self, _: &StartedEvent<'_>) {
        stumble();
    }

    fn on_finished(&self, _: &FinishedEvent<'_>) {
        stumble();
    }
}

/// Watches jobs from inside, and counts every captured value in and out.
#[derive(Default)]
struct Watch {
    alive: AtomicUsize,
    inside: AtomicUsize,
    most: AtomicUsize,
    answers: AtomicU64,
}

/// A captured value, a result, or a panic's payload: counted, and now and then its destructor panics.
struct Cargo {
    watch: Arc<Watch>,
    explosive: bool,
}

impl Cargo {
    fn new(watch: &Arc<Watch>) -> Self {
        watch.alive.fetch_add(1, Ordering::SeqCst);
        Self { watch: Arc::clone(watch), explosive: fastrand::u8(..) < 8 }
    }
}

impl Drop for Cargo {
    fn drop(&mut self) {
        self.watch.alive.fetch_sub(1, Ordering::SeqCst);
        if self.explosive && !thread::panicking() {
            panic_any("on purpose, in a destructor");
        }
    }
}

fn work(watch: &Arc<Watch>) -> impl FnOnce(&Context<'_>) -> Cargo + Send + use<> {
    let cargo = Cargo::new(watch);
    let (panics, micros, careful) = (fastrand::u8(..) < 12, fastrand::u64(0..60), fastrand::bool());
    move |ctx| {
        let watch = Arc::clone(&cargo.watch);
        let now = watch.inside.fetch_add(1, Ordering::SeqCst) + 1;
        watch.most.fetch_max(now, Ordering::SeqCst);
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(micros) && !(careful && ctx.is_cancelled()) {
            thread::yield_now();
        }
        watch.inside.fetch_sub(1, Ordering::SeqCst);
        // Before there is a result: Rust leaks a result if a destructor panics after it was made.
        drop(cargo);
        match (panics, micros % 3) {
            (true, 0) => panic!("on purpose, with a message"),
            (true, 1) => panic_any(Cargo::new(&watch)),
            (true, _) => std::panic::resume_unwind(Box::new(7)),
            (false, _) => Cargo::new(&watch),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Task::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// One submission, in one of the ways that there are. What comes back may explode when dropped.
fn submit_somehow(bulkheads: &[Bulkhead], watches: &[Arc<Watch>]) {
    let which = fastrand::usize(..bulkheads.len());
    let (bulkhead, watch) = (&bulkheads[which], &watches[which]);
    let job = work(watch);
    let soon = Deadline::after(Duration::from_micros(fastrand::u64(0..500)));
    let answer: Result<Cargo, CallError> = match fastrand::u8(0..10) {
        0 => bulkhead.call(job),
        1 => bulkhead.call_until(soon, job),
        2 => bulkhead.submit(job).map_err(CallError::from).and_then(|handle| {
            handle.cancel();
            handle.join()
        }),
        3 => {
            bulkhead.submit_until(soon, job).map_err(CallError::from).and_then(
                |handle| match handle.join_timeout(Duration::from_micros(50)) {
                    Ok(answer) => answer,
                    Err(handle) => handle.join(),
                },
            )
        }
        4 => {
            bulkhead.try_submit(job).map_err(CallError::from).and_then(watertight::JobHandle::join)
        }
        5 => {
            drop(bulkhead.submit(job));
            return;
        }
        6 => block_on(bulkhead.call_async(job)),
        7 => {
            let mut future = Box::pin(bulkhead.call_async(job));
            let polled = future.as_mut().poll(&mut Task::from_waker(Waker::noop()));
            drop((polled, future));
            return;
        }
        8 => {
            let other = bulkheads[fastrand::usize(..bulkheads.len())].clone();
            let index = bulkheads.iter().position(|one| one.name() == other.name());
            let inner = work(&watches[index.expect("it is one of them")]);
            bulkhead.call(move |ctx| {
                drop(other.call(inner));
                job(ctx)
            })
        }
        _ => {
            let batch = Batch::new();
            for key in 0..3 {
                drop(batch.submit(bulkhead, key, work(watch)));
            }
            while batch.pending() > 0 && fastrand::u8(..) > 20 {
                let (_, answer) = batch.receiver().recv_timeout(WATCHDOG).expect("it delivers");
                drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(answer))));
            }
            return;
        }
    };
    watch.answers.fetch_add(1, Ordering::Relaxed);
    drop(answer);
}

fn hammer(bulkheads: &[Bulkhead], watches: &[Arc<Watch>]) {
    for _ in 0..JOBS_EACH {
        // What explodes on the caller's own thread is the caller's.
        let attempt = std::panic::AssertUnwindSafe(|| submit_somehow(bulkheads, watches));
        if let Err(payload) = std::panic::catch_unwind(attempt) {
            let known = payload.is::<&str>() || payload.is::<String>();
            if !known {
                drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload))));
            } else if let Some(said) = payload.downcast_ref::<String>() {
                assert!(said.contains("on purpose"), "{said}");
            }
        }
    }
}

fn describe(name: &str) -> watertight::BulkheadBuilder {
    let policy = match fastrand::u8(0..3) {
        0 => RejectionPolicy::Reject,
        1 => RejectionPolicy::DropOldest,
        _ => RejectionPolicy::Wait {
            at_most: Duration::from_micros(fastrand::u64(0..2_000)),
            submitters: fastrand::usize(1..5),
        },
    };
    Bulkhead::builder(name)
        .threads(fastrand::usize(1..5))
        .queue(fastrand::usize(1..6))
        .rejection(policy)
        .queue_limit(Duration::from_micros(fastrand::u64(100..5_000)))
        .call_limit(Duration::from_micros(fastrand::u64(1..5_000)))
        .on_thread_start(|_| stumble())
        .on_thread_stop(|_| stumble())
}

pub(crate) fn play(totals: &mut Totals) {
    let runtime = Runtime::builder()
        .observer(Clumsy)
        .bulkhead(describe("one"))
        .bulkhead(describe("two"))
        .bulkhead(describe("three"))
        .build()
        .expect("it is a plain description");
    let bulkheads: Vec<Bulkhead> = runtime.bulkheads().cloned().collect();
    let watches: Vec<_> = bulkheads.iter().map(|_| Arc::new(Watch::default())).collect();
    // Half the time the runtime is closed under the submitters' hands.
    let close_early = fastrand::bool();
    thread::scope(|scope| {
        for _ in 0..SUBMITTERS {
            let seed = fastrand::u64(..);
            let (bulkheads, watches) = (bulkheads.clone(), watches.clone());
            scope.spawn(move || {
                fastrand::seed(seed);
                hammer(&bulkheads, &watches);
            });
        }
        if close_early {
            thread::sleep(Duration::from_micros(fastrand::u64(0..3_000)));
            close(&runtime);
        }
    });
    if !close_early {
        for bulkhead in &bulkheads {
            exactly_its_threads_start_together(bulkhead);
        }
        close(&runtime);
    }
    drop(runtime);
    totals.rounds += 1;
    for (bulkhead, watch) in bulkheads.iter().zip(&watches) {
        eventually("the last job ends", || bulkhead.snapshot().running == 0);
        let end = bulkhead.snapshot();
        assert_eq!((end.queued, end.waiting, end.overdue), (0, 0, 0), "{end}");
        assert_eq!(end.totals.accepted, end.totals.ended(), "{end}");
        assert_eq!(end.arrivals, end.totals.accepted + end.rejected_in_all(), "{end}");
        let most = watch.most.load(Ordering::SeqCst);
        assert!(most <= end.threads, "{most} ran at once: {end}");
        eventually("every value is dropped", || watch.alive.load(Ordering::SeqCst) == 0);
        totals.arrivals += end.arrivals;
        totals.returned += end.totals.returned;
        totals.panicked += end.totals.panicked;
        totals.not_started += end.totals.ended() - end.totals.returned - end.totals.panicked;
        totals.refused += end.rejected_in_all();
        totals.hook_panics += end.hook_panics;
        totals.drop_panics += end.drop_panics;
    }
}

fn close(runtime: &Runtime) {
    match fastrand::u8(0..3) {
        0 => drop(runtime.shutdown(Duration::ZERO)),
        1 => drop(runtime.shutdown(Duration::from_micros(fastrand::u64(0..3_000)))),
        _ => {
            let report = runtime.shutdown(WATCHDOG).expect("this is no thread of its own");
            assert!(report.is_clean(), "{report}");
        }
    }
}

fn exactly_its_threads_start_together(bulkhead: &Bulkhead) {
    eventually("at rest", || {
        let now = bulkhead.snapshot();
        (now.running, now.queued, now.waiting) == (0, 0, 0)
    });
    let threads = bulkhead.snapshot().threads;
    let together = Arc::new(Barrier::new(threads + 1));
    let jobs: Vec<_> = (0..threads)
        .map(|_| {
            let together = Arc::clone(&together);
            let job = bulkhead.submit(move |_| {
                together.wait();
            });
            job.expect("its slots are free")
        })
        .collect();
    together.wait();
    for job in jobs {
        job.join().expect("it runs");
    }
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < WATCHDOG, "{what}: still not true after {WATCHDOG:?}");
        thread::yield_now();
    }
}
