//! The first steps of a user.

use std::sync::Arc;
use std::time::Duration;

use watertight::{Batch, Bulkhead, CallError, ManualClock, Rejection, RejectionPolicy, Runtime};

use crate::support::{Gate, within};

#[test]
fn a_call_returns_its_closure_s_value() {
    let runtime = Runtime::builder().bulkhead(Bulkhead::builder("a").threads(2)).build().unwrap();
    let a = runtime.bulkhead("a").unwrap();
    assert_eq!(a.call(|_| 1 + 1).unwrap(), 2);
    assert_eq!(a.submit(|ctx| ctx.bulkhead().to_owned()).unwrap().join().unwrap(), "a");
}

#[test]
fn from_rest_exactly_threads_plus_queue_are_accepted() {
    for (threads, queue) in [(1, 0), (2, 0), (1, 1), (4, 3)] {
        let runtime = Runtime::builder()
            .bulkhead(Bulkhead::builder("a").threads(threads).queue(queue))
            .build()
            .unwrap();
        let a = runtime.bulkhead("a").unwrap();
        for _ in 0..200 {
            let gate = Gate::new();
            let handles: Vec<_> = (0..threads + queue)
                .map(|_| {
                    let gate = gate.clone();
                    a.submit(move |_| gate.pass()).expect("there is room")
                })
                .collect();
            let refused = a.try_submit(|_| ()).unwrap_err();
            assert_eq!(refused.reason(), Rejection::QueueFull);
            gate.wait_for(threads);
            gate.open();
            for handle in handles {
                handle.join().unwrap();
            }
        }
    }
}

#[test]
fn a_caller_whose_time_passes_leaves_and_its_thread_stays_taken() {
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("a").threads(1).queue(0))
        .build()
        .unwrap();
    let a = runtime.bulkhead("a").unwrap();
    let gate = Gate::new();
    let (inner, caller) = (gate.clone(), a.clone());
    let call = std::thread::spawn(move || caller.call(move |_| inner.pass()));
    gate.wait_for(1);
    clock.advance(Duration::from_secs(2));
    let late = within("the caller", move || call.join().unwrap());
    assert!(matches!(late, Err(CallError::TimedOut(_))), "{late:?}");
    let snapshot = a.snapshot();
    assert_eq!((snapshot.running, snapshot.overdue), (1, 1));
    assert_eq!(a.call(|_| ()).unwrap_err().rejection(), Some(Rejection::QueueFull));
    gate.open();
    within("the slot comes back", move || while a.call(|_| ()).is_err() {});
}

#[test]
fn a_waiting_submitter_gets_the_next_place() {
    let runtime = Runtime::builder()
        .bulkhead(
            Bulkhead::builder("a")
                .threads(1)
                .queue(0)
                .rejection(RejectionPolicy::Wait { at_most: Duration::MAX, submitters: 1 }),
        )
        .build()
        .unwrap();
    let a = runtime.bulkhead("a").unwrap();
    let gate = Gate::new();
    let inner = gate.clone();
    let first = a.submit(move |_| inner.pass()).unwrap();
    gate.wait_for(1);
    let b = a.clone();
    let waiter = std::thread::spawn(move || b.call(|_| 7).unwrap());
    crate::support::eventually("somebody waits", || a.snapshot().waiting == 1);
    assert_eq!(a.call(|_| ()).unwrap_err().rejection(), Some(Rejection::TooManyWaiting));
    gate.open();
    first.join().unwrap();
    assert_eq!(within("the waiter is served", move || waiter.join().unwrap()), 7);
}

#[test]
fn a_batch_delivers_one_answer_for_each_accepted_job() {
    let runtime = Runtime::builder().bulkhead(Bulkhead::builder("a").threads(2).queue(10)).build();
    let runtime = runtime.unwrap();
    let a = runtime.bulkhead("a").unwrap();
    let batch = Batch::new();
    for key in 0..10 {
        batch.submit(&a, key, move |_| key * 2).unwrap();
    }
    let mut got: Vec<_> =
        (0..10).map(|_| batch.receiver().recv_timeout(crate::support::WATCHDOG).unwrap()).collect();
    got.sort_by_key(|(key, _)| *key);
    for (key, answer) in got {
        assert_eq!(answer.unwrap(), key * 2);
    }
    assert_eq!(batch.pending(), 0);
}

#[test]
fn an_orderly_shutdown_leaves_nothing() {
    let runtime = Runtime::builder().bulkhead(Bulkhead::builder("a").threads(2)).build().unwrap();
    let a = runtime.bulkhead("a").unwrap();
    let report = runtime.shutdown(Duration::from_secs(10)).unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(a.call(|_| ()).unwrap_err().rejection(), Some(Rejection::ShuttingDown));
}
