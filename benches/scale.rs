//! What do a call and a unit cost as there are more of them: threads, queued jobs, bulkheads, callers
//! that wait?
//!
//! Each point is measured in a process of its own, since memory is a process's. The cost of a call is
//! to stay flat, and memory to grow no faster than the number of units.
//!
//! `cargo bench --bench scale -- --plot docs/scale.svg`

#[path = "common/mod.rs"]
mod common;

use std::fs;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use plotters::prelude::*;
use serde_json::Value;
use watertight::{Bulkhead, JobHandle, Rejected, RejectionPolicy, Runtime};

use common::machine::Machine;
use common::options::Options;
use common::plan::{Against, Results, Row, Workload};
use common::report::Report;
use common::rounds::{Figures, Measured, Subject};
use common::statistics::median;
use common::verdict::Target;
use common::{Failure, plan};

/// What there are more and more of, from how many on the cost of a call is to be flat, and how many
/// there are at each point.
struct Axis {
    unit: &'static str,
    /// The few are another case: an only thread is awake when the next call comes, and for one queued
    /// job or waiting caller an idle thread is woken.
    flat_from: u32,
    points: &'static [u32],
    measure: fn(u32) -> Result<Point, Failure>,
}

const AXES: [Axis; 4] = [
    Axis { unit: "threads", flat_from: 4, points: &[1, 4, 16, 64, 256, 1_024], measure: threads },
    Axis {
        unit: "queued jobs",
        flat_from: 100,
        points: &[1, 10, 100, 1_000, 10_000, 100_000, 1_000_000],
        measure: queued_jobs,
    },
    Axis { unit: "bulkheads", flat_from: 1, points: &[1, 10, 100, 1_000], measure: bulkheads },
    Axis {
        unit: "waiting callers",
        flat_from: 10,
        points: &[1, 10, 100, 1_000],
        measure: waiting_callers,
    },
];

/// A cost that grows with the logarithm of a thousandfold number, as a cache's misses do, is flat; one
/// that grows with the number is not.
const FLAT: f64 = 2.0;

const POINT: &str = "--point";

struct Point {
    call_us: f64,
    resident_bytes: f64,
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scale: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Vec<String>) -> Result<(), Failure> {
    if let [flag, unit, number, ..] = arguments.as_slice() {
        if flag == POINT {
            return answer(unit, number.parse()?);
        }
    }
    let mut plot = None;
    if let Some(at) = arguments.iter().position(|argument| argument == "--plot") {
        plot =
            Some(arguments.drain(at..).nth(1).ok_or("`--plot` is the last option, with a file")?);
    }
    let options = Options::read(arguments)?;
    let machine = Machine::now();
    let plan: Vec<_> = AXES.iter().map(workload).collect();
    let results = plan::run(&plan, &options)?;
    if let Some(file) = plot {
        draw(&file, &results)?;
    }
    let versions = vec![("watertight".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    Report { bench: "scale", options: &options, machine, versions, results, extra: Value::Null }
        .print();
    Ok(())
}

fn name(number: u32, unit: &str) -> String {
    format!("{number} {unit}")
}

fn again(number: u32, unit: &str) -> String {
    format!("{number} {unit} again")
}

fn workload(axis: &'static Axis) -> Workload<'static> {
    let Axis { unit, flat_from, points, .. } = axis;
    let last = points[points.len() - 1];
    let before = points[points.len() - 2];
    let row = |figure, from: u32, limit| Row {
        figure,
        of: name(last, unit),
        against: Against::One(name(from, unit)),
        target: Some(Target::AtMost(limit)),
        margin: 0.25,
        twins: (name(*flat_from, unit), again(*flat_from, unit)),
        doubt: None,
    };
    Workload {
        name: (*unit).to_owned(),
        in_quick: true,
        rows: vec![
            row("call_us", *flat_from, FLAT),
            Row {
                margin: 0.25,
                twins: (name(before, unit), again(before, unit)),
                ..row("bytes_per_unit", before, 1.25)
            },
        ],
        measure: Box::new(move |options| measure(axis, options.pick(3, 9))),
    }
}

fn measure(axis: &'static Axis, rounds: usize) -> Result<Measured, Failure> {
    let unit = axis.unit;
    let mut subjects = Vec::new();
    let before = axis.points[axis.points.len() - 2];
    for &number in axis.points {
        subjects.push(Subject::new(name(number, unit), move || ask(unit, number)));
        if number == axis.flat_from || number == before {
            subjects.push(Subject::new(again(number, unit), move || ask(unit, number)));
        }
    }
    Measured::of_warm(rounds, subjects)
}

/// Asks a new process.
fn ask(unit: &str, number: u32) -> Result<Figures, Failure> {
    let output =
        Command::new(std::env::current_exe()?).args([POINT, unit, &number.to_string()]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let answer = String::from_utf8(output.stdout)?;
    let numbers = answer.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let [call_us, bytes] = numbers[..] else {
        return Err(format!("the probe answered `{answer}`").into());
    };
    Ok(vec![
        ("call_us", call_us),
        ("resident_mb", bytes / 1e6),
        ("bytes_per_unit", bytes / f64::from(number)),
    ])
}

fn answer(unit: &str, number: u32) -> Result<(), Failure> {
    let axis = AXES.iter().find(|axis| axis.unit == unit).ok_or("no such axis")?;
    let point = (axis.measure)(number)?;
    println!("{} {}", point.call_us, point.resident_bytes);
    // Thousands of threads take their time to go, and nothing of it is measured.
    std::process::exit(0)
}

/// The resident memory of this process.
fn resident() -> Result<f64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib = line.split_whitespace().next().ok_or("an empty VmRSS")?;
    Ok(kib.parse::<f64>()? * 1024.0)
}

/// The median time of an empty call by one caller.
fn lone_calls(bulkhead: &Bulkhead) -> Result<f64, Failure> {
    const CALLS: usize = 3_000;
    let mut micros = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = Instant::now();
        bulkhead.call(|_| ())?;
        micros.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&micros))
}

fn threads(number: u32) -> Result<Point, Failure> {
    let before = resident()?;
    let bulkhead = Bulkhead::builder("scale").threads(usize::try_from(number)?);
    let runtime = Runtime::builder().bulkhead(bulkhead).build()?;
    let bulkhead = runtime.bulkhead("scale")?;
    let call_us = lone_calls(&bulkhead)?;
    Ok(Point { call_us, resident_bytes: resident()? - before })
}

fn bulkheads(number: u32) -> Result<Point, Failure> {
    let before = resident()?;
    let described = (0..number).map(|n| Bulkhead::builder(format!("b{n}")).threads(1));
    let runtime =
        described.fold(Runtime::builder(), watertight::RuntimeBuilder::bulkhead).build()?;
    let all: Vec<Bulkhead> = runtime.bulkheads().cloned().collect();
    let call_us = lone_calls(&all[all.len() / 2])?;
    Ok(Point { call_us, resident_bytes: resident()? - before })
}

/// Fills a queue and lets it run empty, as often as it takes for ten thousand jobs. The first time
/// does not count: it is the system that takes its time then, to hand out memory.
fn queued_jobs(number: u32) -> Result<Point, Failure> {
    let queue = usize::try_from(number)?;
    let mut handles: Vec<Option<JobHandle<()>>> = Vec::new();
    handles.resize_with(queue, || None);
    let before = resident()?;
    let bulkhead = Bulkhead::builder("scale").threads(1).queue(queue);
    let runtime = Runtime::builder().bulkhead(bulkhead).build()?;
    let bulkhead = runtime.bulkhead("scale")?;
    let laps = 10_000_u32.div_ceil(number);
    let (mut resident_bytes, mut seconds) = (0.0, 0.0);
    for lap in 0..=laps {
        let (open, gate) = mpsc::channel::<()>();
        let (started, has_started) = mpsc::channel();
        let held = bulkhead
            .submit(move |_| {
                let _ = started.send(());
                let _ = gate.recv();
            })
            .map_err(Rejected::forget)?;
        has_started.recv()?;
        let start = Instant::now();
        for handle in &mut handles {
            *handle = Some(bulkhead.submit(|_| ()).map_err(Rejected::forget)?);
        }
        let filling = start.elapsed();
        resident_bytes = resident()? - before;
        let start = Instant::now();
        drop(open);
        held.join()?;
        handles.iter_mut().filter_map(Option::take).try_for_each(JobHandle::join)?;
        if lap > 0 {
            seconds += (filling + start.elapsed()).as_secs_f64();
        }
    }
    Ok(Point { call_us: seconds * 1e6 / f64::from(laps * number), resident_bytes })
}

/// So many callers call one thread that has no queue: all but one wait for the place.
fn waiting_callers(number: u32) -> Result<Point, Failure> {
    let submitters = usize::try_from(number)?;
    let before = resident()?;
    let policy = RejectionPolicy::Wait { at_most: Duration::MAX, submitters };
    let bulkhead = Bulkhead::builder("scale").threads(1).queue(0).rejection(policy).no_deadline();
    let runtime = Runtime::builder().bulkhead(bulkhead).build()?;
    let bulkhead = runtime.bulkhead("scale")?;
    let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut callers = Vec::with_capacity(submitters);
    for _ in 0..number {
        let (bulkhead, over, calls) = (bulkhead.clone(), Arc::clone(&over), Arc::clone(&calls));
        callers.push(thread::Builder::new().stack_size(64 * 1024).spawn(move || {
            while !over.load(Ordering::Relaxed) && bulkhead.call(|_| ()).is_ok() {
                calls.fetch_add(1, Ordering::Relaxed);
            }
        })?);
    }
    // Until all of them stand in line.
    thread::sleep(Duration::from_millis(100));
    let (start, first) = (Instant::now(), calls.load(Ordering::Relaxed));
    thread::sleep(Duration::from_millis(300));
    let made = calls.load(Ordering::Relaxed) - first;
    let micros = start.elapsed().as_secs_f64() * 1e6;
    let resident_bytes = resident()? - before;
    over.store(true, Ordering::Relaxed);
    if made == 0 {
        return Err("no call was made".into());
    }
    #[expect(clippy::cast_precision_loss, reason = "some hundreds of thousands")]
    let call_us = micros / made as f64;
    Ok(Point { call_us, resident_bytes })
}

/// Both figures over the number of units, on logarithmic scales: a flat line, and a straight one.
fn draw(file: &str, results: &[Results]) -> Result<(), Failure> {
    let root = SVGBackend::new(file, (900, 640)).into_drawing_area();
    root.fill(&WHITE)?;
    let (top, bottom) = root.split_vertically(320);
    let colours = [BLUE, RED, GREEN, MAGENTA];
    for (area, figure, title, range) in [
        (top, "call_us", "microseconds a call", 0.1..100.0),
        (bottom, "resident_mb", "resident megabytes", 0.01..1_000.0),
    ] {
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 16))
            .margin(8)
            .margin_right(32)
            .x_label_area_size(28)
            .y_label_area_size(48)
            .build_cartesian_2d((1.0..1_000_000.0).log_scale(), range.log_scale())?;
        chart
            .configure_mesh()
            .x_desc("units")
            .x_label_formatter(&|units| format!("{units:.0}"))
            .draw()?;
        for ((axis, colour), result) in AXES.iter().zip(colours).zip(results) {
            let Some(measured) = &result.measured else { continue };
            let line = axis.points.iter().map(|&number| {
                let value = median(measured.values(&name(number, axis.unit), figure));
                (f64::from(number), value.max(0.01))
            });
            chart
                .draw_series(LineSeries::new(line, colour.stroke_width(2)).point_size(3))?
                .label(axis.unit)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
        }
        chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
    }
    root.present()?;
    Ok(())
}
