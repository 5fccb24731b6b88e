//! Abort hooks: a job that is blocked is reached when nobody wants its result any more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use watertight::{Bulkhead, Clock, Context, Deadline, ManualClock, Runtime};

use crate::support::{Gate, eventually, within};

/// A job that waits at the gate, which its abort hook opens; it says how often that happened.
fn blocked(gate: &Gate) -> impl FnOnce(&Context<'_>) -> usize + Send + use<> {
    let (gate, acted) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
    move |ctx| {
        let (hook_gate, count) = (gate.clone(), Arc::clone(&acted));
        let guard = ctx.on_abort(move || {
            count.fetch_add(1, Ordering::SeqCst);
            hook_gate.open();
        });
        gate.pass();
        drop(guard);
        acted.load(Ordering::SeqCst)
    }
}

fn build(threads: usize) -> (Runtime, Bulkhead, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("abort").threads(threads))
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("abort").unwrap();
    (runtime, bulkhead, clock)
}

#[test]
fn cancelling_frees_a_job_that_has_said_how() {
    let (_runtime, bulkhead, _) = build(1);
    let gate = Gate::new();
    let job = bulkhead.submit(blocked(&gate)).unwrap();
    gate.wait_for(1);
    assert!(!job.cancel(), "it was running");
    assert!(!job.cancel(), "and is cancelled once only");
    assert_eq!(within("the job", move || job.join().unwrap()), 1);
}

#[test]
fn a_deadline_frees_it_whether_its_caller_blocks_or_not() {
    let (_runtime, bulkhead, clock) = build(2);
    let (one, two) = (Gate::new(), Gate::new());
    let deadline = Deadline::at(clock.now() + Duration::from_secs(5));
    let submitted = bulkhead.submit_until(deadline, blocked(&one)).unwrap();
    let (caller, job) = (bulkhead.clone(), blocked(&two));
    let call = thread::spawn(move || caller.call_until(deadline, job));
    one.wait_for(1);
    two.wait_for(1);
    clock.advance(Duration::from_secs(6));
    assert!(within("the caller", move || call.join().unwrap()).is_err());
    assert!(submitted.join().is_err());
    eventually("both threads are free", || bulkhead.snapshot().running == 0);
}

#[test]
fn dropping_a_future_frees_it() {
    use std::future::Future;
    let (_runtime, bulkhead, _) = build(1);
    let gate = Gate::new();
    let mut call = Box::pin(bulkhead.call_async(blocked(&gate)));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(call.as_mut().poll(&mut context).is_pending());
    gate.wait_for(1);
    drop(call);
    eventually("the thread is free", || bulkhead.snapshot().running == 0);
}

#[test]
fn a_shutdown_frees_what_is_still_running_at_its_limit() {
    let (runtime, bulkhead, _) = build(1);
    let gate = Gate::new();
    let job = bulkhead.submit(blocked(&gate)).unwrap();
    gate.wait_for(1);
    let report = within("the shutdown", move || runtime.shutdown(Duration::ZERO).unwrap());
    assert_eq!(job.join().unwrap(), 1, "{report}");
}

#[test]
fn a_hook_registered_too_late_acts_at_once_and_one_taken_back_never_does() {
    let (_runtime, bulkhead, _) = build(1);
    let (gate, acted) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (inner, count) = (gate.clone(), Arc::clone(&acted));
    let job = bulkhead
        .submit(move |ctx| {
            let (early, late) = (Arc::clone(&count), Arc::clone(&count));
            drop(ctx.on_abort(move || {
                early.fetch_add(100, Ordering::SeqCst);
            }));
            inner.pass();
            assert!(ctx.is_cancelled());
            let _guard = ctx.on_abort(move || {
                late.fetch_add(1, Ordering::SeqCst);
            });
        })
        .unwrap();
    gate.wait_for(1);
    job.cancel();
    gate.open();
    job.join().unwrap();
    assert_eq!(acted.load(Ordering::SeqCst), 1);
}

#[test]
fn a_hook_that_panics_is_counted_and_the_others_act() {
    let (_runtime, bulkhead, _) = build(1);
    let (started, wait) = mpsc::channel();
    let gate = Gate::new();
    let inner = gate.clone();
    let job = bulkhead
        .submit(move |ctx| {
            let _bad = ctx.on_abort(|| std::panic::resume_unwind(Box::new("a hook")));
            let opener = inner.clone();
            let _good = ctx.on_abort(move || opener.open());
            started.send(()).unwrap();
            inner.pass();
        })
        .unwrap();
    wait.recv().unwrap();
    job.cancel();
    within("the job", move || job.join().unwrap());
    assert_eq!(bulkhead.snapshot().hook_panics, 1);
}

/// Tells the time that it is set to, and nobody when it is set.
struct Silent(Mutex<Instant>);

impl Clock for Silent {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap()
    }
}

#[test]
fn a_hook_never_acts_on_a_stranger_that_happens_to_see_the_time_pass() {
    let clock = Arc::new(Silent(Mutex::new(Instant::now())));
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("abort").threads(1))
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("abort").unwrap();
    let (gate, (tell, hear)) = (Gate::new(), mpsc::channel());
    let (inner, deadline) = (gate.clone(), Deadline::at(clock.now() + Duration::from_secs(3600)));
    let job = bulkhead.submit_until(deadline, move |ctx| {
        let opener = inner.clone();
        let _guard = ctx.on_abort(move || {
            tell.send(thread::current().name().map(str::to_owned)).unwrap();
            opener.open();
        });
        inner.pass();
    });
    gate.wait_for(1);
    *clock.0.lock().unwrap() += Duration::from_secs(7200);
    // This thread is the first to see it.
    drop(bulkhead.snapshot());
    let acted_on = within("the hook", move || hear.recv().unwrap());
    assert_eq!(acted_on.as_deref(), Some("wt-abort-t"));
    assert!(job.unwrap().join().is_err());
}

#[test]
fn a_hook_that_hangs_holds_up_no_shutdown() {
    let (runtime, bulkhead, _) = build(1);
    let (gate, hung) = (Gate::new(), Gate::new());
    let (inner, blocked) = (gate.clone(), hung.clone());
    let job = bulkhead.submit(move |ctx| {
        let _guard = ctx.on_abort(move || blocked.pass());
        inner.pass();
    });
    gate.wait_for(1);
    let report = within("the shutdown", move || runtime.shutdown(Duration::ZERO).unwrap());
    assert_eq!(report.stuck.len(), 1, "{report}");
    hung.wait_for(1);
    hung.open();
    gate.open();
    job.unwrap().join().unwrap();
}

#[test]
fn whoever_learns_that_its_time_has_passed_is_counted_already() {
    let (_runtime, bulkhead, clock) = build(1);
    for round in 1..=200 {
        let gate = Gate::new();
        let inner = gate.clone();
        let deadline = Deadline::at(clock.now() + Duration::from_secs(1));
        let job = bulkhead.submit_until(deadline, move |_| inner.pass()).unwrap();
        gate.wait_for(1);
        clock.advance(Duration::from_secs(2));
        assert!(job.join().is_err());
        let count = bulkhead.snapshot().totals.call_limit_running;
        assert_eq!(count, round, "and nobody else is");
        gate.open();
        eventually("it is over", || bulkhead.snapshot().running == 0);
    }
}
