//! Waiting for a place: order, hand-off, leaving.

use super::{WAIT, World, explore, step, worker};
use crate::compartment::RejectionPolicy;
use crate::error::Rejection;
use crate::sync::Time;

/// Must catch: `fill` that frees the place instead of handing it to the waiter (barging).
#[test]
fn a_newcomer_never_overtakes_a_waiter() {
    explore(165, Time::Never, || {
        let world = World::new(1, 0, WAIT);
        let held = world.bulkhead.submit(|_| ()).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let waiter =
            loom::thread::spawn(move || bulkhead.submit(|_| ()).map(|handle| handle.cancel()));
        let somebody_waits = world.bulkhead.snapshot().waiting == 1;
        assert!(world.step());
        held.join().expect("it runs");
        let newcomer = world.bulkhead.try_submit(|_| ());
        if somebody_waits {
            // Its place is the waiter's, unless the waiter has had it and given it back.
            let gone = world.bulkhead.snapshot().totals.not_started(Rejection::Cancelled) == 1;
            assert!(newcomer.is_err() || gone);
        }
        if let Ok(handle) = newcomer {
            handle.cancel();
        }
        waiter.join().expect("the waiter ends").expect("it gets its place");
    });
}

/// Must catch: a grant without `Slot::grant`, and a worker that forgets to `fill`.
#[test]
fn two_blocked_callers_are_both_served() {
    explore(10970, Time::Never, || {
        let world = World::new(1, 0, WAIT);
        let thread = worker(&world.bulkhead, 0);
        let bulkhead = world.bulkhead.clone();
        let other = loom::thread::spawn(move || bulkhead.call(|_| 1));
        assert!(matches!(world.bulkhead.call(|_| 2), Ok(2)));
        assert!(matches!(other.join().expect("the caller ends"), Ok(1)));
        world.drain();
        thread.join().expect("the worker ends");
    });
}

/// Must catch: a waiter that times out and stays in line, so that the next place goes to it.
#[test]
fn a_waiter_that_times_out_passes_its_turn_on() {
    explore(2622, Time::AnyMoment, || {
        let world = World::new(1, 0, WAIT);
        let held = world.bulkhead.submit(|_| ()).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let patient = loom::thread::spawn(move || bulkhead.submit(|_| 1).expect("it waits"));
        let deadline = world.clock.deadline(5);
        let bulkhead = world.bulkhead.clone();
        let hasty = loom::thread::spawn(move || {
            // Its limit falls anywhere: before it has a place, or while it is queued.
            let _ = bulkhead.submit_until(deadline, |_| 2).map(|handle| handle.cancel());
        });
        assert!(world.step());
        held.join().expect("it runs");
        hasty.join().expect("the hasty one ends");
        let patient = patient.join().expect("the patient one has its place");
        assert!(world.step());
        assert!(matches!(patient.join(), Ok(1)));
        assert_eq!(world.bulkhead.snapshot().running, 0);
    });
}

/// Must catch: `withdraw` without `fill`.
#[test]
fn a_cancelled_job_s_place_goes_to_the_waiter() {
    explore(10, Time::Never, || {
        let world = World::new(1, 1, WAIT);
        let _held = world.bulkhead.submit(|_| ()).expect("there is room");
        let queued = world.bulkhead.submit(|_| ()).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let waiter = loom::thread::spawn(move || bulkhead.submit(|_| ()).is_ok());
        assert!(queued.cancel());
        assert!(waiter.join().expect("the waiter ends"));
        world.close();
    });
}

/// Must catch: `Admission::Accepted` under `DropOldest` without ending the displaced job, and a
/// displaced job's place that is given to two.
#[test]
fn a_displaced_job_s_caller_is_told() {
    explore(3, Time::Never, || {
        let world = World::new(1, 1, RejectionPolicy::DropOldest);
        let _held = world.bulkhead.submit(|_| ()).expect("there is room");
        let oldest = world.bulkhead.submit(|_| ()).expect("there is room");
        let caller = loom::thread::spawn(move || oldest.join());
        let newest = world.bulkhead.submit(|_| ()).expect("it displaces");
        let _newer = world.bulkhead.submit(|_| ()).expect("it displaces that");
        assert!(newest.is_finished(), "there was one place");
        let told = caller.join().expect("the caller ends").expect_err("it was displaced");
        assert_eq!(told.rejection(), Some(Rejection::Displaced));
        world.close();
    });
}

/// Must catch: `poll_at_door` that stores its waker after it has looked.
#[test]
fn a_thread_and_a_future_waiting_for_one_place_both_get_it() {
    explore(2785, Time::Never, || {
        let world = World::new(1, 0, WAIT);
        let held = world.bulkhead.submit(|_| ()).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let thread =
            loom::thread::spawn(move || bulkhead.submit(|_| ()).map(|handle| handle.cancel()));
        let bulkhead = world.bulkhead.clone();
        let future = loom::thread::spawn(move || {
            loom::future::block_on(bulkhead.submit_async(|_| ())).map(|handle| handle.cancel())
        });
        assert!(held.cancel());
        thread.join().expect("the thread ends").expect("it gets its place");
        future.join().expect("the future ends").expect("it gets its place");
        assert_eq!(world.bulkhead.snapshot().queued, 0);
    });
}

/// Must catch: a dropped future that stays in line.
#[test]
fn a_future_dropped_in_line_passes_its_turn_on() {
    explore(1262, Time::Never, || {
        let world = World::new(1, 0, WAIT);
        let held = world.bulkhead.submit(|_| ()).expect("there is room");
        let mut future = Box::pin(world.bulkhead.submit_async(|_| ()));
        let waker = std::task::Waker::noop();
        let polled = future.as_mut().poll(&mut std::task::Context::from_waker(waker));
        assert!(polled.is_pending());
        let bulkhead = world.bulkhead.clone();
        let waiter = loom::thread::spawn(move || bulkhead.submit(|_| ()).is_ok());
        let bulkhead = world.bulkhead.clone();
        let worker = loom::thread::spawn(move || step(&bulkhead, 0));
        drop(future);
        worker.join().expect("the worker ends");
        held.join().expect("it ran");
        assert!(waiter.join().expect("the waiter ends"));
        world.close();
        assert_eq!(world.bulkhead.snapshot().waiting, 0);
    });
}

use std::future::Future;
