//! Observers and numbers: what is told, and that telling it can hurt nobody.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use watertight::{
    Bulkhead, CallError, FinishedEvent, JobHandle, ManualClock, NotStartedEvent, Observer, Outcome,
    Rejected, RejectedEvent, Rejection, RelievedEvent, Runtime, SaturatedEvent, StartedEvent,
};

use crate::support::{Gate, eventually, hold};

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn has(&self, what: &str) -> bool {
        self.0.lock().unwrap().iter().any(|noted| noted == what)
    }
}

impl Observer for Recorder {
    fn on_rejected(&self, event: &RejectedEvent<'_>) {
        self.note(format!("rejected {}", event.reason));
    }

    fn on_started(&self, event: &StartedEvent<'_>) {
        self.note(format!("started {}", event.bulkhead));
    }

    fn on_finished(&self, event: &FinishedEvent<'_>) {
        self.note(match event.outcome {
            Outcome::Returned => "returned",
            Outcome::Panicked => "panicked",
            _ => "neither",
        });
    }

    fn on_not_started(&self, event: &NotStartedEvent<'_>) {
        self.note(format!("not started: {}", event.reason));
    }

    fn on_saturated(&self, _: &SaturatedEvent<'_>) {
        self.note("saturated");
    }

    fn on_relieved(&self, _: &RelievedEvent<'_>) {
        self.note("relieved");
    }
}

#[test]
fn an_observer_is_told_everything() {
    let seen = Recorder::default();
    let runtime = Runtime::builder()
        .observer(seen.clone())
        .bulkhead(Bulkhead::builder("seen").threads(1).queue(1))
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("seen").unwrap();
    let gate = Gate::new();
    let inner = gate.clone();
    let held = bulkhead.submit(move |_| inner.pass()).unwrap();
    let queued = bulkhead.submit(|_| ()).unwrap();
    assert!(bulkhead.submit(|_| ()).is_err());
    assert!(bulkhead.snapshot().saturated_for.is_some());
    assert!(queued.cancel());
    gate.open();
    held.join().unwrap();
    let panicked = bulkhead.submit(|_| std::panic::resume_unwind(Box::new(())));
    let panicked: JobHandle<()> = panicked.unwrap();
    assert!(panicked.join().is_err());
    for what in [
        "saturated",
        "rejected queue_full",
        "not started: cancelled",
        "relieved",
        "started seen",
        "returned",
        "panicked",
    ] {
        eventually(what, || seen.has(what));
    }
}

/// Panics at every turn.
struct Hostile;

impl Observer for Hostile {
    fn on_rejected(&self, _: &RejectedEvent<'_>) {
        std::panic::resume_unwind(Box::new("rejected"));
    }

    fn on_started(&self, _: &StartedEvent<'_>) {
        std::panic::resume_unwind(Box::new("started"));
    }

    fn on_finished(&self, _: &FinishedEvent<'_>) {
        std::panic::resume_unwind(Box::new("finished"));
    }
}

#[test]
fn a_hook_that_panics_costs_nothing_and_is_counted() {
    let runtime = Runtime::builder()
        .observer(Hostile)
        .bulkhead(
            Bulkhead::builder("hostile")
                .threads(1)
                .queue(0)
                .on_thread_start(|_| std::panic::resume_unwind(Box::new("start"))),
        )
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("hostile").unwrap();
    for _ in 0..10 {
        bulkhead.call(|_| ()).unwrap();
    }
    let gate = Gate::new();
    let inner = gate.clone();
    let held = bulkhead.submit(move |_| inner.pass()).unwrap();
    assert!(bulkhead.submit(|_| ()).is_err());
    gate.open();
    held.join().unwrap();
    // One start of the thread, eleven of jobs, eleven ends, one refusal.
    eventually("all are counted", || bulkhead.snapshot().hook_panics == 24);
}

#[test]
fn an_unknown_name_is_an_error_that_lists_the_known_ones() {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("pricing").threads(1))
        .bulkhead(Bulkhead::builder("rest").threads(1))
        .home("rest")
        .build()
        .unwrap();
    let error = runtime.bulkhead("prising").unwrap_err();
    assert_eq!(error.to_string(), r#"there is no bulkhead "prising"; there are "pricing", "rest""#);
    assert_eq!(runtime.home().unwrap().name(), "rest");
}

#[test]
fn a_refusal_hands_the_closure_back_and_says_what_to_do() {
    let runtime =
        Runtime::builder().bulkhead(Bulkhead::builder("full").threads(1).queue(0)).build().unwrap();
    let bulkhead = runtime.bulkhead("full").unwrap();
    let gate = Gate::new();
    let inner = gate.clone();
    let held = bulkhead.submit(move |_| inner.pass()).unwrap();
    let refused = bulkhead.submit(|ctx| ctx.worker()).unwrap_err();
    assert_eq!(refused.reason(), Rejection::QueueFull);
    assert!(refused.to_string().contains("bulkhead `full` refused the job"), "{refused}");
    assert!(refused.retry_after() > std::time::Duration::ZERO);
    gate.open();
    held.join().unwrap();
    assert_eq!(bulkhead.call(refused.into_job()).unwrap(), 0);
}

#[test]
fn the_public_types_travel() {
    fn travels<T: Send + Sync + 'static>() {}
    travels::<Runtime>();
    travels::<Bulkhead>();
    travels::<JobHandle<u32>>();
    travels::<CallError<std::io::Error>>();
    travels::<Rejected>();
    travels::<watertight::BuildError>();
    travels::<watertight::Batch<u32, u32>>();
    travels::<watertight::Snapshot>();
}

#[test]
fn waits_and_run_times_are_counted_in_the_buckets_that_the_user_chose() {
    let clock = Arc::new(ManualClock::new());
    let seconds = Duration::from_secs;
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(
            Bulkhead::builder("timed")
                .threads(1)
                .queue(1)
                .wait_buckets([seconds(1), seconds(5)])
                .run_buckets([seconds(3)]),
        )
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("timed").unwrap();
    let gate = Gate::new();
    let jobs = hold(&bulkhead, &gate, 2);
    gate.wait_for(1);
    clock.advance(seconds(4));
    let busy = bulkhead.snapshot();
    assert_eq!((busy.wait_times.counts(), busy.run_times.count()), (&[1, 0, 0][..], 0));
    gate.open();
    for job in jobs {
        job.join().unwrap();
    }
    let end = bulkhead.snapshot();
    assert_eq!(end.wait_times.counts(), [1, 1, 0], "one at once, one after four seconds");
    assert_eq!(end.wait_times.sum(), seconds(4));
    assert_eq!(end.run_times.counts(), [1, 1], "one for no time, one for four seconds");
    assert_eq!(end.run_times.sum(), seconds(4));
}

#[test]
fn a_burst_between_two_looks_is_remembered() {
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("burst").threads(2).queue(3))
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("burst").unwrap();
    let gate = Gate::new();
    let jobs = hold(&bulkhead, &gate, 5);
    gate.wait_for(2);
    gate.open();
    for job in jobs {
        job.join().unwrap();
    }
    for _ in 0..2 {
        let recent = bulkhead.snapshot().recent;
        assert_eq!((recent.running, recent.queued, recent.waiting), (2, 3, 0));
    }
    clock.advance(Duration::from_secs(300));
    assert_eq!(bulkhead.snapshot().recent.running, 0);
    assert_eq!(bulkhead.snapshot().totals.peaks.running, 2, "the whole life's stay");
}
