//! Does a call pay for the bulkheads beside its own? And a thousand of them, called in turn, beside
//! a thousand threads that somebody wrote by hand?

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use watertight::{Bulkhead, Runtime};

use crate::common::Failure;
use crate::common::plan::{Against, Row, Workload};
use crate::common::rounds::{Figures, Measured, Subject, latencies};
use crate::common::verdict::Target;
use crate::work;

const ALONE: &str = "1 bulkhead";
const ALONE_AGAIN: &str = "1 bulkhead again";
const AMONG_THOUSAND: &str = "one of 1,000";
const IN_TURN: &str = "watertight, 1,000 in turn";
const IN_TURN_AGAIN: &str = "watertight, 1,000 in turn again";
const BY_HAND: &str = "condvar workers, 1,000 in turn";

pub(super) fn workloads() -> Vec<Workload<'static>> {
    vec![
        Workload {
            name: "one of many bulkheads".into(),
            in_quick: true,
            rows: vec![Row {
                figure: "p50_us",
                of: AMONG_THOUSAND.into(),
                against: Against::One(ALONE.into()),
                target: Some(Target::AtMost(1.1)),
                margin: 0.1,
                twins: (ALONE.into(), ALONE_AGAIN.into()),
            }],
            measure: Box::new(|options| one_of_many(options.pick(9, 21))),
        },
        Workload {
            name: "1,000 bulkheads in turn".into(),
            in_quick: true,
            rows: vec![Row {
                figure: "call_us",
                of: IN_TURN.into(),
                against: Against::One(BY_HAND.into()),
                target: Some(Target::AtMost(1.1)),
                margin: 0.1,
                twins: (IN_TURN.into(), IN_TURN_AGAIN.into()),
            }],
            measure: Box::new(|options| in_turn(options.pick(9, 21))),
        },
    ]
}

fn runtime_of(bulkheads: usize) -> Result<(Runtime, Vec<Bulkhead>), Failure> {
    let described = (0..bulkheads).map(|n| Bulkhead::builder(format!("b{n}")).threads(1).queue(16));
    let runtime =
        described.fold(Runtime::builder(), watertight::RuntimeBuilder::bulkhead).build()?;
    let handles = runtime.bulkheads().cloned().collect();
    Ok((runtime, handles))
}

fn one_of_many(rounds: usize) -> Result<Measured, Failure> {
    const CALLS: u32 = 3_000;
    let mut runtimes = Vec::new();
    for (name, bulkheads) in [
        (ALONE, 1),
        (ALONE_AGAIN, 1),
        ("one of 10", 10),
        ("one of 100", 100),
        (AMONG_THOUSAND, 1_000),
    ] {
        runtimes.push((name, runtime_of(bulkheads)?));
    }
    let subjects = runtimes.iter().map(|(name, (_, bulkheads))| {
        let called = &bulkheads[bulkheads.len() / 2];
        Subject::new(*name, move || {
            work::checked(u64::from(CALLS), |_| {
                let mut samples = Vec::with_capacity(CALLS as usize);
                for _ in 0..CALLS {
                    let start = Instant::now();
                    called.call(|_| work::empty())?;
                    samples.push(u64::try_from(start.elapsed().as_nanos())?);
                }
                Ok(latencies(&samples))
            })
        })
    });
    Measured::of(rounds, subjects.collect())
}

fn in_turn(rounds: usize) -> Result<Measured, Failure> {
    const MANY: usize = 1_000;
    let (_runtime, bulkheads) = runtime_of(MANY)?;
    let workers: Vec<ByHand> = (0..MANY).map(|_| ByHand::start()).collect::<Result<_, _>>()?;
    let ours = |name: &'static str| {
        let bulkheads = &bulkheads;
        Subject::new(name, move || each_in_turn(bulkheads, |one| Ok(one.call(|_| work::empty())?)))
    };
    let subjects = vec![
        ours(IN_TURN),
        ours(IN_TURN_AGAIN),
        Subject::new(BY_HAND, || each_in_turn(&workers, |one| one.call(work::empty))),
    ];
    Measured::of(rounds, subjects)
}

fn each_in_turn<T>(
    all: &[T],
    call: impl Fn(&T) -> Result<u64, Failure>,
) -> Result<Figures, Failure> {
    const LAPS: usize = 3;
    work::checked((LAPS * all.len()) as u64, |_| {
        let start = Instant::now();
        for _ in 0..LAPS {
            for one in all {
                call(one)?;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "some thousands")]
        let calls = (LAPS * all.len()) as f64;
        Ok(vec![("call_us", start.elapsed().as_secs_f64() * 1e6 / calls)])
    })
}

/// A thread with a place for one job and one for its answer.
struct ByHand {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Desk {
    on_it: Mutex<OnDesk>,
    job: Condvar,
    answer: Condvar,
}

#[derive(Default)]
enum OnDesk {
    #[default]
    Nothing,
    Job(Box<dyn FnOnce() -> u64 + Send>),
    Answer(u64),
    Over,
}

impl ByHand {
    fn start() -> Result<Self, Failure> {
        let desk = Arc::new(Desk::default());
        let theirs = Arc::clone(&desk);
        let thread = thread::Builder::new().spawn(move || theirs.serve())?;
        Ok(Self { desk, thread: Some(thread) })
    }

    fn call(&self, job: impl FnOnce() -> u64 + Send + 'static) -> Result<u64, Failure> {
        self.desk.put(OnDesk::Job(Box::new(job)), &self.desk.job);
        let mut on_it = self.desk.on_it.lock().map_err(|_| "a job panicked")?;
        loop {
            if let OnDesk::Answer(value) = *on_it {
                *on_it = OnDesk::Nothing;
                return Ok(value);
            }
            on_it = self.desk.answer.wait(on_it).map_err(|_| "a job panicked")?;
        }
    }
}

impl Desk {
    fn put(&self, what: OnDesk, wake: &Condvar) {
        *self.on_it.lock().unwrap_or_else(PoisonError::into_inner) = what;
        wake.notify_one();
    }

    fn serve(&self) {
        let Ok(mut on_it) = self.on_it.lock() else { return };
        loop {
            match std::mem::take(&mut *on_it) {
                OnDesk::Job(job) => {
                    drop(on_it);
                    self.put(OnDesk::Answer(job()), &self.answer);
                }
                OnDesk::Over => return,
                other => {
                    *on_it = other;
                    let Ok(woken) = self.job.wait(on_it) else { return };
                    on_it = woken;
                    continue;
                }
            }
            let Ok(locked) = self.on_it.lock() else { return };
            on_it = locked;
        }
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        self.desk.put(OnDesk::Over, &self.desk.job);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
