//! The price of partitioning: one pool of sixteen threads beside four of four.
//!
//! A job that finds its own bulkhead full is refused while others have idle threads: that is what
//! the isolation costs, and more so the less evenly the calls come.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use watertight::{Bulkhead, Runtime};

use crate::common::Failure;
use crate::common::plan::{Against, Row, Workload};
use crate::common::rounds::{Figures, Measured, Subject, latencies};
use crate::common::verdict::Target;
use crate::site::sleep_until;

const THREADS: usize = 16;
const PARTS: usize = 4;

const ONE: &str = "1 of 16";
const ONE_AGAIN: &str = "1 of 16 again";
const PARTED: &str = "4 of 4";

const EVEN: [u64; PARTS] = [25, 25, 25, 25];
const UNEVEN: [u64; PARTS] = [55, 15, 15, 15];

const FLAG: &str = "--memory-of";

pub(crate) fn workloads() -> Vec<Workload<'static>> {
    let row = |figure, target: Option<Target>| Row {
        figure,
        of: PARTED.into(),
        against: Against::One(ONE.into()),
        target,
        margin: 0.15,
        twins: (ONE.into(), ONE_AGAIN.into()),
        doubt: None,
    };
    let loaded = |name: &str, shares, in_quick| Workload {
        name: format!("partitioning, 80 % load, {name}"),
        in_quick,
        rows: vec![row("served_per_s", None), row("refused_percent", None), row("p50_us", None)],
        measure: Box::new(move |options| {
            measure(options.pick(3, 9), move |bulkheads| load(bulkheads, shares))
        }),
    };
    vec![
        loaded("even", EVEN, true),
        loaded("uneven", UNEVEN, true),
        Workload {
            name: "partitioning, low traffic".into(),
            in_quick: true,
            rows: vec![row("p50_us", None)],
            measure: Box::new(|options| measure(options.pick(3, 9), one_at_a_time)),
        },
        Workload {
            name: "partitioning, memory".into(),
            in_quick: true,
            rows: vec![row("resident_mb", Some(Target::AtMost(1.15)))],
            measure: Box::new(|options| {
                let subject = |name: &'static str| Subject::new(name, move || ask(name));
                let subjects = vec![subject(ONE), subject(ONE_AGAIN), subject(PARTED)];
                Measured::of_warm(options.pick(3, 9), subjects)
            }),
        },
    ]
}

fn build(parts: usize) -> Result<(Runtime, Vec<Bulkhead>), Failure> {
    let one = |n| Bulkhead::builder(format!("part{n}")).threads(THREADS / parts);
    let runtime =
        (0..parts).map(one).fold(Runtime::builder(), watertight::RuntimeBuilder::bulkhead);
    let runtime = runtime.build()?;
    let bulkheads = runtime.bulkheads().cloned().collect();
    Ok((runtime, bulkheads))
}

fn measure(
    rounds: usize,
    figures: impl Fn(&[Bulkhead]) -> Result<Figures, Failure> + Copy,
) -> Result<Measured, Failure> {
    let mut subjects = Vec::new();
    for (name, parts) in [(ONE, 1), (ONE_AGAIN, 1), (PARTED, PARTS)] {
        let (runtime, bulkheads) = build(parts)?;
        subjects.push(Subject::new(name, move || {
            let _alive = &runtime;
            figures(&bulkheads)
        }));
    }
    Measured::of(rounds, subjects)
}

/// Jobs of 5 ms come at random, for the parts in these shares, and keep 80 % of the threads busy.
fn load(bulkheads: &[Bulkhead], shares: [u64; PARTS]) -> Result<Figures, Failure> {
    const JOB: Duration = Duration::from_millis(5);
    const JOBS: usize = 3_000;
    // Sixteen threads serve 3,160 a second, as a sleep is 0.06 ms longer than asked for.
    const GAP: Duration = Duration::from_micros(395);

    let slots: Arc<[AtomicU64]> = (0..JOBS).map(|_| AtomicU64::new(0)).collect();
    // The same arrivals for everybody.
    let mut random = fastrand::Rng::with_seed(7);
    let mut refused = 0_u32;
    let start = Instant::now();
    let mut due = start;
    for number in 0..JOBS {
        due += GAP.mul_f64(-(1.0 - random.f64()).ln());
        let mut ticket = random.u64(0..100);
        let part = shares.iter().position(|share| {
            let here = ticket < *share;
            ticket = ticket.saturating_sub(*share);
            here
        });
        let bulkhead = &bulkheads[part.unwrap_or(0) % bulkheads.len()];
        sleep_until(due);
        let (sent, slots) = (Instant::now(), Arc::clone(&slots));
        let job = bulkhead.try_submit(move |_| {
            thread::sleep(JOB);
            let nanos = u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX);
            slots[number].store(nanos, Ordering::Release);
        });
        refused += u32::from(job.is_err());
    }
    while bulkheads.iter().any(|one| one.snapshot().running > 0 || one.snapshot().queued > 0) {
        thread::sleep(Duration::from_millis(1));
    }
    let seconds = start.elapsed().as_secs_f64();
    let samples: Vec<u64> =
        slots.iter().map(|slot| slot.load(Ordering::Acquire)).filter(|nanos| *nanos > 0).collect();
    if samples.len() + refused as usize != JOBS {
        return Err(format!("{} served and {refused} refused of {JOBS}", samples.len()).into());
    }
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let (served, all) = (samples.len() as f64, JOBS as f64);
    let mut figures = latencies(&samples);
    figures.push(("served_per_s", served / seconds));
    figures.push(("refused_percent", f64::from(refused) * 100.0 / all));
    Ok(figures)
}

/// Nobody else is there: an empty call, now to this part and now to that.
fn one_at_a_time(bulkheads: &[Bulkhead]) -> Result<Figures, Failure> {
    const CALLS: usize = 2_000;
    let mut samples = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        thread::sleep(Duration::from_micros(100));
        let sent = Instant::now();
        bulkheads[number % bulkheads.len()].call(|_| ())?;
        samples.push(u64::try_from(sent.elapsed().as_nanos())?);
    }
    Ok(latencies(&samples))
}

/// Memory is a process's, so it is measured in a process of its own: this program once more.
fn ask(name: &str) -> Result<Figures, Failure> {
    let parts = if name == PARTED { PARTS } else { 1 };
    let output =
        Command::new(std::env::current_exe()?).args([FLAG, &parts.to_string()]).output()?;
    let answer = String::from_utf8(output.stdout)?;
    let kib: f64 = answer.trim().parse().map_err(|_| format!("the probe answered `{answer}`"))?;
    Ok(vec![("resident_mb", kib * 1024.0 / 1e6)])
}

/// The number of parts whose memory is asked for, if it is.
pub(crate) fn asked(arguments: &[String]) -> Option<usize> {
    match arguments {
        [flag, parts, ..] if flag == FLAG => parts.parse().ok(),
        _ => None,
    }
}

/// Says what the whole process takes once every thread has worked.
pub(crate) fn answer(parts: usize) -> Result<(), Failure> {
    let (_runtime, bulkheads) = build(parts)?;
    for bulkhead in bulkheads.iter().cycle().take(20 * THREADS) {
        let handles: Vec<_> = (0..2 * THREADS / parts)
            .filter_map(|_| bulkhead.submit(|_| thread::yield_now()).ok())
            .collect();
        handles.into_iter().try_for_each(watertight::JobHandle::join)?;
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    println!("{}", line.split_whitespace().next().ok_or("an empty VmRSS")?);
    Ok(())
}
