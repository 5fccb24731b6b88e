//! Workers: being woken, capacity, panics, and two compartments side by side.

use super::{WAIT, World, explore, explore_shallow, step, worker};
use crate::compartment::RejectionPolicy;
use crate::error::{CallError, Rejection};
use crate::sync::Time;

/// Must catch: `give_slot` that does not count a wake-up although a worker sleeps, or a worker that
/// sleeps without being counted.
#[test]
fn a_sleeping_worker_is_woken_for_a_job() {
    explore(61, Time::Never, || {
        let world = World::new(1, 1, RejectionPolicy::Reject);
        let thread = worker(&world.bulkhead, 0);
        assert!(matches!(world.bulkhead.call(|_| 7), Ok(7)));
        world.drain();
        thread.join().expect("the worker ends");
    });
}

/// Must catch: `drain` that wakes one worker instead of all, and a wake-up that is taken by a worker
/// that it was not counted for.
#[test]
fn two_workers_share_two_jobs_and_both_leave() {
    explore(19293, Time::Never, || {
        let world = World::new(2, 2, RejectionPolicy::Reject);
        let threads = [worker(&world.bulkhead, 0), worker(&world.bulkhead, 1)];
        let one = world.bulkhead.submit(|_| 1).expect("there is room");
        let two = world.bulkhead.submit(|_| 2).expect("there is room");
        assert!(matches!((one.join(), two.join()), (Ok(1), Ok(2))));
        world.drain();
        for thread in threads {
            thread.join().expect("the worker ends");
        }
    });
}

/// Must catch: `take` that leaves a job behind while its worker was the only one to know of it. The
/// first job ends after the second, so each needs a worker of its own, quick or not.
#[test]
fn a_worker_that_leaves_a_job_behind_wakes_the_next() {
    explore_shallow(3_000, Time::Never, || {
        let world = World::new(2, 0, RejectionPolicy::Reject);
        world.bulkhead.compartment().assume_quick_jobs();
        let threads = [worker(&world.bulkhead, 0), worker(&world.bulkhead, 1)];
        let second_has_run = loom::sync::Arc::new(loom::sync::Notify::new());
        let tell = loom::sync::Arc::clone(&second_has_run);
        let one = world.bulkhead.submit(move |_| second_has_run.wait()).expect("there is room");
        let two = world.bulkhead.submit(move |_| tell.notify()).expect("there is room");
        assert!(one.join().is_ok() && two.join().is_ok());
        world.drain();
        for thread in threads {
            thread.join().expect("the worker ends");
        }
    });
}

/// Must catch: `admit` whose capacity is checked under another lock than it is taken under.
#[test]
fn two_submitters_never_share_one_place() {
    explore(7, Time::Never, || {
        let world = World::new(1, 0, RejectionPolicy::Reject);
        let bulkhead = world.bulkhead.clone();
        let other = loom::thread::spawn(move || bulkhead.try_submit(|_| ()).is_ok());
        let mine = world.bulkhead.try_submit(|_| ()).is_ok();
        let theirs = other.join().expect("the submitter ends");
        assert!(mine != theirs, "one place, and {mine} {theirs}");
        world.close();
    });
}

/// Must catch: `run` that publishes the answer before it releases the slot.
#[test]
fn a_caller_that_has_its_answer_can_submit_again() {
    explore(6, Time::Never, || {
        let world = World::new(1, 0, RejectionPolicy::Reject);
        let handle = world.bulkhead.submit(|_| ()).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let thread = loom::thread::spawn(move || assert!(step(&bulkhead, 0)));
        handle.join().expect("it runs");
        let again = world.bulkhead.try_submit(|_| ());
        assert!(again.is_ok(), "{again:?}");
        thread.join().expect("the worker ends");
        world.close();
    });
}

/// Must catch: `JobCell::run` without `catch_unwind`, and a slot that a panic keeps.
#[test]
fn a_panic_costs_neither_thread_nor_slot() {
    explore(355, Time::Never, || {
        let world = World::new(1, 0, RejectionPolicy::Reject);
        let thread = worker(&world.bulkhead, 0);
        let panicked = world.bulkhead.call(|_| std::panic::resume_unwind(Box::new("on purpose")));
        let panicked: Result<(), _> = panicked;
        assert!(matches!(panicked, Err(CallError::Panicked(_))));
        assert!(matches!(world.bulkhead.call(|_| 7), Ok(7)));
        world.drain();
        thread.join().expect("the worker ends");
    });
}

/// Must catch: one count of slots for both compartments.
#[test]
fn a_full_bulkhead_neither_takes_from_its_neighbour_nor_lends_to_it() {
    explore(8, Time::Never, || {
        let full = World::new(1, 0, RejectionPolicy::Reject);
        let free = World::new(1, 0, RejectionPolicy::Reject);
        let held = full.bulkhead.submit(|_| ()).expect("there is room");
        let bulkhead = free.bulkhead.clone();
        let worker = loom::thread::spawn(move || {
            step(&bulkhead, 0);
        });
        let refused = full.bulkhead.try_submit(|_| ()).expect_err("it is full");
        assert_eq!(refused.reason(), Rejection::QueueFull);
        let theirs = free.bulkhead.try_submit(|_| 7).expect("its slot is free");
        worker.join().expect("the worker ends");
        free.step();
        assert!(matches!(theirs.join(), Ok(7)));
        assert!(full.step());
        held.join().expect("it runs");
    });
}

/// Must catch: `withdraw` that ends a job which a worker has taken.
#[test]
fn a_cancelled_job_does_not_run_and_a_running_one_is_not_cancelled() {
    explore(5, Time::Never, || {
        let world = World::new(1, 0, RejectionPolicy::Reject);
        let handle = world.bulkhead.submit(|_| 7).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let worker = loom::thread::spawn(move || step(&bulkhead, 0));
        let cancelled = handle.cancel();
        let ran = worker.join().expect("the worker ends");
        assert!(cancelled != ran, "cancelled {cancelled}, ran {ran}");
        match handle.join() {
            Ok(7) => assert!(ran),
            Err(error) => {
                assert!(cancelled);
                assert_eq!(error.rejection(), Some(Rejection::Cancelled));
            }
            Ok(other) => panic!("{other}"),
        }
        // The slot is free either way.
        assert!(world.bulkhead.try_submit(|_| ()).is_ok());
        world.close();
    });
}

/// Must catch: a worker that joins a job queued behind itself, and hangs (`break_ring` left out).
#[test]
fn a_job_that_joins_one_queued_behind_it_is_told() {
    explore(6, Time::Never, || {
        let world = World::new(1, 2, WAIT);
        let bulkhead = world.bulkhead.clone();
        let outer = world.bulkhead.submit(move |_| {
            let by_call = bulkhead.call(|_| ()).map_err(|error| error.rejection());
            assert_eq!(by_call, Err(Some(Rejection::WouldDeadlock)));
            let child = bulkhead.submit(|_| ()).expect("it may queue");
            child.join().map_err(|error| error.rejection())
        });
        let outer = outer.expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let worker = loom::thread::spawn(move || assert!(step(&bulkhead, 0)));
        assert!(matches!(outer.join(), Ok(Err(Some(Rejection::WouldDeadlock)))));
        worker.join().expect("the worker ends");
    });
}

/// Must catch: `AbortGuard` whose drop does not wait for a hook that is acting, so that what the
/// hook breaks is another job's by then.
#[test]
fn an_abort_never_acts_when_its_guard_is_gone() {
    explore(10, Time::Never, || {
        let world = World::new(1, 0, RejectionPolicy::Reject);
        let gone = loom::sync::Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let seen = loom::sync::Arc::clone(&gone);
        let handle = world.bulkhead.submit(move |ctx| {
            let watched = loom::sync::Arc::clone(&gone);
            let act = move || assert!(!watched.load(std::sync::atomic::Ordering::SeqCst));
            drop(ctx.on_abort(act));
            gone.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let handle = handle.expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let worker = loom::thread::spawn(move || step(&bulkhead, 0));
        handle.cancel();
        worker.join().expect("the worker ends");
        drop(handle);
        drop(seen);
        // A hook's panic is caught, so it is looked for here.
        assert_eq!(world.bulkhead.snapshot().hook_panics, 0, "it acted too late");
        world.close();
    });
}
