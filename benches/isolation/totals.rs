//! The fair comparison: 200 threads for everybody, or the same 200 as bulkheads of 80, 60, 30 and 30.
//!
//! Four dependencies answer after 20 ms and have 200 calls a second each. Then recommendations takes
//! 3 s. Nothing fails there; how many calls of the other three still get an answer in a second?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use watertight::{Bulkhead, Runtime};

use crate::common::Failure;
use crate::common::plan::{Against, Row, Workload};
use crate::common::rounds::{Figures, Measured, Subject, latencies};
use crate::common::verdict::Target;
use crate::site::sleep_until;

const THREADS: usize = 200;
const PARTS: [(&str, usize); 4] =
    [("checkout", 80), ("search", 60), ("recommend", 30), ("the rest", 30)];
const RECOMMENDATIONS: usize = 2;

const FAST: Duration = Duration::from_millis(20);
const SLOW: Duration = Duration::from_secs(3);
const LIMIT: Duration = Duration::from_secs(1);
/// One call in each gap, to the four in turn.
const GAP: Duration = Duration::from_micros(1_250);
/// The pool of 200 is full a second after the change; what counts comes after that.
const BEFORE: Duration = Duration::from_millis(1_500);
const CALLS: usize = 2_800;

const POOL: &str = "200 shared";
const BULKHEADS: &str = "80 + 60 + 30 + 30";

pub(crate) fn workload() -> Workload<'static> {
    let row = |of: &str, target| Row {
        figure: "others_answered_percent",
        of: of.into(),
        against: Against::Nothing,
        target,
        margin: 0.05,
        twins: (of.into(), of.into()),
        doubt: None,
    };
    Workload {
        name: "equal totals, recommendations 3 s late".into(),
        in_quick: false,
        rows: vec![
            row(BULKHEADS, Some(Target::AtLeast(99.0))),
            row(POOL, Some(Target::AtMost(50.0))),
        ],
        measure: Box::new(|_| {
            let subjects = vec![
                Subject::new(POOL, || traffic(&Pool::build()?)),
                Subject::new(BULKHEADS, || traffic(&Bulkheads::build()?)),
            ];
            Measured::of_warm(3, subjects)
        }),
    }
}

trait Service {
    fn submit(&self, part: usize, job: Box<dyn FnOnce() + Send>) -> bool;
}

struct Pool(Sender<Box<dyn FnOnce() + Send>>);

impl Pool {
    fn build() -> Result<Self, Failure> {
        // Everything that the bulkheads could queue together.
        let (jobs, queue) = bounded::<Box<dyn FnOnce() + Send>>(THREADS);
        for _ in 0..THREADS {
            let queue = queue.clone();
            thread::Builder::new().spawn(move || queue.into_iter().for_each(|job| job()))?;
        }
        Ok(Self(jobs))
    }
}

impl Service for Pool {
    fn submit(&self, _: usize, job: Box<dyn FnOnce() + Send>) -> bool {
        self.0.try_send(job).is_ok()
    }
}

struct Bulkheads {
    each: Vec<Bulkhead>,
    _runtime: Runtime,
}

impl Bulkheads {
    fn build() -> Result<Self, Failure> {
        let described = PARTS.map(|(name, threads)| Bulkhead::builder(name).threads(threads));
        let runtime =
            described.into_iter().fold(Runtime::builder(), watertight::RuntimeBuilder::bulkhead);
        // What is still asleep at the end is left behind.
        let runtime = runtime.drop_wait(Duration::ZERO).build()?;
        Ok(Self { each: runtime.bulkheads().cloned().collect(), _runtime: runtime })
    }
}

impl Service for Bulkheads {
    fn submit(&self, part: usize, job: Box<dyn FnOnce() + Send>) -> bool {
        self.each[part].try_submit(|_| job()).is_ok()
    }
}

fn traffic(service: &impl Service) -> Result<Figures, Failure> {
    let limit = u64::try_from(LIMIT.as_nanos())?;
    let first = usize::try_from(BEFORE.as_micros() / GAP.as_micros())?;
    let slots: Arc<[AtomicU64]> = (0..CALLS).map(|_| AtomicU64::new(limit)).collect();
    let mut due = Instant::now();
    for number in 0..first + CALLS {
        due += GAP;
        sleep_until(due);
        let (part, sent) = (number % PARTS.len(), Instant::now());
        let takes = if part == RECOMMENDATIONS { SLOW } else { FAST };
        let theirs = Arc::clone(&slots);
        let _ = service.submit(
            part,
            Box::new(move || {
                thread::sleep(takes);
                if let Some(slot) = number.checked_sub(first).and_then(|at| theirs.get(at)) {
                    let nanos = u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    slot.store(nanos, Ordering::Release);
                }
            }),
        );
    }
    thread::sleep(LIMIT);
    let others: Vec<u64> = (first..)
        .zip(slots.iter())
        .filter(|(number, _)| number % PARTS.len() != RECOMMENDATIONS)
        .map(|(_, slot)| slot.load(Ordering::Acquire).min(limit))
        .collect();
    let answered = others.iter().filter(|nanos| **nanos < limit).count();
    let mut figures = latencies(&others);
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    figures.push(("others_answered_percent", answered as f64 * 100.0 / others.len() as f64));
    Ok(figures)
}
