//! What is rendered: each number where it belongs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use watertight::metrics::{Format, Metrics, client};
use watertight::{
    Bulkhead, Clock, Deadline, ManualClock, MonotonicClock, RejectionPolicy, Runtime,
};

use super::exposition::{Scrape, strangers_agree};
use crate::support::{Gate, build, eventually, hold};

#[test]
fn gauges_and_counters_say_what_happens_now() {
    let clock = Arc::new(ManualClock::new());
    let policy = RejectionPolicy::Wait { at_most: Duration::MAX, submitters: 3 };
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("db").threads(2).queue(1).rejection(policy))
        .build()
        .unwrap();
    let (db, metrics) = (runtime.bulkhead("db").unwrap(), Metrics::of(&runtime));
    let gate = Gate::new();
    let deadline = Deadline::at(clock.now() + Duration::from_secs(5));
    let late = {
        let gate = gate.clone();
        db.submit_until(deadline, move |_| gate.pass()).unwrap()
    };
    let held = hold(&db, &gate, 1);
    gate.wait_for(2);
    let queued = db.submit(|_| ()).unwrap();
    let waiting = {
        let db = db.clone();
        thread::spawn(move || db.submit(|_| ()).unwrap().join().unwrap())
    };
    eventually("a caller waits", || db.snapshot().waiting == 1);
    clock.advance(Duration::from_secs(7));
    assert!(late.join().is_err());

    let now = Scrape::of(&metrics);
    now.check();
    for (name, value) in [
        ("open", 1.0),
        ("threads", 2.0),
        ("running_limit", 2.0),
        ("queued_limit", 1.0),
        ("waiting_limit", 3.0),
        ("running", 2.0),
        ("queued", 1.0),
        ("waiting", 1.0),
        ("overdue", 1.0),
        ("oldest_running_seconds", 7.0),
        ("oldest_queued_seconds", 7.0),
        ("saturated_seconds", 7.0),
        ("running_peak", 2.0),
        ("queued_peak", 1.0),
        ("waiting_peak", 1.0),
        ("arrivals_total", 4.0),
        ("accepted_total", 3.0),
        ("busy_seconds_total", 14.0),
        ("full_seconds_total", 7.0),
        ("queue_wait_seconds_count", 2.0),
        ("run_seconds_count", 0.0),
    ] {
        let name = format!("watertight_{name}");
        assert_eq!(now.get(&name, &[("bulkhead", "db")]), value, "{name}");
    }
    let limit = |limit| now.get("watertight_timeouts_total", &[("limit", limit)]);
    assert_eq!([limit("call"), limit("queue"), limit("wait")], [1.0, 0.0, 0.0]);

    gate.open();
    for job in held {
        job.join().unwrap();
    }
    queued.join().unwrap();
    waiting.join().unwrap();
    eventually("at rest", || db.snapshot().totals.ended() == 4);
    let rest = Scrape::of(&metrics);
    rest.check();
    rest.has_not_fallen_since(&now);
    let ran = [("le", "10"), ("bulkhead", "db")];
    assert_eq!(rest.get("watertight_run_seconds_bucket", &ran), 4.0);
    assert_eq!(rest.get("watertight_run_seconds_sum", &[]), 14.0);
    assert_eq!(rest.get("watertight_full_seconds_total", &[]), 7.0);
    for gauge in ["running", "queued", "waiting", "overdue", "saturated_seconds"] {
        assert_eq!(rest.sum(&format!("watertight_{gauge}"), &[]), 0.0, "{gauge}");
    }
}

/// Reads the clock, and holds the reading back on a worker that has just run a job.
struct Delayed {
    armed: Arc<AtomicBool>,
    gate: Gate,
}

impl Clock for Delayed {
    fn now(&self) -> Instant {
        let now = MonotonicClock.now();
        let is_worker = thread::current().name().is_some_and(|name| name.ends_with("-0"));
        if is_worker && self.armed.swap(false, Ordering::SeqCst) {
            self.gate.pass();
        }
        now
    }
}

#[test]
fn added_times_do_not_fall_when_a_worker_s_reading_of_the_clock_comes_late() {
    let (armed, gate) = (Arc::new(AtomicBool::new(false)), Gate::new());
    let runtime = Runtime::builder()
        .clock(Delayed { armed: Arc::clone(&armed), gate: gate.clone() })
        .bulkhead(Bulkhead::builder("late").threads(1).queue(0))
        .build()
        .unwrap();
    let (late, metrics) = (runtime.bulkhead("late").unwrap(), Metrics::of(&runtime));
    let job = late.submit(move |_| armed.store(true, Ordering::SeqCst)).unwrap();
    gate.wait_for(1);
    thread::sleep(Duration::from_millis(5));
    let running = Scrape::of(&metrics);
    gate.open();
    job.join().unwrap();
    let over = Scrape::of(&metrics);
    over.has_not_fallen_since(&running);
    assert!(running.get("watertight_busy_seconds_total", &[]) > 0.0);
    assert!(running.get("watertight_full_seconds_total", &[]) > 0.0);
}

#[test]
#[cfg(target_os = "linux")]
fn the_cpu_time_of_a_bulkhead_is_that_of_its_threads() {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("cpu-busy").threads(2))
        .bulkhead(Bulkhead::builder("cpu-idle").threads(1))
        .build()
        .unwrap();
    let (busy, metrics) = (runtime.bulkhead("cpu-busy").unwrap(), Metrics::of(&runtime));
    let jobs = [(); 2].map(|()| busy.submit(|_| spin(Duration::from_millis(100))).unwrap());
    for job in jobs {
        job.join().unwrap();
    }
    for bulkhead in ["cpu-busy", "cpu-idle"] {
        let before = system_says(bulkhead);
        let scrape = Scrape::of(&metrics);
        let after = system_says(bulkhead);
        let get = |name| scrape.get(name, &[("bulkhead", bulkhead)]);
        let (ran, waited) =
            (get("watertight_cpu_seconds_total"), get("watertight_cpu_wait_seconds_total"));
        let is_between = |value, least, most| value > least - 1e-6 && value < most + 1e-6;
        assert!(is_between(ran, before.0, after.0), "{before:?} {ran} {after:?}");
        assert!(is_between(waited, before.1, after.1), "{before:?} {waited} {after:?}");
    }
    let last = Scrape::of(&metrics);
    assert!(last.get("watertight_cpu_seconds_total", &[("bulkhead", "cpu-busy")]) >= 0.2);
    runtime.shutdown(Duration::from_secs(30)).unwrap();
    Scrape::of(&metrics).has_not_fallen_since(&last);
}

/// How many seconds the bulkhead's threads have run, and how many they have waited for a core.
#[cfg(target_os = "linux")]
fn system_says(bulkhead: &str) -> (f64, f64) {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let times = tasks.filter_map(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        name.starts_with(&format!("wt-{bulkhead}-")).then(|| times(&task.path().join("schedstat")))
    });
    times.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[cfg(target_os = "linux")]
fn times(schedstat: &std::path::Path) -> (f64, f64) {
    let text = std::fs::read_to_string(schedstat).unwrap();
    let mut numbers = text.split_whitespace().map(|number| number.parse::<f64>().unwrap() / 1e9);
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Keeps a core busy until this thread has had that much of it.
#[cfg(target_os = "linux")]
fn spin(wanted: Duration) {
    let had = || times("/proc/thread-self/schedstat".as_ref()).0;
    let (start, until) = (Instant::now(), had() + wanted.as_secs_f64());
    while had() < until && start.elapsed() < crate::support::WATCHDOG {
        for _ in 0..100_000 {
            std::hint::spin_loop();
        }
    }
}

#[test]
fn a_worker_s_pinning_is_counted_by_what_became_of_it() {
    let (runtime, _bulkhead) = build(Bulkhead::builder("free").threads(3));
    let scrape = Scrape::of(&Metrics::of(&runtime));
    let state = |state| scrape.get("watertight_pinned_threads", &[("state", state)]);
    assert_eq!([state("not_asked"), state("applied"), state("denied")], [3.0, 0.0, 0.0]);

    if let Some(core) = runtime.plan().allowed_cores.as_ref().and_then(|cores| cores.first()) {
        let (runtime, _bulkhead) = build(Bulkhead::builder("pinned").threads(2).cores([*core]));
        let scrape = Scrape::of(&Metrics::of(&runtime));
        let state = |state| scrape.get("watertight_pinned_threads", &[("state", state)]);
        assert_eq!([state("not_asked"), state("applied")], [0.0, 2.0]);
    }
}

#[test]
fn a_registry_of_the_user_s_carries_its_own_prefix_and_labels() {
    let (runtime, _bulkhead) = build(Bulkhead::builder("db").threads(1));
    let labels = [("zone".into(), "north".into())];
    let mut registry = client::registry::Registry::with_labels(labels.into_iter());
    let requests = client::metrics::counter::Counter::<u64>::default();
    registry.register("requests", "Requests", requests.clone());
    requests.inc();
    Metrics::of(&runtime).register(&mut registry);
    let mut scrapes = Vec::new();
    let mut body = String::new();
    client::encoding::text::encode(&mut body, &registry).unwrap();
    scrapes.push(Scrape::parse(Format::OpenMetrics, body));
    let mut body = String::new();
    client::encoding::prometheus_text::encode(&mut body, &registry).unwrap();
    scrapes.push(Scrape::parse(Format::Text, body));
    for scrape in &scrapes {
        let threads = scrape.get("watertight_threads", &[("bulkhead", "db"), ("zone", "north")]);
        assert_eq!(threads, 1.0);
        assert_eq!(scrape.get("requests_total", &[("zone", "north")]), 1.0);
    }
    strangers_agree(&scrapes);
}

#[test]
fn the_settings_of_buckets_are_those_of_the_output() {
    let bounds = [1, 20, 300].map(Duration::from_millis);
    let (runtime, _bulkhead) =
        build(Bulkhead::builder("db").threads(1).wait_buckets(bounds).run_buckets([]));
    let scrapes = [Format::Text, Format::OpenMetrics]
        .map(|format| Scrape::parse(format, Metrics::of(&runtime).render(format)));
    for scrape in &scrapes {
        let les = |name| -> BTreeSet<String> {
            let buckets = scrape.matching(name, &[]).into_iter();
            buckets.map(|((_, labels), _)| labels["le"].clone()).collect()
        };
        let waits = les("watertight_queue_wait_seconds_bucket");
        assert_eq!(waits, ["+Inf", "0.001", "0.02", "0.3"].map(str::to_owned).into());
        let runs = les("watertight_run_seconds_bucket");
        assert_eq!(runs, ["+Inf"].map(str::to_owned).into());
    }
    strangers_agree(&scrapes);
}

#[test]
fn metrics_keep_no_runtime_alive() {
    let marker = Arc::new(());
    let (runtime, bulkhead) = {
        let marker = Arc::clone(&marker);
        build(Bulkhead::builder("db").threads(1).on_thread_start(move |_| {
            let _ = &marker;
        }))
    };
    let metrics = Metrics::of(&runtime);
    assert_eq!(Scrape::of(&metrics).bulkheads().len(), 1);
    drop((runtime, bulkhead));
    assert_eq!(Arc::strong_count(&marker), 1, "something holds on to the runtime's hooks");
    let gone = Scrape::of(&metrics);
    assert!(gone.bulkheads().is_empty());
    assert_eq!(gone.sum("watertight_build_info", &[]), 1.0);
}
