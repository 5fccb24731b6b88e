//! What do the metrics cost a call, and what does a scrape cost?
//!
//! The counts are kept whether anybody reads them or not, so there is no call without them to compare
//! with. What can be compared in one run: a call whose waits and run times go into the default buckets
//! with one whose bulkhead has no buckets at all, and a bulkhead that is scraped ten times a second with
//! one that is not. Both call an empty job, which is the hardest to do nothing to, and one of 100 us.
//!
//! `cargo bench --bench metrics --features prometheus -- [--quick] [--json]`

mod common;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::Failure;
use common::machine::Machine;
use common::options::Options;
use common::plan::{Against, Row, Workload, run};
use common::report::Report;
use common::rounds::{Figures, Measured, Subject};
use common::verdict::Target;
use watertight::metrics::{Format, Metrics};
use watertight::{Bulkhead, Runtime};

const WITH: &str = "buckets";
const AGAIN: &str = "buckets, again";
const WITHOUT: &str = "no buckets";
const SCRAPED: &str = "buckets, scraped at 10 Hz";

fn main() -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    let (machine, plan) = (Machine::now(), [added(), empty(), short(), scrape()]);
    let results = run(&plan, &options)?;
    let versions = vec![("watertight".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    let extra = serde_json::Value::Null;
    Report { bench: "metrics", options: &options, machine, versions, results, extra }.print();
    Ok(())
}

/// A runtime with one bulkhead of one thread.
struct One {
    _runtime: Runtime,
    bulkhead: Bulkhead,
    metrics: Metrics,
}

impl One {
    fn new(buckets: bool) -> Result<Self, Failure> {
        let mut one = Bulkhead::builder("bench").threads(1);
        if !buckets {
            one = one.wait_buckets([]).run_buckets([]);
        }
        let runtime = Runtime::builder().bulkhead(one).build()?;
        let (bulkhead, metrics) = (runtime.bulkhead("bench")?, Metrics::of(&runtime));
        Ok(Self { _runtime: runtime, bulkhead, metrics })
    }

    /// Nanoseconds a call.
    fn time(&self, calls: u32, run: Duration) -> Result<f64, Failure> {
        let start = Instant::now();
        for _ in 0..calls {
            self.bulkhead.call(move |_| spin(run))?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(calls))
    }

    /// The same, while somebody scrapes.
    fn time_scraped(&self, calls: u32, run: Duration) -> Result<f64, Failure> {
        let over = Arc::new(AtomicBool::new(false));
        let (metrics, stop) = (self.metrics.clone(), Arc::clone(&over));
        let scraper = thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                black_box(metrics.render(Format::Text));
                thread::park_timeout(Duration::from_millis(100));
            }
        });
        let took = self.time(calls, run);
        over.store(true, Ordering::SeqCst);
        scraper.thread().unpark();
        scraper.join().map_err(|_| "the scraper panicked")?;
        took
    }
}

fn spin(wanted: Duration) {
    let start = Instant::now();
    while !wanted.is_zero() && start.elapsed() < wanted {
        std::hint::spin_loop();
    }
}

fn row(figure: &'static str, of: &str, against: Against, target: Option<Target>) -> Row {
    let twins = (WITH.to_owned(), AGAIN.to_owned());
    Row { figure, of: of.to_owned(), against, target, margin: 0.25, twins, doubt: None }
}

/// The difference itself: batches of the two in turn, so that both see the same machine, and of each the
/// quickest, which is the one that the machine disturbed least.
fn added() -> Workload<'static> {
    let difference = |name, one: One, other: One, batches: u32| {
        Subject::new(name, move || {
            let (mut first, mut second) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..batches {
                first = first.min(one.time(200, Duration::ZERO)?);
                second = second.min(other.time(200, Duration::ZERO)?);
            }
            Ok(vec![("added_ns", first - second), ("quickest_ns", first)])
        })
    };
    let twins = ("nothing".to_owned(), "nothing, again".to_owned());
    let row = row("added_ns", WITH, Against::Nothing, Some(Target::AtMost(60.0)));
    Workload {
        name: "added to an empty call".into(),
        in_quick: true,
        rows: vec![Row { twins, margin: 1.0, ..row }],
        measure: Box::new(move |options| {
            let (rounds, batches) = (options.pick(11, 31), options.pick(100, 200));
            Measured::of(
                rounds,
                vec![
                    difference(WITH, One::new(true)?, One::new(false)?, batches),
                    difference("nothing", One::new(true)?, One::new(true)?, batches),
                    difference("nothing, again", One::new(true)?, One::new(true)?, batches),
                ],
            )
        }),
    }
}

fn calls(options: &Options, calls: u32, run: Duration) -> Result<Measured, Failure> {
    let timed = |name, buckets| {
        let one = One::new(buckets)?;
        let measure = move || Ok(vec![("ns", one.time(calls, run)?)]);
        Ok::<_, Failure>(Subject::new(name, measure))
    };
    let scraped = One::new(true)?;
    let scraped =
        Subject::new(SCRAPED, move || Ok(vec![("ns", scraped.time_scraped(calls, run)?)]));
    let subjects = vec![timed(WITH, true)?, timed(AGAIN, true)?, timed(WITHOUT, false)?, scraped];
    Measured::of(options.pick(11, 31), subjects)
}

fn empty() -> Workload<'static> {
    Workload {
        name: "an empty call".into(),
        in_quick: true,
        rows: vec![
            row("ns", WITH, Against::One(WITHOUT.into()), None),
            row("ns", SCRAPED, Against::One(WITH.into()), None),
        ],
        measure: Box::new(|options| calls(options, options.pick(20_000, 50_000), Duration::ZERO)),
    }
}

fn short() -> Workload<'static> {
    let target = Some(Target::AtMost(1.03));
    Workload {
        name: "a call of 100 us".into(),
        in_quick: true,
        rows: vec![
            row("ns", WITH, Against::One(WITHOUT.into()), target),
            row("ns", SCRAPED, Against::One(WITHOUT.into()), target),
        ],
        measure: Box::new(|options| {
            calls(options, options.pick(2_000, 4_000), Duration::from_micros(100))
        }),
    }
}

/// How long one answer takes to write, for how many bulkheads.
fn scrape() -> Workload<'static> {
    let many = [("1 bulkhead", 1), ("10 bulkheads", 10), ("100 bulkheads", 100)];
    let rows = many.iter().map(|(name, _)| {
        let twins = ((*name).to_owned(), (*name).to_owned());
        Row { twins, ..row("text_us", name, Against::Nothing, None) }
    });
    Workload {
        name: "a scrape".into(),
        in_quick: true,
        rows: rows.collect(),
        measure: Box::new(move |options| {
            let mut subjects = Vec::new();
            for (name, bulkheads) in many {
                let bulkheads = (0..bulkheads).map(|n| Bulkhead::builder(n.to_string()).threads(4));
                let runtime =
                    bulkheads.fold(Runtime::builder(), watertight::RuntimeBuilder::bulkhead);
                let runtime = runtime.build()?;
                let metrics = Metrics::of(&runtime);
                subjects.push(Subject::new(name, move || {
                    let _ = &runtime;
                    Ok(render(&metrics))
                }));
            }
            Measured::of(options.pick(5, 21), subjects)
        }),
    }
}

fn render(metrics: &Metrics) -> Figures {
    let time = |format| {
        let start = Instant::now();
        let body = black_box(metrics.render(format));
        (start.elapsed().as_secs_f64() * 1e6, body.len())
    };
    let ((text, bytes), (open_metrics, _)) = (time(Format::Text), time(Format::OpenMetrics));
    #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
    let bytes = bytes as f64;
    vec![("text_us", text), ("openmetrics_us", open_metrics), ("bytes", bytes)]
}
