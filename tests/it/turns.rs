//! Whose turn it is, and when a limit is due: one outcome for each job, in the order of arrival and
//! of time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use watertight::{
    Bulkhead, BulkheadBuilder, CallError, Clock, Deadline, ManualClock, Rejection, RejectionPolicy,
    Runtime, TimeLimit,
};

use crate::support::{Gate, build, capacity_is, eventually, hold, within};

const FOREVER: RejectionPolicy =
    RejectionPolicy::Wait { at_most: Duration::MAX, submitters: 1_000 };

fn build_with_clock(bulkhead: BulkheadBuilder) -> (Runtime, Bulkhead, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder().clock(Arc::clone(&clock)).bulkhead(bulkhead).build().unwrap();
    let handle = runtime.bulkheads().next().unwrap().clone();
    (runtime, handle, clock)
}

#[test]
fn c09_a_refused_closure_that_its_caller_runs_holds_nobody_up() {
    within("c09_a_refused_closure_that_its_caller_runs_holds_nobody_up", || {
        // The caller is a job of another bulkhead: it has a context to run the closure with.
        let runtime = Runtime::builder()
            .bulkhead(Bulkhead::builder("front").threads(1).no_deadline())
            .bulkhead(Bulkhead::builder("c09").threads(1).queue(2))
            .build()
            .unwrap();
        let (front, bulkhead) =
            (runtime.bulkhead("front").unwrap(), runtime.bulkhead("c09").unwrap());
        let (gate, others) = (Gate::new(), Gate::new());
        let held = hold(&bulkhead, &gate, 3);
        gate.wait_for(1);

        let caller = {
            let (bulkhead, others) = (bulkhead.clone(), others.clone());
            front.submit(move |ctx| {
                let refused = bulkhead.submit(move |_| {
                    others.pass();
                    thread::current().name().map(str::to_owned)
                });
                let refused = refused.unwrap_err();
                assert_eq!(refused.reason(), Rejection::QueueFull);
                refused.into_job()(ctx)
            })
        };
        // Until the end of this the caller is inside the closure that was refused.
        others.wait_for(1);
        let busy = bulkhead.clone();
        let worked = within("the others", move || {
            assert_eq!((busy.snapshot().running, busy.snapshot().queued), (1, 2));
            gate.open();
            for job in held {
                job.join().unwrap();
            }
            for _ in 0..4 {
                busy.call(|_| ()).unwrap();
            }
            let gate = Gate::new();
            let held = hold(&busy, &gate, 1);
            gate.wait_for(1);
            assert!(busy.submit(|_| ()).unwrap().cancel());
            gate.open();
            for job in held {
                job.join().unwrap();
            }
            busy.snapshot()
        });
        assert_eq!((worked.running, worked.queued), (0, 0), "{worked}");
        assert_eq!((worked.totals.returned, worked.rejected(Rejection::QueueFull)), (8, 1));
        others.open();
        let ran_on = within("the caller", move || caller.unwrap().join().unwrap());
        assert_eq!(ran_on.as_deref(), Some("wt-front-0"));
        capacity_is(&bulkhead, 1);
    });
}

/// Some hundred different short delays, from a cheap generator.
struct Jitter(u64);

impl Jitter {
    fn next(&mut self) -> u64 {
        let factor = 6_364_136_223_846_793_005;
        self.0 = self.0.wrapping_mul(factor).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn pause(&mut self) {
        // Now and then as long as a thread takes to wake up.
        let most = if self.next() % 4 == 0 { 20_000 } else { 400 };
        for _ in 0..self.next() % most {
            std::hint::spin_loop();
        }
    }
}

const LIMIT: Duration = Duration::from_millis(10);
const NANO: Duration = Duration::from_nanos(1);

/// What is tried in each round of [`race`]. It calls `go` just before it waits for the outcome.
type Attempt = fn(
    &Bulkhead,
    Deadline,
    Arc<AtomicBool>,
    &mut dyn FnMut(),
    &mut Jitter,
) -> Result<(), CallError>;

/// A thread comes free and a limit passes at the same moment, again and again.
fn race(rounds: u64, bulkhead: BulkheadBuilder, attempt: Attempt) {
    let (_runtime, bulkhead, clock) = build_with_clock(bulkhead);
    let (start, rounds_to_go) = mpsc::channel::<Gate>();
    let (over, is_over) = mpsc::channel();
    let moved = Arc::clone(&clock);
    let driver = thread::spawn(move || {
        let mut jitter = Jitter(1);
        for gate in rounds_to_go {
            let limit_first = jitter.next() % 2 == 0;
            jitter.pause();
            if limit_first {
                moved.advance(LIMIT);
            } else {
                gate.open();
            }
            jitter.pause();
            moved.advance(LIMIT);
            gate.open();
            over.send(()).unwrap();
        }
    });
    let mut jitter = Jitter(2);
    let (mut answered, mut never_started, mut late) = (0, 0, 0);
    for round in 0..rounds {
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        let started = Arc::new(AtomicBool::new(false));
        let deadline = Deadline::at(clock.now() + LIMIT);
        let mut go = || start.send(gate.clone()).unwrap();
        let outcome = attempt(&bulkhead, deadline, Arc::clone(&started), &mut go, &mut jitter);
        is_over.recv().unwrap();
        for job in held {
            job.join().unwrap();
        }
        eventually("at rest", || bulkhead.snapshot().running == 0);
        let has_started = started.load(Ordering::SeqCst);
        match outcome {
            Ok(()) => {
                assert!(has_started, "round {round}");
                answered += 1;
            }
            Err(error) => {
                assert_eq!(error.never_started(), !has_started, "round {round}: {error}");
                *if has_started { &mut late } else { &mut never_started } += 1;
            }
        }
    }
    drop(start);
    driver.join().unwrap();
    assert!(answered + late > 0 && never_started > 0, "one side always won: no race");
    let end = bulkhead.snapshot();
    let unstarted = end.totals.ended() - end.totals.returned;
    assert_eq!(end.totals.returned, rounds + answered + late, "{end}");
    assert_eq!(unstarted + end.rejected_in_all(), never_started, "{end}");
    assert_eq!(end.totals.call_limit_running, late, "{end}");
    capacity_is(&bulkhead, 1);
}

fn note(started: Arc<AtomicBool>) -> impl FnOnce(&watertight::Context<'_>) + Send + 'static {
    move |_| started.store(true, Ordering::SeqCst)
}

#[test]
fn c14_the_queue_limit_and_the_start_exclude_each_other() {
    within("c14_the_queue_limit_and_the_start_exclude_each_other", || {
        let limited = Bulkhead::builder("c14").threads(1).queue(1).queue_limit(LIMIT);
        race(5_000, limited.clone(), |bulkhead, _, started, go, _| {
            let job = bulkhead.submit(note(started)).unwrap();
            go();
            job.join()
        });
        race(2_500, limited.no_deadline(), |bulkhead, _, started, go, _| {
            go();
            bulkhead.call(note(started))
        });
    });
}

#[test]
fn c14_the_deadline_and_the_start_exclude_each_other() {
    within("c14_the_deadline_and_the_start_exclude_each_other", || {
        let bulkhead = Bulkhead::builder("c14").threads(1).queue(1);
        race(5_000, bulkhead, |bulkhead, deadline, started, go, _| {
            let job = bulkhead.submit_until(deadline, note(started)).unwrap();
            go();
            job.join()
        });
    });
}

#[test]
fn c14_the_wait_limit_and_the_start_exclude_each_other() {
    within("c14_the_wait_limit_and_the_start_exclude_each_other", || {
        let policy = RejectionPolicy::Wait { at_most: LIMIT, submitters: 1 };
        let bulkhead = Bulkhead::builder("c14").threads(1).queue(0).rejection(policy);
        race(2_500, bulkhead, |bulkhead, _, started, go, _| {
            go();
            bulkhead.submit(note(started))?.join()
        });
    });
}

#[test]
fn c14_cancelling_and_the_start_exclude_each_other() {
    within("c14_cancelling_and_the_start_exclude_each_other", || {
        let bulkhead = Bulkhead::builder("c14").threads(1).queue(1);
        race(5_000, bulkhead, |bulkhead, _, started, go, jitter| {
            let job = bulkhead.submit(note(started)).unwrap();
            go();
            jitter.pause();
            jitter.pause();
            let told_unstarted = job.cancel();
            let outcome = job.join();
            assert_eq!(told_unstarted, outcome.is_err());
            outcome
        });
    });
}

#[test]
fn c52_only_the_injected_clock_counts() {
    within("c52_only_the_injected_clock_counts", || {
        let policy = RejectionPolicy::Wait { at_most: LIMIT, submitters: 9 };
        let (_runtime, bulkhead, clock) = build_with_clock(
            Bulkhead::builder("c52").threads(1).queue(2).queue_limit(LIMIT).rejection(policy),
        );
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        let queued = bulkhead.submit(|_| ()).unwrap();
        let soon = Deadline::at(clock.now() + LIMIT / 2);
        let with_deadline = bulkhead.submit_until(soon, |_| ()).unwrap();
        let waiting = {
            let bulkhead = bulkhead.clone();
            thread::spawn(move || bulkhead.submit(|_| ()).unwrap_err().reason())
        };
        eventually("somebody waits", || bulkhead.snapshot().waiting == 1);
        // The system's time passes all these limits, and nothing comes of it.
        thread::sleep(LIMIT * 4);
        let now = bulkhead.snapshot();
        assert_eq!((now.queued, now.waiting, now.overdue), (2, 1, 0), "{now}");
        assert_eq!(now.oldest_queued, Some(Duration::ZERO));
        assert_eq!(now.saturated_for, Some(Duration::ZERO));
        // One nanosecond short of them still nothing.
        clock.advance((LIMIT / 2).saturating_sub(NANO));
        let now = bulkhead.snapshot();
        assert_eq!((now.queued, now.waiting), (2, 1), "{now}");
        // Then each at its own instant.
        clock.advance(NANO);
        let error = with_deadline.join().unwrap_err();
        assert_eq!(error.time_limit(), Some(TimeLimit::Call));
        eventually("the waiter has its place", || bulkhead.snapshot().waiting == 0);
        clock.advance(LIMIT / 2);
        assert_eq!(queued.join().unwrap_err().rejection(), Some(Rejection::QueueLimit));
        gate.open();
        for job in held {
            job.join().unwrap();
        }
        drop(waiting.join());
    });
}

#[test]
fn c52_joining_follows_the_injected_clock() {
    within("joining", || {
        let clock = Arc::new(ManualClock::new());
        let runtime = Runtime::builder()
            .clock(Arc::clone(&clock))
            .bulkhead(Bulkhead::builder("c52").threads(1))
            .bulkhead(Bulkhead::builder("c52-outer").threads(1))
            .build()
            .unwrap();
        let bulkhead = runtime.bulkhead("c52").unwrap();
        let outer = runtime.bulkhead("c52-outer").unwrap();
        let (gate, over) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
        // One waits for a time, and one for as long as the job that it is in has left.
        let mut held = hold(&bulkhead, &gate, 2);
        let (timed, in_a_job, one, other) =
            (held.remove(0), held.remove(0), Arc::clone(&over), Arc::clone(&over));
        let waiting = thread::spawn(move || {
            let ended = timed.join_timeout(LIMIT).is_ok();
            one.fetch_add(1, Ordering::SeqCst);
            ended
        });
        let deadline = Deadline::at(clock.now() + LIMIT);
        let job = outer.submit_until(deadline, move |_| {
            assert!(in_a_job.join().is_err());
            other.fetch_add(1, Ordering::SeqCst);
        });
        eventually("it runs", || outer.snapshot().running == 1);
        thread::sleep(LIMIT * 4);
        assert_eq!(over.load(Ordering::SeqCst), 0, "the system's time counted");
        eventually("the clock's time counts", || {
            clock.advance(LIMIT);
            over.load(Ordering::SeqCst) == 2
        });
        assert!(!waiting.join().unwrap());
        // Which of the two is first, its own end or its limit, is open.
        drop(job.unwrap().join());
        gate.open();
    });
}

/// Runs at the system's pace, but now and then it seems to have gone back, as a broken one does.
struct StepsBack(Instant, AtomicUsize);

impl Clock for StepsBack {
    fn now(&self) -> Instant {
        let elapsed = self.0.elapsed();
        let back = self.1.fetch_add(1, Ordering::Relaxed) % 3 == 0;
        self.0 + if back { elapsed / 2 } else { elapsed }
    }
}

#[test]
fn c52_a_clock_that_steps_back_breaks_nothing() {
    within("c52_a_clock_that_steps_back_breaks_nothing", || {
        let runtime = Runtime::builder()
            .clock(StepsBack(Instant::now(), AtomicUsize::new(0)))
            .bulkhead(
                Bulkhead::builder("c52").threads(2).queue(2).queue_limit(Duration::from_secs(60)),
            )
            .build()
            .unwrap();
        let bulkhead = runtime.bulkhead("c52").unwrap();
        for _ in 0..500 {
            let deadline = Deadline::after(Duration::from_secs(120));
            bulkhead.call_until(deadline, |ctx| ctx.remaining()).unwrap();
            let _ = bulkhead.snapshot().to_string();
        }
        capacity_is(&bulkhead, 2);
        assert!(runtime.shutdown(Duration::MAX).unwrap().is_clean());
    });
}

#[test]
fn c55_short_limits_behind_long_ones_are_released_in_the_order_of_time() {
    within("c55_short_limits_behind_long_ones_are_released_in_the_order_of_time", || {
        let seconds = Duration::from_secs;
        let (_runtime, bulkhead, clock) =
            build_with_clock(Bulkhead::builder("c55").threads(1).queue(6));
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        let start = clock.now();
        // By arrival; each with the second at which it is due.
        let due = [100, 50, 20, 70, 10, 20];
        let mut jobs: Vec<_> = due
            .iter()
            .map(|at| {
                let deadline = Deadline::at(start + seconds(*at));
                (*at, bulkhead.submit_until(deadline, |_| ()).unwrap())
            })
            .collect();
        for now in [10, 20, 50, 70, 100] {
            assert_eq!(bulkhead.submit(|_| ()).unwrap_err().reason(), Rejection::QueueFull);
            let before = jobs.len();
            clock.advance(start + seconds(now) - clock.now());
            let (past, left): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|(at, _)| *at <= now);
            for (at, job) in past {
                let error = within("a job that is due", move || job.join().unwrap_err());
                assert_eq!(error.rejection(), Some(Rejection::DeadlinePast), "due at {at}");
            }
            assert!(left.iter().all(|(_, job)| !job.is_finished()), "at {now}");
            jobs = left;
            // Its place is free for others, who take it at the end of the line.
            let free = before - jobs.len();
            assert_eq!(bulkhead.snapshot().queued, jobs.len());
            for _ in 0..free {
                jobs.push((1_000, bulkhead.submit(|_| ()).unwrap()));
            }
        }
        gate.open();
        for job in held.into_iter().chain(jobs.into_iter().map(|(_, job)| job)) {
            job.join().unwrap();
        }
    });
}

#[test]
fn c55_waiting_callers_are_released_in_the_order_of_their_limits() {
    within("c55_waiting_callers_are_released_in_the_order_of_their_limits", || {
        let (_runtime, bulkhead, clock) =
            build_with_clock(Bulkhead::builder("c55").threads(1).queue(0).rejection(FOREVER));
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        let start = clock.now();
        let (told, order) = mpsc::channel();
        for at in [100, 50, 20] {
            let before = bulkhead.snapshot().waiting;
            let (caller, told) = (bulkhead.clone(), told.clone());
            thread::spawn(move || {
                let deadline = Deadline::at(start + Duration::from_secs(at));
                let refused = caller.submit_until(deadline, |_| ()).unwrap_err();
                told.send((at, refused.reason())).unwrap();
            });
            eventually("it waits", || bulkhead.snapshot().waiting == before + 1);
        }
        for (at, left) in [(20, 2), (50, 1), (100, 0)] {
            clock.advance(start + Duration::from_secs(at) - clock.now());
            let released = order.recv_timeout(crate::support::WATCHDOG).unwrap();
            assert_eq!(released, (at, Rejection::DeadlinePast));
            assert_eq!(bulkhead.snapshot().waiting, left);
        }
        gate.open();
        for job in held {
            job.join().unwrap();
        }
    });
}

#[test]
fn c55_a_short_limit_set_later_is_not_slept_through() {
    within("c55_a_short_limit_set_later_is_not_slept_through", || {
        // On the system's clock, where the timekeeper sleeps: it must be woken for the nearer limit.
        let (_runtime, bulkhead) = build(Bulkhead::builder("c55").threads(1).queue(2));
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        let long =
            bulkhead.submit_until(Deadline::after(Duration::from_secs(3_600)), |_| ()).unwrap();
        thread::sleep(Duration::from_millis(5));
        let short =
            bulkhead.submit_until(Deadline::after(Duration::from_millis(5)), |_| ()).unwrap();
        let error = within("the short one", move || short.join().unwrap_err());
        assert_eq!(error.rejection(), Some(Rejection::DeadlinePast));
        assert!(!long.is_finished());
        gate.open();
        for job in held {
            job.join().unwrap();
        }
        long.join().unwrap();
    });
}

#[test]
fn c78_callers_start_in_the_order_in_which_they_came() {
    within("c78_callers_start_in_the_order_in_which_they_came", || {
        let (_runtime, bulkhead) =
            build(Bulkhead::builder("c78").threads(1).queue(0).rejection(FOREVER).no_deadline());
        let started = Arc::new(Mutex::new(Vec::new()));
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        let callers: Vec<_> = (0..50)
            .map(|place| {
                let (caller, started) = (bulkhead.clone(), Arc::clone(&started));
                // Half of them wait for the answer, and half only for a place.
                let thread = thread::spawn(move || {
                    let job =
                        move |_: &watertight::Context<'_>| started.lock().unwrap().push(place);
                    if place % 2 == 0 {
                        caller.call(job).unwrap();
                    } else {
                        caller.submit(job).unwrap().join().unwrap();
                    }
                });
                eventually("it waits", || bulkhead.snapshot().waiting == place + 1);
                thread
            })
            .collect();
        // A newcomer who does not wait gets nothing while anybody does.
        assert_eq!(bulkhead.try_submit(|_| ()).unwrap_err().reason(), Rejection::QueueFull);
        gate.open();
        for caller in callers {
            within("a caller", move || caller.join().unwrap());
        }
        drop(held);
        assert_eq!(*started.lock().unwrap(), (0..50).collect::<Vec<_>>());
        capacity_is(&bulkhead, 1);
    });
}

#[test]
fn c78_queued_jobs_start_in_the_order_in_which_they_came() {
    within("c78_queued_jobs_start_in_the_order_in_which_they_came", || {
        let (_runtime, bulkhead) = build(Bulkhead::builder("c78").threads(1).queue(50));
        let started = Arc::new(Mutex::new(Vec::new()));
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        let jobs: Vec<_> = (0..50)
            .map(|place| {
                let started = Arc::clone(&started);
                bulkhead.submit(move |_| started.lock().unwrap().push(place)).unwrap()
            })
            .collect();
        // Those that leave leave no hole and no other order.
        for (place, job) in jobs.iter().enumerate() {
            assert!(place % 5 != 0 || job.cancel());
        }
        gate.open();
        for (place, job) in jobs.into_iter().enumerate() {
            assert_eq!(job.join().is_ok(), place % 5 != 0);
        }
        drop(held);
        let expected: Vec<_> = (0..50).filter(|place| place % 5 != 0).collect();
        assert_eq!(*started.lock().unwrap(), expected);
    });
}
