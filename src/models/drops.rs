//! Captured values whose destructor calls back into the bulkhead, on every way out. Each must catch
//! the closure being dropped under the compartment's lock, or under the job's own, on that way.

use std::time::Duration;

use super::{WAIT, World, explore};
use crate::bulkhead::Bulkhead;
use crate::compartment::RejectionPolicy;
use crate::sync::Time;

/// Calls back when it is dropped: takes the lock twice.
struct CallsBack(Bulkhead);

impl Drop for CallsBack {
    fn drop(&mut self) {
        let _ = self.0.snapshot();
        drop(self.0.try_submit(|_| ()));
    }
}

fn calls_back(world: &World) -> impl FnOnce(&crate::Context<'_>) + Send + 'static {
    let captured = CallsBack(world.bulkhead.clone());
    move |_| drop(captured)
}

#[test]
fn when_it_is_refused() {
    explore(1, Time::Never, || {
        let world = World::new(1, 0, RejectionPolicy::Reject);
        let _held = world.bulkhead.submit(|_| ()).expect("there is room");
        drop(world.bulkhead.submit(calls_back(&world)).expect_err("it is full"));
        drop(world.bulkhead.call(calls_back(&world)).expect_err("it is full"));
        world.close();
    });
}

#[test]
fn when_its_wait_for_a_place_ends() {
    explore(1, Time::AnyMoment, || {
        let world = World::new(1, 0, WAIT);
        let _held = world.bulkhead.submit(|_| ()).expect("there is room");
        let deadline = world.clock.deadline(5);
        drop(world.bulkhead.call_until(deadline, calls_back(&world)).expect_err("it is full"));
        world.close();
    });
}

#[test]
fn when_it_is_cancelled() {
    explore(1, Time::Never, || {
        let world = World::new(1, 1, RejectionPolicy::Reject);
        let _held = world.bulkhead.submit(|_| ()).expect("there is room");
        let handle = world.bulkhead.submit(calls_back(&world)).expect("there is room");
        assert!(handle.cancel());
        drop(handle);
        world.close();
    });
}

#[test]
fn when_it_is_displaced() {
    explore(1, Time::Never, || {
        let world = World::new(1, 1, RejectionPolicy::DropOldest);
        let _held = world.bulkhead.submit(|_| ()).expect("there is room");
        let _oldest = world.bulkhead.submit(calls_back(&world)).expect("there is room");
        let _newest = world.bulkhead.submit(|_| ()).expect("it displaces");
        world.close();
    });
}

#[test]
fn when_it_expires() {
    explore(1, Time::Never, || {
        let limit = Some(Duration::from_millis(5));
        let world = World::with_queue_limit(1, 1, RejectionPolicy::Reject, limit);
        let _held = world.bulkhead.submit(|_| ()).expect("there is room");
        let _queued = world.bulkhead.submit(calls_back(&world)).expect("there is room");
        world.clock.advance(10);
        world.bulkhead.compartment().tick(None);
        world.close();
    });
}

#[test]
fn when_the_runtime_shuts_down() {
    explore(1, Time::Never, || {
        let world = World::new(1, 1, RejectionPolicy::Reject);
        let _held = world.bulkhead.submit(calls_back(&world)).expect("there is room");
        let _queued = world.bulkhead.submit(calls_back(&world)).expect("there is room");
        world.close();
    });
}

#[test]
fn when_it_has_run() {
    explore(6, Time::Never, || {
        let world = World::new(1, 1, RejectionPolicy::Reject);
        let handle = world.bulkhead.submit(calls_back(&world)).expect("there is room");
        let bulkhead = world.bulkhead.clone();
        let worker = loom::thread::spawn(move || super::step(&bulkhead, 0));
        handle.join().expect("it runs");
        assert!(worker.join().expect("the worker ends"));
        world.close();
    });
}
