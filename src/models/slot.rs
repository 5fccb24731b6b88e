//! The meeting of one worker and one caller.

use super::{Drops, World, explore, step, worker};
use crate::compartment::RejectionPolicy;
use crate::error::CallError;
use crate::sync::Time;

/// Must catch: `Slot::publish` without `notify`.
#[test]
fn a_joining_thread_is_woken_with_the_answer() {
    explore(6, Time::Never, || {
        let world = World::new(1, 0, RejectionPolicy::Reject);
        let handle = world.bulkhead.submit(|_| 7).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let worker = loom::thread::spawn(move || assert!(step(&bulkhead, 0)));
        assert!(matches!(handle.join(), Ok(7)));
        worker.join().expect("the worker ends");
    });
}

/// Must catch: `Slot::wait` that returns `TimedOut` although the answer is settled, or `publish`
/// that drops the answer of a caller who came back.
#[test]
fn a_join_that_times_out_loses_no_answer() {
    for time in [Time::AnyMoment, Time::Never] {
        explore(6, time, || {
            let world = World::new(1, 0, RejectionPolicy::Reject);
            let handle = world.bulkhead.submit(|_| 7).expect("there is room");
            let bulkhead = world.bulkhead.clone();
            let worker = loom::thread::spawn(move || assert!(step(&bulkhead, 0)));
            let answer = match handle.join_timeout(std::time::Duration::from_millis(1)) {
                Ok(answer) => answer,
                Err(handle) => handle.join(),
            };
            assert!(matches!(answer, Ok(7)));
            worker.join().expect("the worker ends");
        });
    }
}

/// Must catch: `Slot::poll` that looks at the phase, unlocks, and then stores the waker.
#[test]
fn a_future_is_woken_with_the_answer() {
    explore(36, Time::Never, || {
        let world = World::new(1, 0, RejectionPolicy::Reject);
        let handle = world.bulkhead.submit(|_| 7).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let worker = loom::thread::spawn(move || assert!(step(&bulkhead, 0)));
        assert!(matches!(loom::future::block_on(handle), Ok(7)));
        worker.join().expect("the worker ends");
    });
}

/// Must catch: `Slot::settle` that keeps the answer of a caller who has left, and `Slot::leave` that
/// does not wait for an answer that is settled.
#[test]
fn a_caller_leaves_or_receives_never_both() {
    for time in [Time::AnyMoment, Time::Never] {
        explore(76, time, || {
            let world = World::new(1, 0, RejectionPolicy::Reject);
            let drops = Drops::default();
            let witness = drops.witness(&world);
            let thread = worker(&world.bulkhead, 0);
            let answer = world.bulkhead.call_until(world.clock.deadline(5), move |_| Some(witness));
            match answer {
                Ok(value) => {
                    assert_eq!(drops.count(), 0);
                    drop(value);
                }
                Err(CallError::TimedOut(_)) => {}
                Err(other) => assert!(other.never_started(), "{other:?}"),
            }
            world.drain();
            thread.join().expect("the worker ends");
            assert_eq!((drops.count(), drops.late()), (1, 0), "dropped, and dropped late");
        });
    }
}

/// Must catch: `Slot::detach` that leaves the phase `Pending`, so that the result stays in the cell.
#[test]
fn a_detached_job_s_value_is_dropped_once() {
    explore(5, Time::Never, || {
        let world = World::new(1, 0, RejectionPolicy::Reject);
        let drops = Drops::default();
        let witness = drops.witness(&world);
        let handle = world.bulkhead.submit(move |_| witness).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let worker = loom::thread::spawn(move || assert!(step(&bulkhead, 0)));
        drop(handle);
        worker.join().expect("the worker ends");
        assert_eq!((drops.count(), drops.late()), (1, 0), "dropped, and dropped late");
    });
}
