//! Futures: the same line as blocked threads, the same limits, no executor of ours.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use watertight::{
    Bulkhead, BulkheadBuilder, Clock, Deadline, ManualClock, Rejection, RejectionPolicy, Runtime,
    TimeLimit,
};

use crate::support::{Gate, block_on, eventually, within};

fn build(bulkhead: BulkheadBuilder) -> (Runtime, Bulkhead, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder().clock(Arc::clone(&clock)).bulkhead(bulkhead).build().unwrap();
    let handle = runtime.bulkheads().next().unwrap().clone();
    (runtime, handle, clock)
}

const WAIT: RejectionPolicy = RejectionPolicy::Wait { at_most: Duration::MAX, submitters: 9 };

#[test]
fn a_future_brings_the_value() {
    let (_runtime, bulkhead, _) = build(Bulkhead::builder("async").threads(1));
    assert_eq!(block_on(bulkhead.call_async(|_| 7)).unwrap(), 7);
    let handle = block_on(bulkhead.submit_async(|_| 8)).unwrap();
    assert_eq!(block_on(handle).unwrap(), 8);
}

#[test]
fn threads_and_futures_wait_in_one_line() {
    let (_runtime, bulkhead, _) =
        build(Bulkhead::builder("line").threads(1).queue(0).rejection(WAIT).no_deadline());
    let gate = Gate::new();
    let inner = gate.clone();
    let held = bulkhead.submit(move |_| inner.pass()).unwrap();
    let (order, started) = std::sync::mpsc::channel();
    let waiters: Vec<_> = (0..6)
        .map(|number| {
            let (caller, order) = (bulkhead.clone(), order.clone());
            let waiter = thread::spawn(move || {
                let job = move |_: &watertight::Context<'_>| order.send(number).unwrap();
                if number % 2 == 0 {
                    block_on(caller.call_async(job)).unwrap();
                } else {
                    caller.call(job).unwrap();
                }
            });
            eventually("it stands in line", || bulkhead.snapshot().waiting == number + 1);
            waiter
        })
        .collect();
    gate.open();
    held.join().unwrap();
    for waiter in waiters {
        within("a waiter", move || waiter.join().unwrap());
    }
    let order: Vec<_> = started.try_iter().collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_dropped_future_leaves_the_line_and_cancels_what_was_accepted() {
    let (_runtime, bulkhead, _) =
        build(Bulkhead::builder("leave").threads(1).queue(0).rejection(WAIT));
    let gate = Gate::new();
    let inner = gate.clone();
    let held = bulkhead.submit(move |_| inner.pass()).unwrap();
    let mut waiting = Box::pin(bulkhead.call_async(|_| ()));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(bulkhead.snapshot().waiting, 1);
    drop(waiting);
    assert_eq!(bulkhead.snapshot().waiting, 0);
    assert_eq!(bulkhead.snapshot().rejected(Rejection::Cancelled), 1);
    gate.open();
    held.join().unwrap();

    let gate = Gate::new();
    let inner = gate.clone();
    let (saw, seen) = std::sync::mpsc::channel();
    let mut running = Box::pin(bulkhead.call_async(move |ctx| {
        inner.pass();
        saw.send(ctx.is_cancelled()).unwrap();
    }));
    assert!(running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    gate.wait_for(1);
    drop(running);
    assert_eq!(bulkhead.snapshot().overdue, 1);
    gate.open();
    assert!(within("the job", move || seen.recv().unwrap()));
}

#[test]
fn a_future_ends_by_its_limits_while_every_worker_is_wedged() {
    let (_runtime, bulkhead, clock) =
        build(Bulkhead::builder("limits").threads(1).queue(1).rejection(WAIT));
    let gate = Gate::new();
    let inner = gate.clone();
    let _held = bulkhead.submit(move |_| inner.pass()).unwrap();
    gate.wait_for(1);
    let deadline = Deadline::at(clock.now() + Duration::from_secs(5));
    let callers: Vec<_> = (0..2)
        .map(|number| {
            let caller = bulkhead.clone();
            let thread = thread::spawn(move || block_on(caller.call_async_until(deadline, |_| ())));
            eventually("it is inside", || {
                let now = bulkhead.snapshot();
                now.queued + now.waiting == number + 1
            });
            thread
        })
        .collect();
    clock.advance(Duration::from_secs(6));
    for caller in callers {
        let error = within("a caller", move || caller.join().unwrap()).unwrap_err();
        assert_eq!(error.rejection(), Some(Rejection::DeadlinePast));
    }
    // Running: the caller is told, and the thread stays taken.
    gate.open();
    eventually("the thread is free", || bulkhead.snapshot().running == 0);
    let gate = Gate::new();
    let inner = gate.clone();
    let caller = bulkhead.clone();
    let deadline = Deadline::at(clock.now() + Duration::from_secs(5));
    let running =
        thread::spawn(move || block_on(caller.call_async_until(deadline, move |_| inner.pass())));
    gate.wait_for(1);
    clock.advance(Duration::from_secs(6));
    let error = within("the caller", move || running.join().unwrap()).unwrap_err();
    assert_eq!(error.time_limit(), Some(TimeLimit::Call));
    assert!(!error.never_started());
    assert_eq!((bulkhead.snapshot().running, bulkhead.snapshot().overdue), (1, 1));
    gate.open();
}

#[test]
fn tokio_drives_the_same_futures_and_its_timeout_leaves_the_line() {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("tokio").threads(1).queue(0).rejection(WAIT).no_deadline())
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("tokio").unwrap();
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    executor.block_on(async {
        assert_eq!(bulkhead.call_async(|_| 7).await.unwrap(), 7);
        let gate = Gate::new();
        let inner = gate.clone();
        let held = bulkhead.submit_async(move |_| inner.pass()).await.unwrap();
        let late = tokio::time::timeout(Duration::from_millis(5), bulkhead.call_async(|_| ()));
        assert!(late.await.is_err(), "the only thread is taken");
        assert_eq!(bulkhead.snapshot().waiting, 0);
        gate.open();
        held.await.unwrap();
        let (one, two) = (bulkhead.clone(), bulkhead.clone());
        let one = tokio::spawn(async move { one.call_async(|_| 1).await });
        let two = tokio::spawn(async move { two.call_async(|_| 2).await });
        assert_eq!((one.await.unwrap().unwrap(), two.await.unwrap().unwrap()), (1, 2));
    });
}
