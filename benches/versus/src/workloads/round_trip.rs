//! One caller, one worker, an empty job: what does crossing over and back cost?

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Failure;
use crate::common::plan::Workload;
use crate::common::rounds::{Figures, Measured, Subject, latencies};
use crate::common::verdict::Target;
use crate::contenders::{
    Bare, Full, Kind, Observed, Pool, Watertight, each_contender, each_of_ours,
};
use crate::work;

use super::beside_the_best;

pub(super) fn workloads() -> Vec<Workload<'static>> {
    let rows = |judged: bool| {
        let target = |limit| judged.then_some(Target::AtMost(limit));
        vec![
            beside_the_best("p50_us", Bare::NAME, target(1.05)),
            beside_the_best("p99_us", Bare::NAME, target(1.15)),
            beside_the_best("p50_us", Full::NAME, target(1.25)),
            beside_the_best("p99_us", Full::NAME, target(1.25)),
        ]
    };
    vec![
        Workload {
            name: "round trip".into(),
            in_quick: true,
            rows: rows(true),
            measure: Box::new(|options| {
                measure(options.pick(11, 21), options.pick(3_000, 10_000), Duration::ZERO)
            }),
        },
        Workload {
            name: "round trip after 1 ms idle".into(),
            in_quick: false,
            rows: rows(false),
            measure: Box::new(|_| measure(5, 2_000, Duration::from_millis(1))),
        },
    ]
}

fn measure(rounds: usize, calls: u32, idle: Duration) -> Result<Measured, Failure> {
    let (parking, spinning) = (HandOff::start(true), HandOff::start(false));
    let mut subjects = Vec::new();
    subjects.extend(each_contender!(P => subject(P::start(1, 1_024)?, calls, idle)));
    subjects.extend(each_of_ours!(P => subject(P::start(1, 1_024)?, calls, idle)));
    subjects.push(subject(Watertight::<Observed>::start(1, 1_024)?, calls, idle));
    subjects.push(floor("floor: park and unpark", &parking, calls, idle));
    if idle.is_zero() {
        subjects.push(floor("floor: spinning", &spinning, calls, idle));
    }
    Measured::of(rounds, subjects)
}

fn subject<P: Pool + 'static>(pool: P, calls: u32, idle: Duration) -> Subject<'static> {
    Subject::new(P::NAME, move || {
        work::checked(u64::from(calls), |_| timed(calls, idle, || pool.call(work::empty).map(drop)))
    })
}

fn floor<'a>(name: &str, hand_off: &'a HandOff, calls: u32, idle: Duration) -> Subject<'a> {
    Subject::new(name, move || {
        let figures = timed(calls, idle, || {
            hand_off.there_and_back();
            Ok(())
        });
        hand_off.word.store(IDLE, Ordering::Release);
        figures
    })
}

fn timed(
    calls: u32,
    idle: Duration,
    mut call: impl FnMut() -> Result<(), Failure>,
) -> Result<Figures, Failure> {
    let mut samples = Vec::with_capacity(calls as usize);
    for _ in 0..calls {
        if !idle.is_zero() {
            thread::sleep(idle);
        }
        let start = Instant::now();
        call()?;
        samples.push(u64::try_from(start.elapsed().as_nanos())?);
    }
    Ok(latencies(&samples))
}

/// Two threads that do nothing but hand a word to each other: below it nobody can be.
struct HandOff {
    word: Arc<AtomicU32>,
    parks: bool,
    other: Option<thread::JoinHandle<()>>,
}

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const ANSWERED: u32 = 2;
const OVER: u32 = 3;

impl HandOff {
    fn start(parks: bool) -> Self {
        let word = Arc::new(AtomicU32::new(IDLE));
        let theirs = Arc::clone(&word);
        let caller = thread::current();
        let other = thread::spawn(move || {
            loop {
                match theirs.load(Ordering::Acquire) {
                    ASKED => {
                        theirs.store(ANSWERED, Ordering::Release);
                        if parks {
                            caller.unpark();
                        }
                    }
                    OVER => return,
                    // An idle spinner gives the core to those who are measured meanwhile.
                    _ if parks => thread::park(),
                    IDLE => thread::sleep(Duration::from_micros(200)),
                    _ => std::hint::spin_loop(),
                }
            }
        });
        Self { word, parks, other: Some(other) }
    }

    fn there_and_back(&self) {
        self.word.store(ASKED, Ordering::Release);
        if let (true, Some(other)) = (self.parks, &self.other) {
            other.thread().unpark();
        }
        while self.word.load(Ordering::Acquire) != ANSWERED {
            if self.parks {
                thread::park();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

impl Drop for HandOff {
    fn drop(&mut self) {
        self.word.store(OVER, Ordering::Release);
        if let Some(other) = self.other.take() {
            other.thread().unpark();
            let _ = other.join();
        }
    }
}
