//! What the crate promises, where no field case says it already: building, time, cancelling, nesting,
//! and whose destructor runs where.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use watertight::{
    Batch, BuildErrorKind, Bulkhead, BulkheadBuilder, CallError, Clock, Context, Deadline,
    JobHandle, ManualClock, Rejection, RejectionPolicy, Runtime, TimeLimit,
};

use crate::support::{Bomb, Gate, eventually, within};

const WAIT: RejectionPolicy = RejectionPolicy::Wait { at_most: Duration::MAX, submitters: 9 };

fn build(bulkhead: BulkheadBuilder) -> (Runtime, Bulkhead, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder().clock(Arc::clone(&clock)).bulkhead(bulkhead).build().unwrap();
    let handle = runtime.bulkheads().next().unwrap().clone();
    (runtime, handle, clock)
}

fn hold(bulkhead: &Bulkhead, gate: &Gate) -> JobHandle<()> {
    let gate = gate.clone();
    bulkhead.submit(move |_| gate.pass()).unwrap()
}

// ----- building -----

#[test]
fn whatever_is_wrong_with_a_description_is_said_with_bulkhead_setting_and_value() {
    let one = || Bulkhead::builder("db").threads(2);
    let wait = |submitters| RejectionPolicy::Wait { at_most: Duration::MAX, submitters };
    let most = 1 << 30;
    let table = [
        (Bulkhead::builder("db"), "threads", "0"),
        (one().threads(0), "threads", "0"),
        (one().threads(usize::MAX), "threads", "18446744073709551615"),
        (one().queue(most + 1), "queue", "1073741825"),
        (one().queue(usize::MAX), "queue", "18446744073709551615"),
        (one().rejection(wait(0)), "submitters", "0"),
        (one().rejection(wait(usize::MAX)), "submitters", "18446744073709551615"),
        (one().queue(0).rejection(RejectionPolicy::DropOldest), "queue", "DropOldest"),
        (one().call_limit(Duration::ZERO), "call_limit", "zero"),
        (one().stack_size(0), "stack_size", "0"),
        (one().cores([]), "cores", "empty"),
        (one().core_count(0), "core_count", "0"),
        (Bulkhead::builder("").threads(1), "name", "empty"),
        (Bulkhead::builder("a\0b").threads(1), "name", "\\0"),
    ];
    for (wrong, setting, value) in table {
        // Beside a bulkhead that is right, so that the right one is named.
        let fine = Bulkhead::builder("fine").threads(1);
        let error = Runtime::builder().bulkhead(fine).bulkhead(wrong).build().unwrap_err();
        let said = error.to_string();
        assert_eq!(error.setting(), setting, "{said}");
        assert_ne!(error.bulkhead(), Some("fine"), "{said}");
        assert!(said.contains(setting) && said.contains(value), "{said}");
    }
}

#[test]
fn names_are_unique_and_cores_are_not_shared() {
    let twice = Runtime::builder()
        .bulkhead(Bulkhead::builder("db").threads(1))
        .bulkhead(Bulkhead::builder("db").threads(2))
        .build()
        .unwrap_err();
    assert_eq!((twice.kind(), twice.bulkhead()), (BuildErrorKind::DuplicateName, Some("db")));
    let nowhere =
        Runtime::builder().bulkhead(Bulkhead::builder("db").threads(1)).home("bd").build();
    assert!(nowhere.unwrap_err().to_string().contains(r#""bd""#));

    #[cfg(target_os = "linux")]
    {
        let probe = Runtime::builder().bulkhead(Bulkhead::builder("probe").threads(1)).build();
        let allowed = probe.unwrap().plan().allowed_cores.clone().unwrap();
        let overlap = Runtime::builder()
            .bulkhead(Bulkhead::builder("a").threads(1).cores([allowed[0]]))
            .bulkhead(Bulkhead::builder("b").threads(1).cores([allowed[0]]))
            .build()
            .unwrap_err();
        assert_eq!((overlap.kind(), overlap.bulkhead()), (BuildErrorKind::Cores, Some("b")));
        assert!(overlap.to_string().contains(r#""a""#), "{overlap}");
    }
}

#[test]
fn a_runtime_without_bulkheads_is_a_runtime() {
    let runtime = Runtime::builder().build().unwrap();
    assert!(runtime.bulkhead("db").is_err());
    assert!(runtime.shutdown(Duration::ZERO).unwrap().is_clean());
}

#[test]
fn the_footprint_is_all_that_a_bulkhead_can_hold() {
    let policy = RejectionPolicy::Wait { at_most: Duration::from_millis(50), submitters: 3 };
    let (_runtime, bulkhead, _) =
        build(Bulkhead::builder("foot").threads(2).queue(4).rejection(policy));
    let footprint = bulkhead.footprint();
    assert_eq!(footprint.callers, 9);
    assert_eq!(footprint.longest_call, Some(Duration::from_secs(1)));
    assert_eq!(footprint.longest_submit, Some(Duration::from_millis(50)));
}

// ----- time -----

#[test]
fn who_would_be_late_is_refused_at_once_if_asked_for() {
    for asked_for in [true, false] {
        let bulkhead = Bulkhead::builder("late").threads(1).queue(9).refuse_late(asked_for);
        let (_runtime, bulkhead, clock) = build(bulkhead.no_deadline());
        // Its pace: 100 ms a job.
        for _ in 0..10 {
            let clock = Arc::clone(&clock);
            bulkhead.call(move |_| clock.advance(Duration::from_millis(100))).unwrap();
        }
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate);
        let within = |millis| Deadline::at(clock.now() + Duration::from_millis(millis));
        let soon = bulkhead.submit_until(within(50), |_| ());
        let far = bulkhead.submit_until(within(60_000), |_| ());
        if asked_for {
            assert_eq!(soon.unwrap_err().reason(), Rejection::WouldBeLate);
        } else {
            assert!(soon.is_ok());
        }
        assert!(far.is_ok(), "it has time enough");
        gate.open();
        held.join().unwrap();
    }
}

#[test]
fn each_limit_says_which_one_it_was() {
    let at_most = Duration::from_secs(2);
    let policy = RejectionPolicy::Wait { at_most, submitters: 9 };
    let (_runtime, bulkhead, clock) = build(
        Bulkhead::builder("limits")
            .threads(1)
            .queue(1)
            .rejection(policy)
            .queue_limit(Duration::from_secs(5))
            .no_deadline(),
    );
    let gate = Gate::new();
    let caller = bulkhead.clone();
    let (inner, deadline) = (gate.clone(), Deadline::at(clock.now() + Duration::from_secs(9)));
    let running = thread::spawn(move || caller.call_until(deadline, move |_| inner.pass()));
    gate.wait_for(1);
    let queued = bulkhead.submit(|_| ()).unwrap();
    let caller = bulkhead.clone();
    let waiting = thread::spawn(move || caller.call(|_| ()));
    eventually("it waits", || bulkhead.snapshot().waiting == 1);
    clock.advance(Duration::from_secs(3));
    let wait = within("the waiter", move || waiting.join().unwrap()).unwrap_err();
    clock.advance(Duration::from_secs(3));
    let queue = queued.join().unwrap_err();
    clock.advance(Duration::from_secs(4));
    let call = within("the caller", move || running.join().unwrap()).unwrap_err();
    assert_eq!(
        [&wait, &queue, &call].map(|error| (error.time_limit(), error.never_started())),
        [
            (Some(TimeLimit::Wait), true),
            (Some(TimeLimit::Queue), true),
            (Some(TimeLimit::Call), false),
        ],
    );
    gate.open();
}

#[test]
fn a_call_inside_a_job_has_at_most_the_job_s_time() {
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("outer").threads(1))
        .bulkhead(Bulkhead::builder("inner").threads(1).no_deadline())
        .build()
        .unwrap();
    let (outer, inner) = (runtime.bulkhead("outer").unwrap(), runtime.bulkhead("inner").unwrap());
    let deadline = Deadline::at(clock.now() + Duration::from_secs(10));
    let left = outer.call_until(deadline, move |_| {
        let asked = Deadline::at(clock.now() + Duration::from_secs(99));
        [
            inner.call(|ctx| ctx.remaining()).unwrap(),
            inner.call_until(asked, |ctx| ctx.remaining()).unwrap(),
            // A job that outlives its submitter has its own time.
            inner.submit(|ctx| ctx.remaining()).unwrap().join().unwrap(),
        ]
    });
    let ten = Some(Duration::from_secs(10));
    assert_eq!(left.unwrap(), [ten, ten, None]);
}

#[test]
fn a_nested_call_that_need_not_queue_is_served() {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("own").threads(2).queue(0))
        .bulkhead(Bulkhead::builder("other").threads(1))
        .build()
        .unwrap();
    let (own, other) = (runtime.bulkhead("own").unwrap(), runtime.bulkhead("other").unwrap());
    let inner = own.clone();
    let served = own.call(move |_| {
        let there = other.call(|_| 1).unwrap();
        // A thread of its own bulkhead is free.
        there + inner.call(|_| 2).unwrap()
    });
    assert_eq!(served.unwrap(), 3);
}

// ----- handles -----

#[test]
fn a_running_job_is_told_that_it_is_cancelled_and_a_finished_one_keeps_its_answer() {
    let (_runtime, bulkhead, _) = build(Bulkhead::builder("cancel").threads(1));
    let gate = Gate::new();
    let inner = gate.clone();
    let running = bulkhead.submit(move |ctx| {
        let before = ctx.is_cancelled();
        inner.pass();
        (before, ctx.is_cancelled())
    });
    let running = running.unwrap();
    gate.wait_for(1);
    assert!(!running.cancel());
    gate.open();
    assert_eq!(running.join().unwrap(), (false, true));

    let finished = bulkhead.submit(|_| 7).unwrap();
    eventually("it is over", || finished.is_finished());
    assert!(!finished.cancel());
    assert_eq!(finished.join().unwrap(), 7);
    assert_eq!(bulkhead.snapshot().totals.not_started(Rejection::Cancelled), 0);
}

#[test]
fn a_join_that_runs_out_of_time_hands_the_handle_back() {
    let (runtime, bulkhead) = {
        let runtime = Runtime::builder().bulkhead(Bulkhead::builder("join").threads(1)).build();
        let runtime = runtime.unwrap();
        let bulkhead = runtime.bulkhead("join").unwrap();
        (runtime, bulkhead)
    };
    let gate = Gate::new();
    let inner = gate.clone();
    let job = bulkhead.submit(move |_| {
        inner.pass();
        7
    });
    let job = job.unwrap().join_timeout(Duration::ZERO).unwrap_err();
    let job = job.join_timeout(Duration::from_millis(2)).unwrap_err();
    gate.open();
    assert_eq!(job.join_timeout(Duration::MAX).unwrap().unwrap(), 7);
    drop(runtime);
}

#[test]
fn a_guard_cancels_when_it_is_dropped_unless_it_is_disarmed() {
    let (_runtime, bulkhead, _) = build(Bulkhead::builder("guard").threads(1).queue(2));
    let gate = Gate::new();
    let held = hold(&bulkhead, &gate);
    drop(bulkhead.submit(|_| ()).unwrap().cancel_on_drop());
    assert_eq!(bulkhead.snapshot().totals.not_started(Rejection::Cancelled), 1);
    let kept = bulkhead.submit(|_| 7).unwrap().cancel_on_drop().disarm();
    gate.open();
    held.join().unwrap();
    assert_eq!(kept.join().unwrap(), 7);
}

#[test]
fn dropping_a_handle_detaches_its_job() {
    let (_runtime, bulkhead, _) = build(Bulkhead::builder("detach").threads(1));
    let (ran, runs) = mpsc::channel();
    drop(bulkhead.submit(move |_| ran.send(()).unwrap()).unwrap());
    within("the job", move || runs.recv().unwrap());
}

#[test]
fn a_refused_closure_runs_on_its_caller_s_own_thread_if_the_caller_says_so() {
    let (_runtime, bulkhead, clock) = build(Bulkhead::builder("here").threads(1).queue(0));
    let gate = Gate::new();
    let held = hold(&bulkhead, &gate);
    let me = thread::current().id();
    let refused = bulkhead.submit(move |ctx| {
        (thread::current().id() == me, ctx.remaining(), ctx.worker(), ctx.is_cancelled())
    });
    assert_eq!(refused.unwrap_err().run_here(), (true, None, 1, false));
    assert_eq!(bulkhead.snapshot().totals.returned, 0, "it was none of the bulkhead's jobs");
    drop(clock);
    gate.open();
    held.join().unwrap();
}

// ----- the end of a runtime -----

#[test]
fn dropping_a_runtime_waits_as_long_as_it_was_told_and_tells_every_caller() {
    for drop_wait in [Duration::ZERO, Duration::from_millis(5)] {
        let runtime = Runtime::builder()
            .drop_wait(drop_wait)
            .bulkhead(Bulkhead::builder("drop").threads(1).queue(2))
            .build()
            .unwrap();
        let bulkhead = runtime.bulkhead("drop").unwrap();
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate);
        gate.wait_for(1);
        let queued = bulkhead.submit(|_| ()).unwrap();
        within("the drop", move || drop(runtime));
        assert_eq!(queued.join().unwrap_err().rejection(), Some(Rejection::ShuttingDown));
        assert_eq!(bulkhead.submit(|_| ()).unwrap_err().reason(), Rejection::ShuttingDown);
        gate.open();
        held.join().expect("a detached job ends as any other");
    }
}

// ----- whose destructor runs where -----

/// Calls back into its bulkhead when it is dropped: it hangs if a lock is held.
struct CallsBack(Bulkhead, mpsc::Sender<()>);

impl Drop for CallsBack {
    fn drop(&mut self) {
        let _ = self.0.snapshot();
        // It leaves the bulkhead as it found it.
        drop(self.0.try_submit(|_| ()).map(JobHandle::cancel_on_drop));
        let _ = self.1.send(());
    }
}

#[test]
fn captures_may_call_back_on_every_way_out() {
    let limit = Duration::from_secs(1);
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("back").threads(1).queue(1).queue_limit(limit))
        .bulkhead(
            Bulkhead::builder("oldest").threads(1).queue(1).rejection(RejectionPolicy::DropOldest),
        )
        .bulkhead(Bulkhead::builder("line").threads(1).queue(0).rejection(WAIT))
        .build()
        .unwrap();
    let [back, oldest, line] =
        ["back", "oldest", "line"].map(|name| runtime.bulkhead(name).unwrap());
    let (dropped, drops) = mpsc::channel();
    let job = |bulkhead: &Bulkhead| {
        let captured = CallsBack(bulkhead.clone(), dropped.clone());
        move |_: &Context<'_>| {
            let _in_the_closure = &captured;
        }
    };
    let gone = |way: &str| {
        let late = drops.recv_timeout(crate::support::WATCHDOG);
        assert!(late.is_ok(), "{way}: the captures are not dropped");
    };

    back.call(job(&back)).unwrap();
    gone("ran");
    let gate = Gate::new();
    let held = [&back, &oldest, &line].map(|bulkhead| hold(bulkhead, &gate));
    gate.wait_for(3);
    assert!(back.submit(job(&back)).unwrap().cancel());
    gone("cancelled");
    let expired = back.submit(job(&back)).unwrap();
    clock.advance(Duration::from_secs(2));
    assert!(expired.join().is_err());
    gone("expired");
    eventually("room", || back.snapshot().queued == 0);
    let queued = back.submit(|_| ()).unwrap();
    assert!(back.call(job(&back)).is_err());
    gone("refused");
    let displaced = oldest.submit(job(&oldest)).unwrap();
    let newest = oldest.submit(|_| ()).unwrap();
    assert!(displaced.join().is_err());
    gone("displaced");
    let deadline = Deadline::at(clock.now() + Duration::from_secs(1));
    let (caller, late) = (line.clone(), job(&line));
    let waiting = thread::spawn(move || caller.call_until(deadline, late).is_err());
    eventually("it waits", || line.snapshot().waiting == 1);
    clock.advance(Duration::from_secs(2));
    assert!(within("the waiter", move || waiting.join().unwrap()));
    gone("sent away");
    drop((queued, newest));
    let unstarted = oldest.submit(job(&oldest)).unwrap();
    runtime.shutdown(Duration::ZERO).unwrap();
    assert!(unstarted.join().is_err());
    gone("shut down");
    gate.open();
    drop(held);
}

#[test]
fn a_result_or_payload_that_nobody_wants_may_panic_when_it_is_dropped() {
    let (_runtime, bulkhead, _) = build(Bulkhead::builder("bombs").threads(1).queue(9));
    let dropped = Arc::new(AtomicUsize::new(0));
    let gate = Gate::new();
    let held = hold(&bulkhead, &gate);
    for panics in [false, true] {
        let bomb = Bomb(Arc::clone(&dropped));
        // Detached, so the worker drops what comes out.
        drop(bulkhead.submit(move |_| {
            if panics {
                resume_unwind(Box::new(bomb));
            }
            bomb
        }));
    }
    let batch = Batch::new();
    let bomb = Bomb(Arc::clone(&dropped));
    batch.submit(&bulkhead, "key", move |_| bomb).unwrap();
    drop(batch);
    gate.open();
    held.join().unwrap();
    eventually("all three are dropped", || dropped.load(Ordering::SeqCst) == 3);
    assert_eq!(bulkhead.call(|_| 7).unwrap(), 7);
    eventually("at rest", || bulkhead.snapshot().running == 0);
    let totals = bulkhead.snapshot().totals;
    assert_eq!(totals.accepted, totals.ended());
}

#[test]
fn a_dropped_batch_drops_every_answer_though_destructors_panic() {
    let (_runtime, bulkhead, _) = build(Bulkhead::builder("bombs").threads(2).queue(9));
    let dropped = Arc::new(AtomicUsize::new(0));
    let batch = Batch::new();
    for key in 0..5 {
        let bomb = Bomb(Arc::clone(&dropped));
        batch.submit(&bulkhead, key, move |_| bomb).unwrap();
    }
    eventually("all have come", || batch.receiver().len() == 5);
    drop(batch);
    assert_eq!(dropped.load(Ordering::SeqCst), 5);
}

// ----- types -----

#[test]
fn errors_reports_and_futures_travel_between_threads() {
    fn travels<T: Send + Sync + 'static>(_: Option<T>) {}
    fn moves<T: Send + 'static>(_: &T) {}
    fn is_error<T: std::error::Error + Send + Sync + 'static>(_: Option<T>) {}
    is_error(None::<watertight::NotStarted>);
    is_error(None::<watertight::Panicked>);
    is_error(None::<watertight::TimedOut>);
    is_error(None::<watertight::UnknownBulkhead>);
    is_error(None::<watertight::ShutdownError>);
    is_error(None::<watertight::BuildError>);
    is_error(None::<watertight::Rejected>);
    is_error(None::<CallError<std::io::Error>>);
    travels(None::<watertight::ShutdownReport>);
    travels(None::<watertight::Plan>);
    travels(None::<watertight::RuntimeBuilder>);
    travels(None::<watertight::CancelOnDrop<u8>>);
    let (_runtime, bulkhead, _) = build(Bulkhead::builder("types").threads(1));
    moves(&bulkhead.call_async(|_| 1));
    moves(&bulkhead.submit_async(|_| 1));
}

#[test]
fn an_error_s_cause_is_its_source() {
    use std::error::Error;
    let failed: CallError<std::io::Error> = CallError::Failed(std::io::Error::other("disk"));
    assert_eq!(failed.source().map(ToString::to_string).as_deref(), Some("disk"));
}
