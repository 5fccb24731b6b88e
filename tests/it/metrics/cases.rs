//! Failures that other systems' metrics had in the field, by the numbers under which they were
//! collected.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use watertight::metrics::{Format, Metrics};
use watertight::{
    Bulkhead, CallError, Clock, Deadline, ManualClock, NotStarted, Rejected, Rejection,
    RejectionPolicy, Runtime,
};

use super::exposition::{Scrape, strangers_agree};
use crate::support::{Gate, build, eventually, hold};

/// Scrapes all the time and checks each answer, until it is dropped.
struct Scraper {
    stop: Arc<AtomicBool>,
    scrapes: Arc<AtomicUsize>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Scraper {
    fn start(metrics: &Metrics) -> Self {
        let (stop, scrapes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (metrics, over, count) = (metrics.clone(), Arc::clone(&stop), Arc::clone(&scrapes));
        let thread = thread::spawn(move || {
            let mut before = Scrape::of(&metrics);
            while !over.load(Ordering::SeqCst) {
                let now = Scrape::of(&metrics);
                now.check();
                now.has_not_fallen_since(&before);
                before = now;
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { stop, scrapes, thread: Some(thread) }
    }

    /// Lets it see the present state at least once. Fails if it has found something wrong.
    fn looks(&self) {
        let seen = self.scrapes.load(Ordering::SeqCst);
        let thread = self.thread.as_ref().unwrap();
        eventually("a scrape", || {
            self.scrapes.load(Ordering::SeqCst) > seen + 1 || thread.is_finished()
        });
        assert!(!thread.is_finished(), "a scrape was wrong");
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let outcome = self.thread.take().map(thread::JoinHandle::join);
        if let (Some(Err(payload)), false) = (outcome, thread::panicking()) {
            resume_unwind(payload);
        }
    }
}

fn at_rest(scrape: &Scrape) {
    for gauge in ["running", "starting", "queued", "waiting", "overdue"] {
        assert_eq!(scrape.sum(&format!("watertight_{gauge}"), &[]), 0.0, "{gauge} at rest");
    }
    let sum = |name| scrape.sum(name, &[]);
    assert_eq!(
        sum("watertight_arrivals_total"),
        sum("watertight_accepted_total") + sum("watertight_rejected_total"),
    );
    assert_eq!(sum("watertight_accepted_total"), sum("watertight_ended_total"));
}

#[test]
fn c88_no_way_to_be_refused_takes_a_gauge_out_of_its_bounds() {
    const TIMES: usize = 2_000;
    let clock = Arc::new(ManualClock::new());
    let wait = RejectionPolicy::Wait { at_most: Duration::from_millis(1), submitters: 1 };
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("reject").threads(1).queue(0))
        .bulkhead(
            Bulkhead::builder("oldest").threads(1).queue(1).rejection(RejectionPolicy::DropOldest),
        )
        .bulkhead(Bulkhead::builder("wait").threads(1).queue(0).rejection(wait))
        .bulkhead(
            Bulkhead::builder("stale").threads(1).queue(4).queue_limit(Duration::from_millis(1)),
        )
        .build()
        .unwrap();
    let metrics = Metrics::of(&runtime);
    let scraper = Scraper::start(&metrics);
    let get = |name| runtime.bulkhead(name).unwrap();
    let (reject, oldest, wait, stale) = (get("reject"), get("oldest"), get("wait"), get("stale"));
    let gate = Gate::new();
    let mut held = Vec::new();
    for bulkhead in [&reject, &oldest, &wait, &stale] {
        held.extend(hold(bulkhead, &gate, 1));
    }
    gate.wait_for(4);

    for _ in 0..TIMES {
        assert_eq!(reject.submit(|_| ()).unwrap_err().reason(), Rejection::QueueFull);
        let past = Deadline::at(clock.now());
        assert_eq!(stale.submit_until(past, |_| ()).unwrap_err().reason(), Rejection::DeadlinePast);
        assert!(stale.submit(|_| ()).unwrap().cancel());
        // The second takes the first one's place, and the next round the second's.
        drop(oldest.submit(|_| ()).unwrap());
    }
    scraper.looks();
    for _ in 0..TIMES / 10 {
        let queued = stale.submit(|_| ()).unwrap();
        clock.advance(Duration::from_millis(1));
        let CallError::NotStarted(late) = queued.join().unwrap_err() else { panic!("it started") };
        assert_eq!(late.reason(), Rejection::QueueLimit);
        let deadline = Deadline::at(clock.now() + Duration::from_micros(10));
        let queued = stale.submit_until(deadline, |_| ()).unwrap();
        clock.advance(Duration::from_micros(10));
        let CallError::NotStarted(late) = queued.join().unwrap_err() else { panic!("it started") };
        assert_eq!(late.reason(), Rejection::DeadlinePast);
    }
    scraper.looks();
    for _ in 0..TIMES / 100 {
        let waiter = {
            let wait = wait.clone();
            thread::spawn(move || wait.submit(|_| ()).unwrap_err().reason())
        };
        eventually("one waits", || wait.snapshot().waiting == 1);
        assert_eq!(wait.submit(|_| ()).unwrap_err().reason(), Rejection::TooManyWaiting);
        clock.advance(Duration::from_millis(1));
        assert_eq!(waiter.join().unwrap(), Rejection::WaitLimit);
    }
    scraper.looks();
    gate.open();
    for job in held {
        job.join().unwrap();
    }
    // A job that waits for its own bulkhead, which has no other thread, and one that panics.
    for _ in 0..TIMES / 100 {
        let inner = stale.clone();
        let answer = stale.call_until(Deadline::never(), move |_| {
            inner.call_until(Deadline::never(), |_| ()).unwrap_err().rejection()
        });
        assert_eq!(answer.unwrap(), Some(Rejection::WouldDeadlock));
        let bomb = reject.call_until(Deadline::never(), |_| resume_unwind(Box::new("boom")));
        assert!(matches!(bomb, Err::<(), _>(CallError::Panicked(_))));
    }
    scraper.looks();
    runtime.shutdown(Duration::from_secs(30)).unwrap();
    for _ in 0..TIMES {
        assert_eq!(reject.submit(|_| ()).unwrap_err().reason(), Rejection::ShuttingDown);
    }
    scraper.looks();
    drop(scraper);
    let rest = Scrape::of(&metrics);
    rest.check();
    at_rest(&rest);
}

#[test]
fn c91_a_bulkhead_that_is_built_again_is_the_one_that_is_exported() {
    let (metrics, db) = (Metrics::new(), [("bulkhead", "db")]);
    let arrivals = || Scrape::of(&metrics).get("watertight_arrivals_total", &db);
    let (runtime, first) = build(Bulkhead::builder("db").threads(1));
    metrics.add(&runtime).unwrap();
    metrics.add(&runtime).unwrap();
    for _ in 0..10 {
        first.call_until(Deadline::never(), |_| ()).unwrap();
    }
    assert_eq!(arrivals(), 10.0);
    // A handle outlives the runtime, and is not what is exported.
    drop(runtime);
    assert!(Scrape::of(&metrics).bulkheads().is_empty());

    let (runtime, second) = build(Bulkhead::builder("db").threads(2));
    metrics.add(&runtime).unwrap();
    for _ in 0..5 {
        second.call_until(Deadline::never(), |_| ()).unwrap();
    }
    assert_eq!(first.submit(|_| ()).unwrap_err().reason(), Rejection::ShuttingDown);
    assert_eq!(arrivals(), 5.0);
    assert_eq!(Scrape::of(&metrics).get("watertight_threads", &db), 2.0);

    drop(runtime);
    let (runtime, _other) = build(Bulkhead::builder("cache").threads(1));
    metrics.add(&runtime).unwrap();
    let scrape = Scrape::of(&metrics);
    assert_eq!(scrape.bulkheads(), BTreeSet::from(["cache".to_owned()]));
    assert!(!scrape.body.contains("\"db\""), "{}", scrape.body);
    strangers_agree(&[scrape]);
}

#[test]
fn c92_two_bulkheads_of_one_name_are_an_error_and_all_have_the_same_labels() {
    let twice = Runtime::builder()
        .bulkhead(Bulkhead::builder("db").threads(1))
        .bulkhead(Bulkhead::builder("db").threads(1))
        .build();
    assert!(twice.unwrap_err().to_string().contains("db"));

    let (one, _bulkhead) = build(Bulkhead::builder("db").threads(1));
    let (other, _bulkhead) = build(Bulkhead::builder("db").threads(1));
    let metrics = Metrics::of(&one);
    let error = metrics.add(&other).unwrap_err();
    assert_eq!(error.bulkhead, "db");
    assert!(error.to_string().contains("`db`"), "{error}");
    assert_eq!(Scrape::of(&metrics).bulkheads().len(), 1);

    // In case, or in white space inside, names differ; and each has the labels that the others have.
    let names = ["DB", "d b", "cache"];
    let builder = names.into_iter().fold(Runtime::builder(), |builder, name| {
        builder.bulkhead(Bulkhead::builder(name).threads(1))
    });
    let third = builder.build().unwrap();
    metrics.add(&third).unwrap();
    let scrape = Scrape::of(&metrics);
    let labels_of = |bulkhead: &str| -> BTreeSet<(String, Vec<(String, String)>)> {
        let of = scrape
            .series
            .keys()
            .filter(|(_, labels)| labels.get("bulkhead").is_some_and(|name| name == bulkhead));
        let others = of.map(|(name, labels)| {
            let others = labels.iter().filter(|(key, _)| *key != "bulkhead");
            (name.clone(), others.map(|(key, value)| (key.clone(), value.clone())).collect())
        });
        others.collect()
    };
    assert!(labels_of("db").len() > 50);
    for name in names {
        assert_eq!(labels_of(name), labels_of("db"), "{name}");
    }
    strangers_agree(&[scrape]);
}

#[test]
fn c93_any_name_that_a_bulkhead_may_have_survives() {
    let long = "n".repeat(1_024);
    let names = [
        "per\"son",
        "back\\slash",
        "back\\\\slashes\\n",
        "ends in\\",
        "\"",
        "\\\"",
        "🦀🦀",
        "},{=\"#",
        "a b",
        "line\u{2028}separator",
        "e\u{301}",
        "$1{{template}}",
        &long,
    ];
    let builder = names.into_iter().fold(Runtime::builder(), |builder, name| {
        builder.bulkhead(Bulkhead::builder(name).threads(1))
    });
    let runtime = builder.build().unwrap();
    let metrics = Metrics::of(&runtime);
    let scrapes = [Format::Text, Format::OpenMetrics]
        .map(|format| Scrape::parse(format, metrics.render(format)));
    for scrape in &scrapes {
        scrape.check();
        assert_eq!(scrape.bulkheads(), names.into_iter().map(str::to_owned).collect());
    }
    strangers_agree(&scrapes);
    for control in ["a\nb", "a\rb", "a\tb", "a\0b"] {
        let built = Runtime::builder().bulkhead(Bulkhead::builder(control).threads(1)).build();
        assert!(built.is_err(), "{control:?} was accepted");
    }
}

#[test]
fn c94_the_number_of_series_does_not_grow_with_what_happens() {
    let metrics = Metrics::new();
    let mut first: Option<BTreeSet<_>> = None;
    for round in 0..30 {
        let (runtime, bulkhead) = build(Bulkhead::builder("db").threads(2).queue(1));
        metrics.add(&runtime).unwrap();
        let before = Scrape::of(&metrics).names();
        for call in 0..300 {
            let answer = bulkhead.call_until(Deadline::never(), move |_| {
                if call % 2 == 0 {
                    resume_unwind(Box::new(format!("panic {call} of round {round}")));
                }
                Err::<(), _>(format!("error {call}"))
            });
            assert!(answer.is_err() || answer.unwrap().is_err());
            let deadline = Deadline::after(Duration::from_nanos(call));
            let _ = bulkhead.call_until(deadline, |_| ());
        }
        assert_eq!(Scrape::of(&metrics).names(), before);
        assert_eq!(*first.get_or_insert_with(|| before.clone()), before);
    }
    let all = first.unwrap();
    let keys: BTreeSet<&str> =
        all.iter().flat_map(|(_, labels)| labels.keys().map(String::as_str)).collect();
    let closed = ["bulkhead", "le", "limit", "outcome", "reason", "state", "version"];
    assert_eq!(keys, closed.into());
}

#[test]
#[allow(clippy::too_many_lines, reason = "it is one table, and the calls that fill it")]
fn c95_each_reason_has_a_count_of_its_own() {
    let clock = Arc::new(ManualClock::new());
    let wait = RejectionPolicy::Wait { at_most: Duration::from_secs(1), submitters: 1 };
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(
            Bulkhead::builder("reject").threads(1).queue(2).queue_limit(Duration::from_secs(1)),
        )
        .bulkhead(
            Bulkhead::builder("oldest").threads(1).queue(1).rejection(RejectionPolicy::DropOldest),
        )
        .bulkhead(Bulkhead::builder("wait").threads(1).queue(0).rejection(wait))
        .bulkhead(Bulkhead::builder("pace").threads(1).queue(4).refuse_late(true))
        .build()
        .unwrap();
    let metrics = Metrics::of(&runtime);
    let get = |name| runtime.bulkhead(name).unwrap();
    let (reject, oldest, wait, pace) = (get("reject"), get("oldest"), get("wait"), get("pace"));
    let times = |n: u64| 0..n;
    let at_door = |bulkhead: &Bulkhead, deadline, why| {
        let refused: Rejected = bulkhead.submit_until(deadline, |_| ()).unwrap_err().forget();
        assert_eq!(refused.reason(), why);
    };
    let unstarted = |error: CallError, why| {
        let CallError::NotStarted(not_started) = error else { panic!("{error}") };
        assert_eq!(NotStarted::reason(&not_started), why);
    };

    // With a pace of ten seconds, five are too few.
    let slow = {
        let clock = Arc::clone(&clock);
        pace.submit(move |_| clock.advance(Duration::from_secs(10))).unwrap()
    };
    slow.join().unwrap();

    for _ in times(6) {
        let inner = reject.clone();
        let why = reject.call_until(Deadline::never(), move |_| {
            let queued = [inner.submit(|_| ()).unwrap(), inner.submit(|_| ()).unwrap()];
            let full = inner.submit(|_| ()).unwrap_err().reason();
            assert!(queued.iter().all(|job| job.cancel()));
            // Nobody is let in to wait for the thread that waits for it.
            (full, inner.call_until(Deadline::never(), |_| ()).unwrap_err().rejection())
        });
        assert_eq!(why.unwrap(), (Rejection::QueueFull, Some(Rejection::WouldDeadlock)));
    }

    let gate = Gate::new();
    let mut held = Vec::new();
    for bulkhead in [&reject, &oldest, &wait, &pace] {
        held.extend(hold(bulkhead, &gate, 1));
    }
    gate.wait_for(4);
    for _ in times(5) {
        let soon = Deadline::at(clock.now() + Duration::from_secs(5));
        at_door(&pace, soon, Rejection::WouldBeLate);
    }
    for _ in times(3) {
        let waiter = {
            let wait = wait.clone();
            thread::spawn(move || wait.submit(|_| ()).unwrap_err().reason())
        };
        eventually("one waits", || wait.snapshot().waiting == 1);
        at_door(&wait, Deadline::never(), Rejection::TooManyWaiting);
        clock.advance(Duration::from_secs(1));
        assert_eq!(waiter.join().unwrap(), Rejection::WaitLimit);
    }
    at_door(&wait, Deadline::at(clock.now()), Rejection::DeadlinePast);
    for _ in times(7) {
        at_door(&reject, Deadline::at(clock.now()), Rejection::DeadlinePast);
    }
    for _ in times(9) {
        let displaced = oldest.submit(|_| ()).unwrap();
        let last = oldest.submit(|_| ()).unwrap();
        unstarted(displaced.join().unwrap_err(), Rejection::Displaced);
        assert!(last.cancel());
    }
    for _ in times(10) {
        let stale = reject.submit(|_| ()).unwrap();
        clock.advance(Duration::from_secs(1));
        unstarted(stale.join().unwrap_err(), Rejection::QueueLimit);
    }
    for _ in times(11) {
        let deadline = Deadline::at(clock.now() + Duration::from_millis(1));
        let late = reject.submit_until(deadline, |_| ()).unwrap();
        clock.advance(Duration::from_millis(1));
        unstarted(late.join().unwrap_err(), Rejection::DeadlinePast);
    }
    let left = [reject.submit(|_| ()).unwrap(), reject.submit(|_| ()).unwrap()];
    runtime.shutdown(Duration::ZERO).unwrap();
    for job in left {
        unstarted(job.join().unwrap_err(), Rejection::ShuttingDown);
    }
    for _ in times(13) {
        at_door(&oldest, Deadline::never(), Rejection::ShuttingDown);
    }
    gate.open();
    for job in held {
        job.join().unwrap();
    }
    eventually("at rest", || runtime.snapshots().iter().all(|now| now.running == 0));

    let scrape = Scrape::of(&metrics);
    at_rest(&scrape);
    let mut expected = 0.0;
    for (why, bulkhead, times) in [
        (Rejection::QueueFull, "reject", 6.0),
        (Rejection::WaitLimit, "wait", 3.0),
        (Rejection::TooManyWaiting, "wait", 3.0),
        (Rejection::DeadlinePast, "wait", 1.0),
        (Rejection::DeadlinePast, "reject", 7.0),
        (Rejection::WouldBeLate, "pace", 5.0),
        (Rejection::WouldDeadlock, "reject", 6.0),
        (Rejection::ShuttingDown, "oldest", 13.0),
    ] {
        let labels = [("bulkhead", bulkhead), ("reason", why.as_str())];
        assert_eq!(scrape.get("watertight_rejected_total", &labels), times, "{why} of {bulkhead}");
        expected += times;
    }
    assert_eq!(scrape.sum("watertight_rejected_total", &[]), expected);
    for (outcome, times) in [
        ("displaced", 9.0),
        ("cancelled", 9.0 + 12.0),
        ("queue_limit", 10.0),
        ("deadline_past", 11.0),
        ("shutting_down", 2.0),
        ("panicked", 0.0),
        ("returned", 1.0 + 6.0 + 4.0),
    ] {
        let labels = [("outcome", outcome)];
        assert_eq!(scrape.sum("watertight_ended_total", &labels), times, "{outcome}");
    }
    let limit = |limit| scrape.sum("watertight_timeouts_total", &[("limit", limit)]);
    assert_eq!([limit("wait"), limit("queue"), limit("call")], [3.0, 10.0, 11.0 + 8.0]);
}

#[test]
fn c96_what_is_exported_is_what_is_enforced() {
    for (threads, queue) in [(1, 0), (3, 2), (7, 5)] {
        let (runtime, bulkhead) = build(Bulkhead::builder("db").threads(threads).queue(queue));
        let metrics = Metrics::of(&runtime);
        let gate = Gate::new();
        let mut held = Vec::new();
        while let Ok(job) = bulkhead.submit({
            let gate = gate.clone();
            move |_| gate.pass()
        }) {
            held.push(job);
        }
        let scrape = Scrape::of(&metrics);
        let limit = |name| scrape.get(name, &[("bulkhead", "db")]);
        let (running, queued) =
            (limit("watertight_running_limit"), limit("watertight_queued_limit"));
        #[expect(clippy::cast_precision_loss, reason = "there are a dozen")]
        let accepted = held.len() as f64;
        assert_eq!(accepted, running + queued);
        gate.wait_for(threads);
        assert_eq!(Scrape::of(&metrics).get("watertight_running", &[]), running);
        gate.open();
    }
}

#[test]
fn c96_what_depends_on_the_time_is_right_without_any_call() {
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("db").threads(1).queue(0))
        .build()
        .unwrap();
    let (db, metrics) = (runtime.bulkhead("db").unwrap(), Metrics::of(&runtime));
    let get = |name: &str| Scrape::of(&metrics).get(name, &[("bulkhead", "db")]);
    let gate = Gate::new();
    let held = hold(&db, &gate, 1);
    gate.wait_for(1);
    for second in 1..=3_u8 {
        clock.advance(Duration::from_secs(1));
        assert_eq!(get("watertight_saturated_seconds"), f64::from(second));
        assert_eq!(get("watertight_oldest_running_seconds"), f64::from(second));
        assert_eq!(get("watertight_busy_seconds_total"), f64::from(second));
    }
    gate.open();
    for job in held {
        job.join().unwrap();
    }
    assert_eq!(get("watertight_saturated_seconds"), 0.0);
    assert_eq!(get("watertight_running_peak"), 1.0);
    clock.advance(Duration::from_secs(121));
    assert_eq!(get("watertight_running_peak"), 0.0);
    assert_eq!(get("watertight_full_seconds_total"), 3.0);
    assert_eq!(get("watertight_open"), 1.0);
    runtime.shutdown(Duration::from_secs(30)).unwrap();
    assert_eq!(get("watertight_open"), 0.0);
}
