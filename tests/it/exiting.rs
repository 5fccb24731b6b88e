//! The process ends while a runtime is busy: each case in a process of its own.

use std::cell::RefCell;
use std::process::exit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use watertight::{Bulkhead, Observer, RejectionPolicy, Runtime, StartedEvent};

use crate::support::{Gate, build, child, ends, part};

/// Longer than any watchdog: whoever waits for such a job is caught.
const AN_HOUR: Duration = Duration::from_secs(3_600);

const SHUTDOWN_LIMIT: Duration = Duration::from_millis(200);

/// A runtime one of whose two jobs is stuck for an hour, and the other queued behind it.
fn stuck(name: &str, drop_wait: Duration) -> Runtime {
    let runtime = Runtime::builder()
        .drop_wait(drop_wait)
        .bulkhead(Bulkhead::builder(name).threads(1).queue(1))
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead(name).unwrap();
    let gate = Gate::new();
    let inner = gate.clone();
    gate.open();
    drop(bulkhead.submit(move |_| {
        inner.pass();
        thread::sleep(AN_HOUR);
    }));
    gate.wait_for(1);
    drop(bulkhead.submit(|_| println!("an unstarted job has run")));
    runtime
}

#[test]
fn c30_a_job_stuck_for_an_hour_keeps_no_process() {
    match part().as_deref() {
        None => {
            for (part, code) in [
                ("shutdown", 0),
                ("shutdown twice", 0),
                ("drop", 0),
                ("drop without waiting", 0),
                ("last of several handles", 0),
                ("unwinding", 101),
                ("return", 0),
                ("leak", 0),
            ] {
                let this = "exiting::c30_a_job_stuck_for_an_hour_keeps_no_process";
                let output = ends(part, child(this, part));
                assert_eq!(output.status.code(), Some(code), "{part}: {output:?}");
                let said = String::from_utf8_lossy(&output.stdout);
                assert!(!said.contains("unstarted job has run"), "{part}: {said}");
                if part.starts_with("shutdown") {
                    assert!(said.contains("wt-c30-0 of bulkhead `c30`"), "{said}");
                    assert!(said.contains("1 ended unstarted"), "{said}");
                }
            }
        }
        Some("shutdown") => {
            let runtime = stuck("c30", Duration::ZERO);
            let start = Instant::now();
            let report = runtime.shutdown(SHUTDOWN_LIMIT).unwrap();
            assert!(start.elapsed() >= SHUTDOWN_LIMIT, "it gave up early");
            assert_eq!((report.finished, report.stuck.len()), (0, 1), "{report}");
            assert!(report.stuck[0].age >= SHUTDOWN_LIMIT, "{report}");
            println!("{report}");
        }
        Some("shutdown twice") => {
            let runtime = stuck("c30", Duration::ZERO);
            let first = runtime.shutdown(Duration::ZERO).unwrap();
            assert_eq!((first.unstarted.len(), first.stuck.len()), (1, 1), "{first}");
            let second = runtime.shutdown(Duration::ZERO).unwrap();
            assert_eq!((second.unstarted.len(), second.stuck.len()), (0, 1), "{second}");
            println!("{first}");
        }
        Some("drop") => {
            let wait = Duration::from_millis(100);
            let runtime = stuck("c30", wait);
            let start = Instant::now();
            drop(runtime);
            assert!(start.elapsed() >= wait, "it gave up early");
        }
        Some("drop without waiting") => drop(stuck("c30", Duration::ZERO)),
        Some("last of several handles") => {
            let runtime = std::sync::Arc::new(stuck("c30", Duration::from_millis(10)));
            let other = std::sync::Arc::clone(&runtime);
            thread::spawn(move || drop(other)).join().unwrap();
            drop(runtime);
        }
        Some("unwinding") => {
            let _runtime = stuck("c30", Duration::from_millis(10));
            std::panic::resume_unwind(Box::new("with a runtime on the stack"));
        }
        Some("return") => {
            // The default: one second.
            let _runtime = stuck("c30", Duration::from_secs(1));
        }
        Some(_) => std::mem::forget(stuck("c30", Duration::MAX)),
    }
}

struct Counts(AtomicU64);

impl Observer for Counts {
    fn on_started(&self, _: &StartedEvent<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A runtime whose workers are never idle: they submit, take snapshots, and print.
fn busy() -> Runtime {
    let runtime = Runtime::builder()
        .observer(Counts(AtomicU64::new(0)))
        .drop_wait(Duration::from_millis(20))
        .bulkhead(
            Bulkhead::builder("c41")
                .threads(2)
                .queue(4)
                .rejection(RejectionPolicy::DropOldest)
                .on_thread_stop(|_| ()),
        )
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("c41").unwrap();
    let gate = Gate::new();
    gate.open();
    for _ in 0..2 {
        keep_going(&bulkhead, gate.clone());
    }
    gate.wait_for(4);
    runtime
}

fn keep_going(bulkhead: &Bulkhead, gate: Gate) {
    thread_local! {
        static USED: RefCell<String> = const { RefCell::new(String::new()) };
    }
    let again = bulkhead.clone();
    drop(bulkhead.submit(move |_| {
        USED.with_borrow_mut(|used| *used = again.snapshot().to_string());
        eprintln!("still here");
        gate.pass();
        keep_going(&again, gate);
    }));
}

static IN_A_STATIC: OnceLock<Runtime> = OnceLock::new();

thread_local! {
    static IN_A_THREAD_LOCAL: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

#[test]
fn c41_the_process_ends_with_its_own_code_while_workers_are_busy() {
    const HOMES: [&str; 3] = ["static", "thread_local", "local"];
    const ENDS: [&str; 3] = ["return", "exit from main", "exit from a worker"];
    if let Some(part) = part() {
        let (home, end) = part.split_once('/').unwrap();
        let runtime = busy();
        let bulkhead = runtime.bulkhead("c41").unwrap();
        let mut local = None;
        match home {
            "static" => drop(IN_A_STATIC.set(runtime)),
            "thread_local" => IN_A_THREAD_LOCAL.set(Some(runtime)),
            _ => local = Some(runtime),
        }
        match end {
            "exit from main" => exit(7),
            // One of these may be displaced before it starts, so there are more until one exits.
            "exit from a worker" => loop {
                drop(bulkhead.submit(|_| exit(7)));
                thread::yield_now();
            },
            _ => {}
        }
        drop(local);
        return;
    }
    for round in 0..20 {
        for home in HOMES {
            for end in ENDS {
                let part = format!("{home}/{end}");
                let this = "exiting::c41_the_process_ends_with_its_own_code_while_workers_are_busy";
                let output = ends(&part, child(this, &part));
                let code = if end == "return" { 0 } else { 7 };
                let errors = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(code), "{part}, {round}: {errors}");
                assert!(!errors.contains("panicked"), "{part}, {round}: {errors}");
            }
        }
    }
}

thread_local! {
    static OF_A_WORKER: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

#[test]
fn c41_a_runtime_left_in_a_worker_s_thread_local_goes_with_the_worker() {
    if part().is_some() {
        let (outer, bulkhead) = build(Bulkhead::builder("outer").threads(1));
        let (inner, _) = build(Bulkhead::builder("inner").threads(1));
        bulkhead.call(move |_| OF_A_WORKER.set(Some(inner))).unwrap();
        // Its own worker's too: dropped there it must not wait for itself.
        let (own, own_bulkhead) = build(Bulkhead::builder("own").threads(1));
        own_bulkhead.call(move |_| OF_A_WORKER.set(Some(own))).unwrap();
        assert!(outer.shutdown(Duration::MAX).unwrap().is_clean());
        exit(7);
    }
    let this = "exiting::c41_a_runtime_left_in_a_worker_s_thread_local_goes_with_the_worker";
    for _ in 0..5 {
        let output = ends("the child", child(this, "child"));
        assert_eq!(output.status.code(), Some(7), "{output:?}");
    }
}
