//! Failures that other systems had in the field, by the numbers under which they were collected.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use watertight::{
    Bulkhead, BulkheadBuilder, CallError, Clock, Deadline, JobHandle, ManualClock, Rejection,
    RejectionPolicy, Runtime, ShutdownError,
};

#[cfg(target_os = "linux")]
use crate::support::threads_named;
use crate::support::{Bomb, Gate, build, capacity_is, eventually, hold, within};

const FOREVER: RejectionPolicy =
    RejectionPolicy::Wait { at_most: Duration::MAX, submitters: 1_000 };

#[test]
fn c01_a_caller_that_gave_up_waiting_is_given_no_slot() {
    let policy = RejectionPolicy::Wait { at_most: Duration::from_millis(2), submitters: 8 };
    let (_runtime, bulkhead) =
        build(Bulkhead::builder("c01").threads(4).queue(0).rejection(policy));
    for _ in 0..50 {
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 4);
        gate.wait_for(4);
        let late: Vec<_> = (0..8)
            .map(|_| {
                let bulkhead = bulkhead.clone();
                thread::spawn(move || bulkhead.submit(|_| ()).unwrap_err().reason())
            })
            .collect();
        for caller in late {
            assert_eq!(caller.join().unwrap(), Rejection::WaitLimit);
        }
        gate.open();
        for job in held {
            job.join().unwrap();
        }
        capacity_is(&bulkhead, 4);
    }
}

#[test]
fn c02_a_caller_s_timeout_frees_no_slot() {
    let (_runtime, bulkhead) = build(Bulkhead::builder("c02").threads(2).queue(0));
    let (gate, inside, most) =
        (Gate::new(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut late = 0;
    for _ in 0..20 {
        let (gate, inside, most) = (gate.clone(), Arc::clone(&inside), Arc::clone(&most));
        let answer = bulkhead.call_until(Deadline::after(Duration::from_millis(5)), move |_| {
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            gate.pass();
            inside.fetch_sub(1, Ordering::SeqCst);
        });
        match answer.unwrap_err() {
            CallError::TimedOut(_) => late += 1,
            // A thread so slow to come for its job that the time had passed by then.
            error => assert!(error.never_started(), "{error}"),
        }
        assert_eq!(bulkhead.snapshot().running, bulkhead.snapshot().overdue);
    }
    assert!(late <= 2 && most.load(Ordering::SeqCst) <= 2);
    gate.open();
    capacity_is(&bulkhead, 2);
}

#[test]
fn c04_many_threads_at_once_do_not_overshoot() {
    let (_runtime, bulkhead) = build(Bulkhead::builder("c04").threads(10).queue(3));
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let start = Arc::new(Barrier::new(32));
    let callers: Vec<_> = (0..32)
        .map(|_| {
            let (bulkhead, start) = (bulkhead.clone(), Arc::clone(&start));
            let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
            thread::spawn(move || {
                start.wait();
                for _ in 0..300 {
                    let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
                    drop(bulkhead.try_submit(move |_| {
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }));
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
    capacity_is(&bulkhead, 10);
    assert!(most.load(Ordering::SeqCst) <= 10);
    assert!(bulkhead.snapshot().totals.peaks.queued <= 3);
}

#[test]
fn c07_from_rest_every_place_is_given_out_and_not_one_more() {
    let (_runtime, bulkhead) = build(Bulkhead::builder("c07").threads(10).queue(10));
    for _ in 0..300 {
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 20);
        assert_eq!(bulkhead.submit(|_| ()).unwrap_err().reason(), Rejection::QueueFull);
        gate.open();
        for job in held {
            job.join().unwrap();
        }
    }
}

#[test]
fn c08_a_queue_of_zero_hands_over_directly() {
    // At once after the build, when no thread may be up yet.
    for _ in 0..50 {
        let (_runtime, bulkhead) = build(Bulkhead::builder("c08").threads(2).queue(0));
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 2);
        let refused = bulkhead.submit(|_| ()).unwrap_err();
        assert_eq!((refused.reason(), refused.limit()), (Rejection::QueueFull, 0));
        gate.open();
        for job in held {
            job.join().unwrap();
        }
        bulkhead.submit(|_| ()).expect("a job that has ended has freed its slot").join().unwrap();
    }
}

#[test]
fn c10_the_caller_of_a_dropped_job_is_told() {
    let (_runtime, bulkhead) =
        build(Bulkhead::builder("c10").threads(1).queue(1).rejection(RejectionPolicy::DropOldest));
    let gate = Gate::new();
    let held = hold(&bulkhead, &gate, 1);
    gate.wait_for(1);
    let oldest = bulkhead.submit(|_| "a").unwrap();
    let waiting = thread::spawn(move || oldest.join().unwrap_err().rejection());
    let newest = bulkhead.submit(|_| "b").unwrap();
    let told = within("the displaced caller", move || waiting.join().unwrap());
    assert_eq!(told, Some(Rejection::Displaced));
    gate.open();
    assert_eq!(newest.join().unwrap(), "b");
    drop(held);
    assert_eq!(bulkhead.snapshot().totals.not_started(Rejection::Displaced), 1);
}

#[test]
fn c12_cancelled_and_expired_jobs_give_their_places_back_at_once() {
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(
            Bulkhead::builder("c12")
                .threads(1)
                .queue(5)
                .queue_limit(Duration::from_millis(20))
                .rejection(FOREVER),
        )
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("c12").unwrap();
    let gate = Gate::new();
    let held = hold(&bulkhead, &gate, 1);
    gate.wait_for(1);
    for expire in [true, false] {
        let captured = Arc::new(());
        let dead: Vec<_> = (0..5)
            .map(|_| {
                let captured = Arc::clone(&captured);
                bulkhead.submit(move |_| drop(captured)).unwrap()
            })
            .collect();
        let blocked = {
            let bulkhead = bulkhead.clone();
            thread::spawn(move || bulkhead.submit(|_| ()).unwrap().cancel())
        };
        eventually("somebody waits", || bulkhead.snapshot().waiting == 1);
        if expire {
            clock.advance(Duration::from_millis(21));
        } else {
            assert!(dead.iter().all(JobHandle::cancel));
        }
        assert!(within("the waiter gets in", move || blocked.join().unwrap()));
        eventually("the queue is empty", || bulkhead.snapshot().queued == 0);
        eventually("captures are dropped", || Arc::strong_count(&captured) == 1);
        let why = if expire { Rejection::QueueLimit } else { Rejection::Cancelled };
        for job in dead {
            assert_eq!(job.join().unwrap_err().rejection(), Some(why));
        }
    }
    gate.open();
    drop(held);
}

#[test]
fn c16_a_limit_shorter_than_the_time_to_queue_still_counts() {
    for limit in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(1)] {
        let (_runtime, bulkhead) =
            build(Bulkhead::builder("c16").threads(1).queue(5).queue_limit(limit));
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        for _ in 0..500 {
            let bulkhead = bulkhead.clone();
            let error = bulkhead.call(|_| ()).unwrap_err();
            assert_eq!(error.rejection(), Some(Rejection::QueueLimit), "{limit:?}: {error}");
        }
        gate.open();
        drop(held);
    }
}

#[test]
fn c18_a_job_that_waits_on_its_own_full_bulkhead_is_told() {
    for threads in [1, 2] {
        let (_runtime, bulkhead) =
            build(Bulkhead::builder("c18").threads(threads).queue(10).no_deadline());
        let together = Arc::new(Barrier::new(threads));
        let parents: Vec<_> = (0..threads)
            .map(|_| {
                let (inner, together) = (bulkhead.clone(), Arc::clone(&together));
                let parent = move |_: &watertight::Context<'_>| {
                    together.wait();
                    let called = inner.call(|_| ()).map_err(|error| error.rejection());
                    let child = inner.submit(|_| ()).unwrap();
                    let joined = child.join().map_err(|error| error.rejection());
                    together.wait();
                    (called, joined)
                };
                bulkhead.submit(parent).unwrap()
            })
            .collect();
        for parent in parents {
            let told = within("a parent", move || parent.join().unwrap());
            let deadlock = Err(Some(Rejection::WouldDeadlock));
            assert_eq!(told, (deadlock, deadlock));
        }
        capacity_is(&bulkhead, threads);
    }
}

#[test]
fn c20_a_ring_of_bulkheads_unwinds() {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("c20a").threads(1).no_deadline())
        .bulkhead(Bulkhead::builder("c20b").threads(1).no_deadline())
        .build()
        .unwrap();
    let (a, b) = (runtime.bulkhead("c20a").unwrap(), runtime.bulkhead("c20b").unwrap());
    let (back, there) = (a.clone(), b.clone());
    let told = within("the ring", move || {
        a.call(move |_| there.call(move |_| back.call(|_| ()).unwrap_err().rejection()))
    });
    assert_eq!(told.unwrap().unwrap(), Some(Rejection::WouldDeadlock));
    capacity_is(&b, 1);
}

/// Calls a job that panics with `payload`.
fn never(bulkhead: &Bulkhead, payload: Box<dyn std::any::Any + Send>) -> CallError {
    let answer: Result<(), _> = bulkhead.call(move |_| resume_unwind(payload));
    answer.unwrap_err()
}

#[test]
fn c21_a_panic_reaches_its_caller_and_costs_no_worker() {
    let (_runtime, bulkhead) = build(Bulkhead::builder("c21").threads(2).queue(10));
    for round in 0..5 {
        let said = never(&bulkhead, Box::new("a str"));
        let CallError::Panicked(panicked) = said else { panic!("{said:?}") };
        assert_eq!(panicked.message(), Some("a str"));
        let text = format!("round {round}");
        let copy = text.clone();
        let said = never(&bulkhead, Box::new(copy));
        let CallError::Panicked(panicked) = said else { panic!("{said:?}") };
        assert_eq!(panicked.message(), Some(&*text));
        let said = never(&bulkhead, Box::new(7_u8));
        let CallError::Panicked(panicked) = said else { panic!("{said:?}") };
        assert_eq!(panicked.into_payload().downcast_ref::<u8>(), Some(&7));
    }
    for _ in 0..100 {
        bulkhead.call(|_| ()).unwrap();
    }
    assert_eq!(bulkhead.snapshot().totals.panicked, 15);
    capacity_is(&bulkhead, 2);
}

#[test]
fn c24_a_capture_that_panics_when_dropped_hurts_no_stranger() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let bomb = || {
        let bomb = Bomb(Arc::clone(&dropped));
        move |_: &watertight::Context<'_>| {
            let _in_the_closure = &bomb;
        }
    };
    let clock = Arc::new(ManualClock::new());
    let limit = Duration::from_secs(1);
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("c24").threads(1).queue(1).queue_limit(limit))
        .bulkhead(
            Bulkhead::builder("c24-drop")
                .threads(1)
                .queue(1)
                .rejection(RejectionPolicy::DropOldest),
        )
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("c24").unwrap();
    let drops = runtime.bulkhead("c24-drop").unwrap();

    // After a normal run: the panic is the job's own.
    assert!(matches!(bulkhead.call(bomb()), Err(CallError::Panicked(_))));
    let gate = Gate::new();
    let held = hold(&bulkhead, &gate, 1);
    gate.wait_for(1);
    // Cancelled.
    assert!(bulkhead.submit(bomb()).unwrap().cancel());
    // Expired.
    let expired = bulkhead.submit(bomb()).unwrap();
    clock.advance(Duration::from_secs(2));
    assert_eq!(expired.join().unwrap_err().rejection(), Some(Rejection::QueueLimit));
    eventually("the expired one is dropped", || dropped.load(Ordering::SeqCst) == 3);
    // Refused: the closure is the submitter's again, and so is what its destructor does.
    let queued = bulkhead.submit(|_| ()).unwrap();
    let refused = bulkhead.submit(bomb()).unwrap_err();
    let dropping = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(refused)));
    assert!(dropping.is_err());
    // Displaced.
    let held_too = hold(&drops, &gate, 1);
    gate.wait_for(2);
    let displaced = drops.submit(bomb()).unwrap();
    let newest = drops.submit(|_| ()).unwrap();
    assert_eq!(displaced.join().unwrap_err().rejection(), Some(Rejection::Displaced));
    gate.open();
    for job in held.into_iter().chain(held_too).chain([queued, newest]) {
        job.join().unwrap();
    }
    capacity_is(&bulkhead, 1);
    capacity_is(&drops, 1);
    // Shut down.
    let gate = Gate::new();
    let held = hold(&bulkhead, &gate, 1);
    gate.wait_for(1);
    let unstarted = bulkhead.submit(bomb()).unwrap();
    let report = runtime.shutdown(Duration::ZERO).unwrap();
    assert_eq!((report.unstarted.len(), report.stuck.len()), (1, 1), "{report}");
    assert_eq!(unstarted.join().unwrap_err().rejection(), Some(Rejection::ShuttingDown));
    eventually("the last one is dropped", || dropped.load(Ordering::SeqCst) == 6);
    gate.open();
    drop(held);
    let told = [&bulkhead, &drops].map(|one| one.snapshot().drop_panics);
    assert_eq!(told, [3, 1]);
}

#[test]
fn c29_queued_jobs_are_ended_by_shutdown_and_their_callers_told() {
    for limit in [Duration::ZERO, Duration::from_millis(20)] {
        let (runtime, bulkhead) = build(Bulkhead::builder("c29").threads(1).queue(10));
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        let callers: Vec<_> = (0..10)
            .map(|_| {
                let job = bulkhead.submit(|_| ()).unwrap();
                thread::spawn(move || job.join().unwrap_err().rejection())
            })
            .collect();
        let report = within("shutdown", move || runtime.shutdown(limit).unwrap());
        assert_eq!((report.unstarted.len(), report.stuck.len()), (10, 1), "{report}");
        assert_eq!(report.stuck[0].thread, "wt-c29-0");
        for caller in callers {
            let told = within("a caller", move || caller.join().unwrap());
            assert_eq!(told, Some(Rejection::ShuttingDown));
        }
        gate.open();
        drop(held);
    }
}

#[test]
fn c31_a_submit_while_the_runtime_stops_runs_or_is_refused() {
    for _ in 0..100 {
        let (runtime, bulkhead) = build(Bulkhead::builder("c31").threads(2).queue(4));
        let ran = Arc::new(AtomicUsize::new(0));
        let submitters: Vec<_> = (0..4)
            .map(|_| {
                let (bulkhead, ran) = (bulkhead.clone(), Arc::clone(&ran));
                thread::spawn(move || {
                    let (mut returned, mut ended) = (0, 0);
                    loop {
                        let ran = Arc::clone(&ran);
                        let job = bulkhead.submit(move |_| ran.fetch_add(1, Ordering::SeqCst));
                        match job {
                            Ok(job) => match job.join() {
                                Ok(_) => returned += 1,
                                Err(error) => {
                                    assert_eq!(error.rejection(), Some(Rejection::ShuttingDown));
                                    ended += 1;
                                }
                            },
                            Err(refused) if refused.reason() == Rejection::QueueFull => {}
                            Err(refused) => {
                                assert_eq!(refused.reason(), Rejection::ShuttingDown);
                                return (returned, ended);
                            }
                        }
                    }
                })
            })
            .collect();
        let report = runtime.shutdown(Duration::from_secs(20)).unwrap();
        let at_return = ran.load(Ordering::SeqCst);
        assert!(report.is_clean(), "{report}");
        let told: usize = submitters.into_iter().map(|one| one.join().unwrap().0).sum();
        assert_eq!((told, ran.load(Ordering::SeqCst)), (at_return, at_return));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn c32_the_last_handle_may_go_on_an_own_worker() {
    let (runtime, bulkhead) = build(Bulkhead::builder("c32").threads(2));
    let runtime = Arc::new(runtime);
    let gate = Gate::new();
    let (inner, last) = (gate.clone(), Arc::clone(&runtime));
    let job = bulkhead.submit(move |_| {
        inner.pass();
        let told = last.shutdown(Duration::MAX).map(|_| ());
        drop(last);
        told
    });
    gate.wait_for(1);
    drop(runtime);
    gate.open();
    let told = within("the job", move || job.unwrap().join().unwrap());
    assert_eq!(told, Err(ShutdownError::OnOwnThread));
    eventually("its threads are gone", || threads_named("wt-c32") == 0);
}

#[test]
fn c35_submitters_waiting_for_a_place_are_released_by_shutdown() {
    for limit in [Duration::ZERO, Duration::from_millis(5)] {
        for _ in 0..50 {
            let (runtime, bulkhead) = build(
                Bulkhead::builder("c35").threads(1).queue(1).rejection(FOREVER).no_deadline(),
            );
            let gate = Gate::new();
            let held = hold(&bulkhead, &gate, 2);
            let blocked: Vec<_> = (0..5)
                .map(|_| {
                    let bulkhead = bulkhead.clone();
                    thread::spawn(move || bulkhead.call(|_| ()).unwrap_err().rejection())
                })
                .collect();
            eventually("all wait", || bulkhead.snapshot().waiting == 5);
            runtime.shutdown(limit).unwrap();
            for caller in blocked {
                let told = within("a waiting caller", move || caller.join().unwrap());
                assert_eq!(told, Some(Rejection::ShuttingDown));
            }
            gate.open();
            drop(held);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn c36_a_runtime_that_never_ran_anything_stops() {
    for round in 0..200 {
        let (runtime, _bulkhead) = build(Bulkhead::builder("c36").threads(2));
        if round % 2 == 0 {
            let report = within("shutdown", move || runtime.shutdown(Duration::MAX).unwrap());
            assert!(report.is_clean());
        } else {
            drop(runtime);
        }
        eventually("no thread is left", || threads_named("wt-c36") == 0);
    }
    let slow = Gate::new();
    let inner = slow.clone();
    let (runtime, bulkhead) =
        build(Bulkhead::builder("c36").threads(1).on_thread_start(move |_| inner.pass()));
    slow.wait_for(1);
    let stopping = thread::spawn(move || runtime.shutdown(Duration::MAX).unwrap());
    eventually("it closes", || {
        bulkhead.submit(|_| ()).is_err_and(|refused| refused.reason() == Rejection::ShuttingDown)
    });
    slow.open();
    within("shutdown", move || stopping.join().unwrap());
}

#[cfg(target_os = "linux")]
#[test]
fn c43_threads_that_cannot_all_be_started_are_stopped_again() {
    for _ in 0..3 {
        let started = Arc::new(AtomicUsize::new(0));
        let hook = Arc::clone(&started);
        let error = Runtime::builder()
            .bulkhead(Bulkhead::builder("c43").threads(3).on_thread_start(move |_| {
                hook.fetch_add(1, Ordering::SeqCst);
            }))
            .bulkhead(Bulkhead::builder("c43-huge").threads(8).stack_size(1 << 46))
            .build()
            .unwrap_err();
        assert_eq!((error.bulkhead(), error.setting()), (Some("c43-huge"), "threads"));
        assert!(std::error::Error::source(&error).is_some(), "{error}");
        // The system shows a joined thread for a moment more.
        eventually("they are gone", || threads_named("wt-c43") == 0);
        assert_eq!(started.load(Ordering::SeqCst), 0, "no user code has run");
    }
    let (_runtime, bulkhead) = build(Bulkhead::builder("c43").threads(3));
    capacity_is(&bulkhead, 3);
}

#[cfg(target_os = "linux")]
#[test]
fn c47_an_impossible_core_is_an_error_and_a_possible_one_is_had() {
    let plan = |bulkhead: BulkheadBuilder| Runtime::builder().bulkhead(bulkhead).build();
    let first = plan(Bulkhead::builder("c47").threads(1)).unwrap();
    let allowed = first.plan().allowed_cores.clone().expect("Linux says which cores there are");
    for impossible in [4_096, 1_024, 1_023] {
        if allowed.contains(&impossible) {
            continue;
        }
        let error = plan(Bulkhead::builder("c47").threads(1).cores([impossible])).unwrap_err();
        assert!(error.to_string().contains(&impossible.to_string()), "{error}");
    }
    let twice = plan(Bulkhead::builder("c47").threads(1).cores([allowed[0], allowed[0]]));
    assert!(twice.is_err());
    assert!(plan(Bulkhead::builder("c47").threads(1).core_count(allowed.len() + 1)).is_err());

    // More workers than cores: each has the set.
    let runtime = plan(Bulkhead::builder("c47").threads(3).cores([allowed[0]])).unwrap();
    assert_eq!(runtime.plan().bulkheads[0].cores, Some(vec![allowed[0]]));
    let seen = runtime.bulkhead("c47").unwrap().call(|_| {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    });
    assert_eq!(seen.unwrap(), allowed[0].to_string());
    // A second runtime, built after the first was pinned, sees the process's cores all the same.
    let again = plan(Bulkhead::builder("c47").threads(1)).unwrap();
    assert_eq!(again.plan().allowed_cores.as_deref(), Some(&*allowed));
}

#[test]
fn c50_durations_without_end_are_no_limit() {
    let century = Duration::from_secs(300 * 365 * 86_400);
    for long in [Duration::MAX, Duration::MAX / 2, Duration::from_secs(u64::MAX), century] {
        let policy = RejectionPolicy::Wait { at_most: long, submitters: 1 };
        let runtime = Runtime::builder()
            .drop_wait(long)
            .bulkhead(
                Bulkhead::builder("c50")
                    .threads(1)
                    .queue(0)
                    .queue_limit(long)
                    .call_limit(long)
                    .rejection(policy),
            )
            .build()
            .unwrap();
        let bulkhead = runtime.bulkhead("c50").unwrap();
        assert_eq!(bulkhead.call(|_| 1).unwrap(), 1);
        assert_eq!(bulkhead.call_until(Deadline::after(long), |_| 2).unwrap(), 2);
        let job = bulkhead.submit_until(Deadline::after(long), |ctx| ctx.remaining()).unwrap();
        assert!(job.join_timeout(long).unwrap().is_ok());
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        let waiter = {
            let bulkhead = bulkhead.clone();
            thread::spawn(move || bulkhead.call(|_| 3).unwrap())
        };
        eventually("somebody waits", || bulkhead.snapshot().waiting == 1);
        gate.open();
        assert_eq!(within("the waiter", move || waiter.join().unwrap()), 3);
        drop(held);
        assert!(runtime.shutdown(long).unwrap().is_clean());
    }
}

#[test]
fn c54_of_two_limits_the_earlier_is_named_and_of_equal_ones_the_call_s() {
    let clock = Arc::new(ManualClock::new());
    let limit = Duration::from_millis(50);
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("c54").threads(1).queue(9).queue_limit(limit))
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("c54").unwrap();
    let gate = Gate::new();
    let held = hold(&bulkhead, &gate, 1);
    gate.wait_for(1);
    let submit = |after| bulkhead.submit_until(Deadline::at(clock.now() + after), |_| ()).unwrap();
    let jobs = [
        (submit(limit / 2), Rejection::DeadlinePast),
        (submit(limit), Rejection::DeadlinePast),
        (submit(limit * 2), Rejection::QueueLimit),
    ];
    clock.advance(limit * 3);
    for (job, why) in jobs {
        assert_eq!(job.join().unwrap_err().rejection(), Some(why));
    }
    gate.open();
    drop(held);
}

#[test]
fn c108_nothing_keeps_what_a_job_captured_or_returned() {
    let (_runtime, bulkhead) = build(Bulkhead::builder("c108").threads(1));
    let value = Arc::new(());
    for _ in 0..100 {
        let captured = Arc::clone(&value);
        let returned = bulkhead.call(move |_| Arc::clone(&captured)).unwrap();
        assert_eq!(
            Arc::strong_count(&value),
            2,
            "the closure is dropped before the answer is seen"
        );
        drop(returned);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
