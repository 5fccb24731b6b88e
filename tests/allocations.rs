//! One allocation for a job, none for a refusal. In a binary of its own, since every allocation of the
//! process is counted.
#![cfg(not(any(watertight_loom, watertight_shuttle)))]

use std::alloc::System;
use std::sync::{Arc, Mutex};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use watertight::{Bulkhead, JobHandle, Runtime};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const JOBS: usize = 1_000;

/// How many allocations one round of `f` makes, on whichever thread: the least of several rounds, since
/// some things are allocated once, by whichever round happens to be first: the queue's ring when the queue
/// is first that long, a thread's notes in `parking_lot` when it first sleeps.
fn allocations(mut f: impl FnMut()) -> usize {
    let round = |_| {
        let region = Region::new(ALLOCATOR);
        f();
        let change = region.change();
        change.allocations + change.reallocations
    };
    (0..8).map(round).min().expect("eight rounds")
}

/// One test, since the counts are the process's.
#[test]
fn a_job_costs_one_allocation_and_a_refusal_none() {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("one").threads(2).queue(64))
        .bulkhead(Bulkhead::builder("full").threads(1).queue(0))
        .build()
        .unwrap();

    let bulkhead = runtime.bulkhead("one").unwrap();
    let calling = allocations(|| {
        for number in 0..JOBS {
            assert_eq!(bulkhead.call(move |_| number).unwrap(), number);
        }
    });

    let mut handles: Vec<JobHandle<usize>> = Vec::with_capacity(64);
    let submitting = allocations(|| {
        for _ in 0..JOBS / 50 {
            handles.extend((0..50).map(|number| bulkhead.submit(move |_| number).unwrap()));
            for (number, handle) in handles.drain(..).enumerate() {
                assert_eq!(handle.join().unwrap(), number);
            }
        }
    });

    let full = runtime.bulkhead("full").unwrap();
    // A gate that allocates nothing when a thread comes to wait at it, as a channel does.
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap();
    let waits = Arc::clone(&gate);
    let held = full.submit(move |_| drop(waits.lock().unwrap())).unwrap();
    let refusing = allocations(|| {
        for number in 0..JOBS {
            assert!(full.submit(move |_| number).is_err());
            assert!(full.try_submit(move |_| number).is_err());
            assert!(full.call(move |_| number).is_err());
        }
    });
    drop(closed);
    held.join().unwrap();

    assert_eq!(refusing, 0, "allocations for {} refusals", 3 * JOBS);
    assert_eq!(calling, JOBS, "allocations for {JOBS} calls");
    assert_eq!(submitting, JOBS, "allocations for {JOBS} submitted jobs");
}
