//! One allocation for a job, none for a refusal. In a binary of its own, since every allocation of the
//! process is counted.
#![cfg(not(any(watertight_loom, watertight_shuttle)))]

use std::alloc::System;
use std::sync::mpsc;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use watertight::{Bulkhead, JobHandle, Runtime};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const JOBS: usize = 1_000;

/// How many allocations `f` makes, on whichever thread.
fn allocations(f: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    f();
    let change = region.change();
    change.allocations + change.reallocations
}

/// One test, since the counts are the process's.
#[test]
fn a_job_costs_one_allocation_and_a_refusal_none() {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("one").threads(2).queue(64))
        .bulkhead(Bulkhead::builder("full").threads(1).queue(0))
        .build()
        .unwrap();

    // What grows on first use has grown by then: the queue's ring, the threads' own notes.
    let bulkhead = runtime.bulkhead("one").unwrap();
    let calls = || {
        for number in 0..JOBS {
            assert_eq!(bulkhead.call(move |_| number).unwrap(), number);
        }
    };
    calls();
    let calling = allocations(calls);

    let mut handles: Vec<JobHandle<usize>> = Vec::with_capacity(64);
    let mut submits = || {
        for _ in 0..JOBS / 50 {
            handles.extend((0..50).map(|number| bulkhead.submit(move |_| number).unwrap()));
            for (number, handle) in handles.drain(..).enumerate() {
                assert_eq!(handle.join().unwrap(), number);
            }
        }
    };
    submits();
    let submitting = allocations(submits);

    let full = runtime.bulkhead("full").unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let held = full.submit(move |_| gate.recv()).unwrap();
    let refusals = || {
        for number in 0..JOBS {
            assert!(full.submit(move |_| number).is_err());
            assert!(full.try_submit(move |_| number).is_err());
            assert!(full.call(move |_| number).is_err());
        }
    };
    refusals();
    let refusing = allocations(refusals);
    drop(open);
    assert!(held.join().unwrap().is_err());

    assert_eq!(refusing, 0, "allocations for {} refusals", 3 * JOBS);
    assert_eq!(calling, JOBS, "allocations for {JOBS} calls");
    assert_eq!(submitting, JOBS, "allocations for {JOBS} submitted jobs");
}
