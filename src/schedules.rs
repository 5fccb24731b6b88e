//! Random schedules of the code that ships: many threads, all features at once.
//!
//! `cargo shuttle` runs them. The loom models see every interleaving of two or three threads; this
//! sees some ten thousand of seventeen. It proves nothing, and finds what small models are too small
//! for. A failure prints its seed: `WATERTIGHT_SEED=<seed> cargo shuttle` plays it again.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner, thread};

use crate::bulkhead::{Batch, Bulkhead};
use crate::compartment::{Context, RejectionPolicy};
use crate::error::CallError;
use crate::runtime::Runtime;
use crate::time::{Clock, Deadline, ManualClock};

const SCHEDULES: usize = 10_000;
const SUBMITTERS: usize = 8;
const JOBS_EACH: usize = 4;
const THREADS: usize = 2;

/// Runs `scenario` in `schedules` random orders, under a seed that it prints.
fn schedules(schedules: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let seed = match std::env::var("WATERTIGHT_SEED") {
        Ok(seed) => seed.parse().expect("WATERTIGHT_SEED is a number"),
        Err(_) => RandomState::new().build_hasher().finish(),
    };
    eprintln!("WATERTIGHT_SEED={seed}");
    let mut config = Config::new();
    config.stack_size = 0x10_0000;
    let runner = Runner::new(RandomScheduler::new_from_seed(seed, schedules), config);
    runner.run(scenario);
}

/// What is counted from inside the jobs. Oracles, not objects of the schedule.
#[derive(Default)]
struct Tally {
    inside: [AtomicUsize; 2],
    most: [AtomicUsize; 2],
    ran: AtomicUsize,
    answered: AtomicUsize,
    refused: AtomicUsize,
}

impl Tally {
    /// A job's body: it is inside for a while, and some panic.
    fn job(
        self: &Arc<Self>,
        which: usize,
        panics: bool,
    ) -> impl FnOnce(&Context<'_>) -> usize + Send + 'static {
        let tally = Arc::clone(self);
        move |_| {
            let now = tally.inside[which].fetch_add(1, Ordering::SeqCst) + 1;
            tally.most[which].fetch_max(now, Ordering::SeqCst);
            tally.ran.fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
            tally.inside[which].fetch_sub(1, Ordering::SeqCst);
            if panics {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            which
        }
    }

    fn note<T>(&self, answer: &Result<T, CallError>) {
        match answer {
            Err(CallError::Rejected(_)) => self.refused.fetch_add(1, Ordering::SeqCst),
            _ => self.answered.fetch_add(1, Ordering::SeqCst),
        };
    }
}

/// One submission, in one of the ways that there are.
fn submit_somehow(tally: &Arc<Tally>, bulkheads: &[Bulkhead; 2], clock: &ManualClock) {
    let mut rng = thread_rng();
    let which = rng.gen_range(0..2);
    let (bulkhead, neighbour) = (&bulkheads[which], &bulkheads[1 - which]);
    let job = tally.job(which, rng.gen_bool(0.1));
    let deadline = Deadline::at(clock.now() + Duration::from_millis(rng.gen_range(0..4)));
    match rng.gen_range(0..8) {
        0 => tally.note(&bulkhead.call(job)),
        1 => tally.note(&bulkhead.call_until(deadline, job)),
        2 => match bulkhead.submit(job) {
            Ok(handle) => {
                handle.cancel();
                tally.note(&handle.join());
            }
            Err(refused) => tally.note::<()>(&Err(refused.into())),
        },
        3 => match bulkhead.submit_until(deadline, job) {
            Ok(handle) => tally.note(&handle.join()),
            Err(refused) => tally.note::<()>(&Err(refused.into())),
        },
        4 => match bulkhead.try_submit(job) {
            // Detached: nobody hears of it.
            Ok(handle) => drop(handle),
            Err(refused) => drop(refused),
        },
        5 => {
            // From inside a job into the same bulkhead or the other.
            let target = if rng.gen_bool(0.5) { bulkhead.clone() } else { neighbour.clone() };
            let inner = tally.job(usize::from(target.name() == "two"), false);
            let watch = Arc::clone(tally);
            let outer = move |_: &Context<'_>| watch.note(&target.call(inner));
            tally.note(&bulkhead.call(outer));
        }
        6 => {
            let future = bulkhead.call_async(job);
            tally.note(&shuttle::future::block_on(future));
        }
        _ => {
            let batch = Batch::new();
            if batch.submit(bulkhead, which, job).is_err() {
                tally.refused.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// Four workers in two bulkheads, eight submitters, a clock that moves, and a shutdown in between.
fn storm() {
    let clock = Arc::new(ManualClock::new());
    let policies = [
        RejectionPolicy::Reject,
        RejectionPolicy::DropOldest,
        RejectionPolicy::Wait { at_most: Duration::from_millis(2), submitters: 3 },
    ];
    let mut rng = thread_rng();
    let mut describe = |name: &str| {
        Bulkhead::builder(name)
            .threads(THREADS)
            .queue(rng.gen_range(1..3))
            .rejection(policies[rng.gen_range(0..policies.len())])
            .queue_limit(Duration::from_millis(rng.gen_range(1..4)))
            .call_limit(Duration::from_millis(3))
    };
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(describe("one"))
        .bulkhead(describe("two"))
        .build()
        .expect("it is a plain description");
    let bulkheads = ["one", "two"].map(|name| runtime.bulkhead(name).expect("it was built"));
    let tally = Arc::new(Tally::default());
    let submitters: Vec<_> = (0..SUBMITTERS)
        .map(|_| {
            let (tally, bulkheads) = (Arc::clone(&tally), bulkheads.clone());
            let clock = Arc::clone(&clock);
            thread::spawn(move || {
                for _ in 0..JOBS_EACH {
                    submit_somehow(&tally, &bulkheads, &clock);
                }
            })
        })
        .collect();
    let ticking = thread::spawn(move || {
        for _ in 0..12 {
            clock.advance(Duration::from_millis(1));
            thread::yield_now();
        }
    });
    for _ in 0..thread_rng().gen_range(0..60) {
        thread::yield_now();
    }
    let storm: Vec<_> = match thread_rng().gen_range(0..3) {
        // Several at once, and then the drop.
        0 => {
            let runtime = Arc::new(runtime);
            let close = |limit| {
                let runtime = Arc::clone(&runtime);
                thread::spawn(move || drop(runtime.shutdown(limit)))
            };
            vec![close(Duration::ZERO), close(Duration::MAX)]
        }
        1 => {
            drop(runtime);
            Vec::new()
        }
        _ => {
            ticking.thread().unpark();
            drop(runtime.shutdown(Duration::MAX));
            Vec::new()
        }
    };
    for thread in submitters.into_iter().chain(storm).chain([ticking]) {
        thread.join().expect("no thread panics");
    }
    for (index, bulkhead) in bulkheads.iter().enumerate() {
        let most = tally.most[index].load(Ordering::SeqCst);
        assert!(most <= THREADS, "{most} jobs of one bulkhead ran at once");
        // The last worker may still be at the observer's turn; every job has ended.
        let end = bulkhead.snapshot();
        assert_eq!(end.arrivals, end.totals.accepted + end.rejected_in_all(), "{end}");
        assert!(end.totals.accepted >= end.totals.ended(), "{end}");
        assert_eq!((end.queued, end.waiting), (0, 0), "{end}");
        assert_eq!(
            end.totals.accepted,
            end.totals.ended() + end.running as u64,
            "{end}: every accepted job ends exactly once",
        );
    }
}

#[test]
fn a_storm_of_everything_at_once_ends_every_job_once() {
    schedules(SCHEDULES, storm);
}

/// First come, first served, whatever the order in which the threads run.
#[test]
fn waiters_are_served_in_the_order_in_which_they_came() {
    schedules(SCHEDULES / 5, || {
        let runtime = Runtime::builder()
            .bulkhead(
                Bulkhead::builder("line")
                    .threads(1)
                    .queue(0)
                    .rejection(RejectionPolicy::Wait { at_most: Duration::MAX, submitters: 8 })
                    .no_deadline(),
            )
            .build()
            .expect("it is a plain description");
        let bulkhead = runtime.bulkhead("line").expect("it was built");
        let (order, served) = std::sync::mpsc::channel();
        let gate = Arc::new(shuttle::sync::Mutex::new(()));
        let closed = gate.lock().expect("nobody panics");
        let inner = Arc::clone(&gate);
        let held = bulkhead.submit(move |_| drop(inner.lock())).expect("there is room");
        let callers: Vec<_> = (0..6)
            .map(|number| {
                let (caller, order) = (bulkhead.clone(), order.clone());
                let job = move |_: &Context<'_>| order.send(number).expect("it is read below");
                let thread = thread::spawn(move || {
                    if number % 2 == 0 {
                        caller.call(job)
                    } else {
                        shuttle::future::block_on(caller.call_async(job))
                    }
                });
                while bulkhead.snapshot().waiting <= number {
                    thread::yield_now();
                }
                thread
            })
            .collect();
        drop(closed);
        held.join().expect("it runs");
        for caller in callers {
            caller.join().expect("no thread panics").expect("it is served");
        }
        assert_eq!(served.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        drop(runtime);
    });
}
