//! Sixteen callers wait for one place. Is each served as often, and how long does it wait?
//!
//! The place is held for half a millisecond each time, and whoever has had it comes back at once. The
//! same is done with a crossbeam channel, the connection pool r2d2 and `parking_lot`'s mutex, in whose
//! lines it is chance who is next.
//!
//! `cargo bench --bench fairness -- --quick`

#[path = "common/mod.rs"]
mod common;

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use serde_json::Value;
use watertight::{Bulkhead, RejectionPolicy, Runtime};

use common::machine::Machine;
use common::options::Options;
use common::plan::{Against, Row, Workload};
use common::report::Report;
use common::rounds::{Figures, Measured, Subject, latencies};
use common::verdict::Target;
use common::{Failure, plan};

const CALLERS: usize = 16;
const HELD: Duration = Duration::from_micros(500);

const OURS: &str = "watertight";
const AGAIN: &str = "watertight again";
const CHANNEL: &str = "crossbeam-channel";
const R2D2: &str = "r2d2";
const MUTEX: &str = "parking_lot::Mutex";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fairness: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    let machine = Machine::now();
    let results = plan::run(&[workload()], &options)?;
    let versions = vec![("watertight".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    Report { bench: "fairness", options: &options, machine, versions, results, extra: Value::Null }
        .print();
    Ok(())
}

fn workload() -> Workload<'static> {
    let row = |figure, target, against, twins: (&str, &str)| Row {
        figure,
        of: OURS.into(),
        against,
        target,
        margin: 0.2,
        twins: (twins.0.into(), twins.1.into()),
        doubt: Some("late_returns"),
    };
    let others = || Against::Best([CHANNEL, R2D2, MUTEX].map(str::to_owned).into());
    Workload {
        name: "16 waiting callers".into(),
        in_quick: true,
        rows: vec![
            // Counted, so no noise of the machine is in it but late returns.
            row("served_apart", Some(Target::AtMost(1.0)), Against::Nothing, (OURS, OURS)),
            row("p99_us", None, others(), (OURS, AGAIN)),
            row("p999_us", None, others(), (OURS, AGAIN)),
        ],
        measure: Box::new(|options| {
            let span = Duration::from_secs(options.pick(2, 10));
            let subjects = vec![
                Subject::new(OURS, move || contend(&Compartment::build()?, span)),
                Subject::new(AGAIN, move || contend(&Compartment::build()?, span)),
                Subject::new(CHANNEL, move || contend(&Channel::start(), span)),
                Subject::new(R2D2, move || contend(&Connections::build()?, span)),
                Subject::new(MUTEX, move || contend(&Lock::default(), span)),
            ];
            Measured::of_warm(3, subjects)
        }),
    }
}

/// One place, for which callers wait.
trait Place: Sync {
    /// Waits for the place, does `work` in it, and leaves it.
    fn hold(&self, work: impl FnOnce() + Send + 'static) -> Result<(), Failure>;
}

struct Compartment {
    bulkhead: Bulkhead,
    _runtime: Runtime,
}

impl Compartment {
    fn build() -> Result<Self, Failure> {
        let policy = RejectionPolicy::Wait { at_most: Duration::MAX, submitters: CALLERS + 1 };
        let place = Bulkhead::builder("place").threads(1).queue(0).rejection(policy).no_deadline();
        let runtime = Runtime::builder().bulkhead(place).build()?;
        Ok(Self { bulkhead: runtime.bulkhead("place")?, _runtime: runtime })
    }
}

impl Place for Compartment {
    fn hold(&self, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        Ok(self.bulkhead.call(|_| work())?)
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// One thread that takes jobs from those who wait to hand it one.
struct Channel(Sender<(Job, Sender<()>)>);

impl Channel {
    fn start() -> Self {
        let (jobs, queue) = bounded::<(Job, Sender<()>)>(0);
        thread::spawn(move || {
            for (job, done) in queue {
                job();
                // The caller waits for it.
                let _ = done.send(());
            }
        });
        Self(jobs)
    }
}

impl Place for Channel {
    fn hold(&self, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        let (done, is_done) = bounded(1);
        self.0.send((Box::new(work), done)).map_err(|_| "the thread is gone")?;
        Ok(is_done.recv()?)
    }
}

struct Connections(r2d2::Pool<Manager>);

struct Manager;

impl r2d2::ManageConnection for Manager {
    type Connection = ();
    type Error = Infallible;

    fn connect(&self) -> Result<(), Infallible> {
        Ok(())
    }

    fn is_valid(&self, (): &mut ()) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, (): &mut ()) -> bool {
        false
    }
}

impl Connections {
    fn build() -> Result<Self, Failure> {
        Ok(Self(r2d2::Pool::builder().max_size(1).test_on_check_out(false).build(Manager)?))
    }
}

impl Place for Connections {
    fn hold(&self, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        let _connection = self.0.get()?;
        work();
        Ok(())
    }
}

#[derive(Default)]
struct Lock(parking_lot::Mutex<()>);

impl Place for Lock {
    fn hold(&self, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        let _locked = self.0.lock();
        work();
        Ok(())
    }
}

/// Has the callers take turns for so long, all of them in line from the start.
fn contend(place: &impl Place, span: Duration) -> Result<Figures, Failure> {
    let (over, arrived) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let callers = thread::scope(|scope| {
        let first = {
            let arrived = Arc::clone(&arrived);
            scope.spawn(move || {
                place.hold(move || {
                    while arrived.load(Ordering::Acquire) < CALLERS {
                        thread::sleep(Duration::from_millis(1));
                    }
                    // From having said so to standing in line it is a little way.
                    thread::sleep(Duration::from_millis(50));
                })
            })
        };
        thread::sleep(Duration::from_millis(20));
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (over, arrived) = (Arc::clone(&over), Arc::clone(&arrived));
                scope.spawn(move || {
                    arrived.fetch_add(1, Ordering::Release);
                    take_turns(place, &over)
                })
            })
            .collect();
        first.join().map_err(|_| "the first caller panicked")??;
        thread::sleep(span);
        over.store(true, Ordering::Release);
        let callers = callers
            .into_iter()
            .map(|caller| caller.join().unwrap_or_else(|_| Err("a caller panicked".into())));
        callers.collect::<Result<Vec<_>, Failure>>()
    })?;

    let counts = callers.iter().map(|caller| caller.waits.len());
    let apart = counts.clone().max().unwrap_or(0) - counts.clone().min().unwrap_or(0);
    let late: usize = callers.iter().map(|caller| caller.late).sum();
    // The first wait is for everybody to come.
    let waits: Vec<u64> =
        callers.iter().flat_map(|caller| caller.waits.iter().skip(1).copied()).collect();
    let mut figures = latencies(&waits);
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    figures.extend([("served_apart", apart as f64), ("late_returns", late as f64)]);
    Ok(figures)
}

struct Caller {
    /// How long it waited each time, in nanoseconds.
    waits: Vec<u64>,
    /// How often the machine kept it from the line for so long that its turn had passed.
    late: usize,
}

fn take_turns(place: &impl Place, over: &Arc<AtomicBool>) -> Result<Caller, Failure> {
    let a_round = HELD * u32::try_from(CALLERS - 1)?;
    let mut caller = Caller { waits: Vec::with_capacity(4_096), late: 0 };
    let mut left: Option<Instant> = None;
    while !over.load(Ordering::Acquire) {
        let came = Instant::now();
        if left.is_some_and(|left| came - left > a_round) {
            caller.late += 1;
        }
        let (told, tells) = bounded(1);
        let over = Arc::clone(over);
        place.hold(move || {
            let started = Instant::now();
            // Whoever gets the place after the end was not served in time.
            let counts = !over.load(Ordering::Acquire);
            thread::sleep(HELD);
            let _ = told.send((counts, started, Instant::now()));
        })?;
        let (counts, started, done) = tells.recv()?;
        left = Some(done);
        if counts {
            caller.waits.push(u64::try_from(started.duration_since(came).as_nanos())?);
        }
    }
    Ok(caller)
}
