//! A full bulkhead: what does "no" cost, beside a failed atomic try-acquire and one more count?

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Instant;

use watertight::{Bulkhead, CallError, Rejection, Runtime};

use crate::common::Failure;
use crate::common::plan::{Against, Row, Workload};
use crate::common::rounds::{Figures, Measured, Subject};
use crate::common::verdict::Target;

const SUBMIT: &str = "watertight submit";
const AGAIN: &str = "watertight submit again";
const CALL: &str = "watertight call";
const ATOMIC: &str = "atomic try-acquire and count";
const TRY_SEND: &str = "crossbeam-channel try_send";

pub(super) fn workloads() -> Vec<Workload<'static>> {
    [1, 2]
        .map(|threads| Workload {
            name: format!(
                "refusal when full, {}",
                if threads == 1 { "alone" } else { "2 threads" }
            ),
            in_quick: true,
            rows: [SUBMIT, CALL]
                .map(|of| Row {
                    figure: "refusal_ns",
                    of: of.into(),
                    against: Against::One(ATOMIC.into()),
                    target: Some(Target::AtMost(3.0)),
                    margin: 0.25,
                    twins: (SUBMIT.into(), AGAIN.into()),
                })
                .into(),
            measure: Box::new(move |options| {
                measure(options.pick(11, 21), threads, options.pick(100_000, 400_000))
            }),
        })
        .into()
}

fn measure(rounds: usize, threads: u32, refusals: u32) -> Result<Measured, Failure> {
    let runtime =
        Runtime::builder().bulkhead(Bulkhead::builder("full").threads(1).queue(0)).build()?;
    let full = runtime.bulkhead("full")?;
    let (open, gate) = mpsc::channel::<()>();
    let (started, has_started) = mpsc::channel();
    let held = full
        .submit(move |_| {
            let _ = started.send(());
            let _ = gate.recv();
        })
        .map_err(watertight::Rejected::forget)?;
    has_started.recv()?;

    // The closure carries something, as one in use does; it comes back and is dropped.
    let cargo = Arc::new(0_u64);
    let submit = |name: &'static str| {
        let (full, cargo) = (&full, &cargo);
        Subject::new(name, move || {
            refused(full, threads, refusals, || {
                let cargo = black_box(&cargo);
                let number = Arc::strong_count(cargo);
                full.try_submit(move |_| number).is_err()
            })
        })
    };
    let permits = AtomicUsize::new(0);
    let count = AtomicU64::new(0);
    let (jobs, _queue) = crossbeam_channel::bounded::<usize>(1);
    jobs.send(0)?;
    let subjects = vec![
        submit(SUBMIT),
        submit(AGAIN),
        Subject::new(CALL, || {
            refused(&full, threads, refusals, || {
                let number = Arc::strong_count(black_box(&cargo));
                let called = full.call(move |_| number);
                matches!(called, Err(CallError::Rejected(_)))
            })
        }),
        Subject::new(ATOMIC, || {
            on_threads(threads, refusals, || {
                let one_less = |permits: usize| permits.checked_sub(1);
                let got = permits.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_less);
                count.fetch_add(1, Ordering::Relaxed);
                black_box(got).is_err()
            })
        }),
        Subject::new(TRY_SEND, || {
            on_threads(threads, refusals, || jobs.try_send(black_box(1)).is_err())
        }),
    ];
    let measured = Measured::of(rounds, subjects)?;
    drop(open);
    held.join()?;
    Ok(measured)
}

/// Fails if the bulkhead itself has counted another number of refusals.
fn refused(
    full: &Bulkhead,
    threads: u32,
    refusals: u32,
    refuse: impl Fn() -> bool + Sync,
) -> Result<Figures, Failure> {
    let counted = || full.snapshot().rejected(Rejection::QueueFull);
    let before = counted();
    let figures = on_threads(threads, refusals, refuse)?;
    let claimed = u64::from(threads) * u64::from(refusals);
    match counted() - before {
        made if made == claimed => Ok(figures),
        made => Err(format!("claims {claimed} refusals and has counted {made}").into()),
    }
}

/// Has each thread be refused that often at the same time, and says how long one refusal takes it.
fn on_threads(
    threads: u32,
    refusals: u32,
    refuse: impl Fn() -> bool + Sync,
) -> Result<Figures, Failure> {
    let ready = Barrier::new(threads as usize);
    let nanos = thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    ready.wait();
                    let start = Instant::now();
                    let refused = (0..refusals).filter(|_| refuse()).count();
                    let nanos = start.elapsed().as_secs_f64() * 1e9;
                    (refused == refusals as usize).then_some(nanos)
                })
            })
            .collect();
        let mut sum = 0.0;
        for thread in all {
            sum += thread.join().map_err(|_| "a thread panicked")?.ok_or("one was let in")?;
        }
        Ok::<_, Failure>(sum)
    })?;
    Ok(vec![("refusal_ns", nanos / f64::from(threads) / f64::from(refusals))])
}
