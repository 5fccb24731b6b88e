//! The timekeeper against workers and callers.

use std::time::Duration;

use super::{WAIT, World, explore, step};
use crate::compartment::RejectionPolicy;
use crate::error::{CallError, Rejection};
use crate::sync::Time;

/// Lets the other threads run before the clock moves, which loom does not see.
fn pause(world: &World) {
    let _ = world.bulkhead.snapshot();
}

/// Must catch: `expire` that ends a job which a worker has taken, or tells its caller twice.
#[test]
fn a_limit_racing_the_start_has_one_outcome() {
    explore(4, Time::Never, || {
        let world = World::new(1, 0, RejectionPolicy::Reject);
        let deadline = world.clock.deadline(5);
        let handle = world.bulkhead.submit_until(deadline, |_| 7).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let worker = loom::thread::spawn(move || step(&bulkhead, 0));
        pause(&world);
        world.clock.advance(10);
        world.bulkhead.compartment().tick(None);
        let ran = worker.join().expect("the worker ends");
        match handle.join() {
            Ok(7) | Err(CallError::TimedOut(_)) => assert!(ran),
            Err(CallError::NotStarted(why)) => {
                assert!(!ran);
                assert_eq!(why.reason(), Rejection::DeadlinePast);
            }
            other => panic!("{other:?}"),
        }
        assert!(world.bulkhead.try_submit(|_| ()).is_ok(), "the slot is free");
        world.close();
    });
}

/// Must catch: an expired job that keeps its place (`expire` without `fill`).
#[test]
fn an_expired_job_s_place_goes_to_the_waiter() {
    explore(7, Time::Never, || {
        let limit = Some(Duration::from_millis(5));
        let world = World::with_queue_limit(1, 1, WAIT, limit);
        let _held = world.bulkhead.submit(|_| ()).expect("there is room");
        let queued = world.bulkhead.submit(|_| ()).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let waiter = loom::thread::spawn(move || bulkhead.submit(|_| ()).is_ok());
        pause(&world);
        world.clock.advance(10);
        world.bulkhead.compartment().tick(None);
        assert!(waiter.join().expect("the waiter ends"));
        let why = queued.join().expect_err("it expired").rejection();
        assert_eq!(why, Some(Rejection::QueueLimit));
        world.close();
    });
}

/// Must catch: a caller that wakes at its limit and takes a job that somebody has just ended unstarted
/// for one that runs.
#[test]
fn a_caller_whose_queued_job_ends_at_its_limit_hears_that_it_never_started() {
    explore(20, Time::AnyMoment, || {
        let world = World::new(1, 1, RejectionPolicy::Reject);
        let held = world.bulkhead.submit(|_| ()).expect("there is room");
        let (bulkhead, deadline) = (world.bulkhead.clone(), world.clock.deadline(5));
        let caller = loom::thread::spawn(move || bulkhead.call_until(deadline, |_| ()));
        pause(&world);
        world.clock.advance(10);
        world.bulkhead.compartment().tick(None);
        let error = caller.join().expect("the caller ends").expect_err("nobody ran it");
        assert_eq!(error.rejection(), Some(Rejection::DeadlinePast), "{error}");
        assert_eq!(world.bulkhead.snapshot().totals.call_limit_running, 0);
        assert!(held.cancel());
        world.close();
    });
}

/// Must catch: an alarm set without waking the timekeeper (`wake_timekeeper` left out).
#[test]
fn a_new_limit_wakes_the_timekeeper() {
    explore(4, Time::AnyMoment, || {
        let world = World::new(1, 1, RejectionPolicy::Reject);
        let bulkhead = world.bulkhead.clone();
        let timekeeper = loom::thread::spawn(move || {
            bulkhead.compartment().tick(None);
            // It sleeps for good, or until the limit, and in either case is done with it.
            bulkhead.compartment().sleep_until_next_limit();
        });
        let deadline = world.clock.deadline(5);
        let _job = world.bulkhead.submit_until(deadline, |_| ()).expect("there is room");
        timekeeper.join().expect("the timekeeper wakes up");
        world.close();
    });
}

/// Must catch: a slot that is free as soon as the caller's time has passed.
#[test]
fn an_overdue_job_keeps_its_slot() {
    explore(4, Time::Never, || {
        let world = World::new(1, 0, RejectionPolicy::Reject);
        let bulkhead = world.bulkhead.clone();
        let clock = crate::sync::Arc::clone(&world.clock);
        let inner = move |_: &crate::Context<'_>| {
            // The call's time passes while it runs, and somebody notices.
            clock.advance(10);
            bulkhead.compartment().tick(None);
            bulkhead.try_submit(|_| ()).is_err()
        };
        let (told, full) = std::sync::mpsc::channel();
        let deadline = world.clock.deadline(5);
        let job = world.bulkhead.submit_until(deadline, move |ctx| told.send(inner(ctx)));
        let job = job.expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let worker = loom::thread::spawn(move || assert!(step(&bulkhead, 0)));
        assert!(matches!(job.join(), Err(CallError::TimedOut(_))));
        worker.join().expect("the worker ends");
        assert_eq!(full.recv(), Ok(true), "the slot is taken until the closure returns");
        assert!(world.bulkhead.try_submit(|_| ()).is_ok());
        world.close();
    });
}

/// Must catch: a request to look that is taken back by a tick which has read the clock before it
/// (`locked.tick = false` in `tick`).
#[test]
fn a_clock_that_moves_during_a_tick_is_looked_at_again() {
    explore(50, Time::Never, || {
        let world = World::new(1, 1, RejectionPolicy::Reject);
        let held = world.bulkhead.submit(|_| ()).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let timekeeper = loom::thread::spawn(move || bulkhead.compartment().keep_time());
        let deadline = world.clock.deadline(5);
        let queued = world.bulkhead.submit_until(deadline, |_| ()).expect("there is room");
        pause(&world);
        world.clock.advance(10);
        world.bulkhead.compartment().clock_moved();
        let why = queued.join().expect_err("its time passed").rejection();
        assert_eq!(why, Some(Rejection::DeadlinePast));
        assert!(held.cancel());
        world.drain();
        timekeeper.join().expect("the timekeeper ends");
    });
}
