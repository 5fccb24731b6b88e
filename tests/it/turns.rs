//! Whose turn it is, and when a limit is due: one outcome for each job, in the order of arrival and
//! of time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use watertight::{
    Bulkhead, BulkheadBuilder, Clock, Deadline, JobHandle, ManualClock, Rejection, RejectionPolicy,
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
    let (_runtime, bulkhead) = build(Bulkhead::builder("c09").threads(1).queue(2));
    let here = thread::current().id();
    let ran_on = Arc::new(Mutex::new(Vec::new()));
    let gate = Gate::new();
    let mut held = hold(&bulkhead, &gate, 3);
    gate.wait_for(1);

    let (inner, note) = (bulkhead.clone(), Arc::clone(&ran_on));
    let refused = bulkhead
        .submit(move |_: &watertight::Context<'_>| {
            note.lock().unwrap().push(thread::current().id());
            inner
        })
        .unwrap_err();
    assert_eq!(refused.reason(), Rejection::QueueFull);
    let elsewhere = {
        let (bulkhead, gate, ran_on) = (bulkhead.clone(), gate.clone(), Arc::clone(&ran_on));
        move || {
            assert_eq!(bulkhead.snapshot().queued, 2);
            // The worker takes what is queued, and others come, leave and look, meanwhile.
            gate.open();
            eventually("the worker keeps taking", || bulkhead.snapshot().totals.returned == 3);
            for _ in 0..4 {
                let note = Arc::clone(&ran_on);
                bulkhead.call(move |_| note.lock().unwrap().push(thread::current().id())).unwrap();
            }
            let gate = Gate::new();
            let held = hold(&bulkhead, &gate, 1);
            gate.wait_for(1);
            assert!(bulkhead.submit(|_| ()).unwrap().cancel());
            gate.open();
            for job in held {
                job.join().unwrap();
            }
            bulkhead.snapshot()
        }
    };
    // The caller's own run of the closure lasts until all of that has been done by others.
    let closure = refused.into_job();
    let worked = within("the others", elsewhere);
    assert_eq!((worked.running, worked.queued), (0, 0), "{worked}");
    held.drain(..).for_each(|job| job.join().unwrap());
    let (runtime, context) = build(Bulkhead::builder("c09-lend").threads(1));
    drop((runtime, context, closure));
    let by_others = ran_on.lock().unwrap().clone();
    assert_eq!(by_others.len(), 4);
    assert!(by_others.iter().all(|id| *id != here));
    capacity_is(&bulkhead, 1);
}
