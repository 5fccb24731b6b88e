//! Closing while others submit, wait and work.

use super::{WAIT, World, explore, explore_shallow, worker};
use crate::bulkhead::Bulkhead;
use crate::compartment::RejectionPolicy;
use crate::error::Rejection;
use crate::runtime::Runtime;
use crate::sync::Time;

/// Must catch: `admit` that does not look at the phase, so that a job is let in after the last one
/// has been ended.
#[test]
fn a_submit_racing_close_is_refused_or_ended() {
    explore(16, Time::Never, || {
        let world = World::new(1, 1, RejectionPolicy::Reject);
        let bulkhead = world.bulkhead.clone();
        let submitter = loom::thread::spawn(move || match bulkhead.submit(|_| ()) {
            Ok(handle) => handle.join().map_err(|error| error.rejection()),
            Err(rejected) => Err(Some(rejected.reason())),
        });
        world.bulkhead.compartment().drain();
        world.bulkhead.compartment().end_unstarted();
        let ended = submitter.join().expect("the submitter ends");
        assert_eq!(ended, Err(Some(Rejection::ShuttingDown)));
        world.close();
    });
}

/// Must catch: a worker that leaves at closing before it has looked for jobs.
#[test]
fn draining_runs_what_was_accepted() {
    explore(12, Time::Never, || {
        let world = World::new(1, 2, RejectionPolicy::Reject);
        let one = world.bulkhead.submit(|_| 1).expect("there is room");
        let two = world.bulkhead.submit(|_| 2).expect("there is room");
        let thread = worker(&world.bulkhead, 0);
        world.drain();
        thread.join().expect("the worker ends");
        assert!(one.is_finished() && two.is_finished());
        assert!(matches!((one.join(), two.join()), (Ok(1), Ok(2))));
    });
}

/// Must catch: `drain` that forgets the waiting callers.
#[test]
fn closing_sends_waiting_callers_away() {
    explore(10, Time::Never, || {
        let world = World::new(1, 0, WAIT);
        let _held = world.bulkhead.submit(|_| ()).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let waiter = loom::thread::spawn(move || bulkhead.submit(|_| ()).map(|_| ()));
        world.drain();
        let refused = waiter.join().expect("the waiter ends").expect_err("it was sent away");
        assert_eq!(refused.reason(), Rejection::ShuttingDown);
        world.close();
    });
}

/// Must catch: the timekeeper that leaves while a job runs, or never (`note_end` left out).
#[test]
fn the_timekeeper_leaves_with_the_last_job() {
    explore(68, Time::Never, || {
        let world = World::new(1, 1, RejectionPolicy::Reject);
        let bulkhead = world.bulkhead.clone();
        let timekeeper = loom::thread::spawn(move || bulkhead.compartment().keep_time());
        let handle = world.bulkhead.submit(|_| 7).expect("there is room");
        world.drain();
        assert!(world.step());
        timekeeper.join().expect("the timekeeper ends");
        assert!(matches!(handle.join(), Ok(7)));
    });
}

/// Must catch: a `Drop` of the runtime that does not close it, so that its threads wait for ever.
#[test]
fn dropping_the_runtime_ends_its_threads() {
    explore_shallow(3000, Time::Never, || {
        let runtime = Runtime::builder().bulkhead(Bulkhead::builder("model").threads(1)).build();
        drop(runtime.expect("it is a plain description"));
    });
}
