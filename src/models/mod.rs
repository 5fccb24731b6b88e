//! Loom models of the code that ships: every interleaving of a few threads, up to a bound.
//!
//! `cargo loom` runs them. Each states the promise in its name and, in its comment, the one-line bug
//! that it must catch. A model plays small: one compartment without threads of its own, whose worker
//! is a model thread, or the model's main thread taking one `step`.
//!
//! [`explore`] counts the interleavings and demands a least number, so that a model that has lost
//! its race is noticed. Time-outs come in the two modes of [`Time`]; a model with a limit that a
//! blocked thread watches runs in both.

mod closing;
mod door;
mod drops;
mod slot;
mod timekeeper;
mod work;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::bulkhead::Bulkhead;
use crate::compartment::{Compartment, Hooks, Parts, RejectionPolicy, Rules};
use crate::name::Name;
use crate::sync::{Arc, OwnerArc, Time, set_time};
use crate::time::{Clock, Deadline};

/// Runs `model` in every interleaving, and demands that there were at least `least`.
pub(crate) fn explore(least: usize, time: Time, model: impl Fn() + Send + Sync + 'static) {
    explore_with(loom::model::Builder::new(), least, time, model);
}

/// The same with at most two forced switches, for a model whose set-up alone has many.
pub(crate) fn explore_shallow(least: usize, time: Time, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(2, |bound| bound.min(2)));
    explore_with(builder, least, time, model);
}

fn explore_with(
    mut builder: loom::model::Builder,
    least: usize,
    time: Time,
    model: impl Fn() + Send + Sync + 'static,
) {
    // The time mode is the process's, so the models take turns, however many threads the tests have.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let count = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&count);
    builder.max_branches = 20_000;
    set_time(time);
    builder.check(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        model();
    });
    let ran = count.load(Ordering::SeqCst);
    println!("{ran} interleavings");
    assert!(ran >= least, "only {ran} interleavings where at least {least} were expected");
}

/// A clock that stands still unless the model moves it. Not an object of the model: its readings
/// are arguments of the code under test.
#[derive(Debug)]
pub(crate) struct ModelClock {
    start: Instant,
    millis: AtomicU64,
}

impl ModelClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), millis: AtomicU64::new(0) })
    }

    pub(crate) fn advance(&self, millis: u64) {
        self.millis.fetch_add(millis, Ordering::SeqCst);
    }

    pub(crate) fn deadline(&self, millis: u64) -> Deadline {
        Deadline::at(self.now() + Duration::from_millis(millis))
    }
}

impl Clock for ModelClock {
    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.millis.load(Ordering::SeqCst))
    }
}

/// A compartment for a model, open, with no thread of its own.
pub(crate) struct World {
    pub(crate) bulkhead: Bulkhead,
    pub(crate) clock: Arc<ModelClock>,
}

impl World {
    pub(crate) fn new(threads: usize, queue: usize, policy: RejectionPolicy) -> Self {
        Self::with_queue_limit(threads, queue, policy, None)
    }

    pub(crate) fn with_queue_limit(
        threads: usize,
        queue: usize,
        policy: RejectionPolicy,
        queue_limit: Option<Duration>,
    ) -> Self {
        let clock = ModelClock::new();
        let rules = Rules {
            threads,
            queue,
            policy,
            queue_limit,
            refuse_late: false,
            wait_bounds: Arc::from([]),
            run_bounds: Arc::from([]),
        };
        let name = Name::new("model").expect("a plain name");
        let compartment = Compartment::new(Parts {
            runtime: 0,
            facts: rules.facts(name, None).keep(),
            label: "model".into(),
            rules,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            observer: None,
            hooks: Hooks::default(),
            cores: None,
            precedence: None,
            descriptors: Arc::default(),
        });
        compartment.open(true);
        Self { bulkhead: Bulkhead::new(OwnerArc::new(compartment)), clock }
    }

    pub(crate) fn step(&self) -> bool {
        step(&self.bulkhead, 0)
    }

    pub(crate) fn close(&self) {
        self.bulkhead.compartment().drain();
        self.bulkhead.compartment().end_unstarted();
        // Drops what was ended, as the timekeeper does.
        self.bulkhead.compartment().tick(None);
    }

    pub(crate) fn drain(&self) {
        self.bulkhead.compartment().drain();
    }
}

/// One turn of a worker's loop.
pub(crate) fn step(bulkhead: &Bulkhead, worker: usize) -> bool {
    bulkhead.compartment().step(worker)
}

/// A thread that lives a worker's whole life.
pub(crate) fn worker(bulkhead: &Bulkhead, index: usize) -> loom::thread::JoinHandle<()> {
    let bulkhead = bulkhead.clone();
    loom::thread::spawn(move || bulkhead.compartment().work(index))
}

pub(crate) const WAIT: RejectionPolicy =
    RejectionPolicy::Wait { at_most: Duration::MAX, submitters: 4 };

/// Watches the values of jobs go. Its counts are oracles, not objects of the model.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drops {
    all: std::sync::Arc<AtomicUsize>,
    late: std::sync::Arc<AtomicUsize>,
}

impl Drops {
    /// A value that notes when it is dropped by anybody but the present thread, its caller, while
    /// its job no longer counts as running.
    pub(crate) fn witness(&self, world: &World) -> Witness {
        let caller = loom::thread::current().id();
        Witness { drops: self.clone(), bulkhead: world.bulkhead.clone(), caller }
    }

    pub(crate) fn count(&self) -> usize {
        self.all.load(Ordering::SeqCst)
    }

    pub(crate) fn late(&self) -> usize {
        self.late.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
pub(crate) struct Witness {
    drops: Drops,
    bulkhead: Bulkhead,
    caller: loom::thread::ThreadId,
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.drops.all.fetch_add(1, Ordering::SeqCst);
        let strange = loom::thread::current().id() != self.caller;
        if strange && self.bulkhead.snapshot().running == 0 {
            self.drops.late.fetch_add(1, Ordering::SeqCst);
        }
    }
}
