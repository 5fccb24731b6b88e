//! Runtimes come to their end in awkward moments and places.

use std::future::Future;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use watertight::{
    Batch, Bulkhead, CallError, Clock, Deadline, FinishedEvent, ManualClock, Observer, Rejection,
    RejectionPolicy, Runtime,
};

use crate::support::{Gate, build, eventually, hold, within};

/// Submits when it is dropped, and notes how that went. What it submits says that it has run.
struct SubmitsWhenDropped {
    bulkhead: Bulkhead,
    ran: Arc<AtomicUsize>,
    told: mpsc::Sender<Option<Rejection>>,
}

impl Drop for SubmitsWhenDropped {
    fn drop(&mut self) {
        let ran = Arc::clone(&self.ran);
        let job = self.bulkhead.submit(move |_| ran.fetch_add(1, Ordering::SeqCst));
        let _ = self.told.send(job.err().map(|refused| refused.reason()));
    }
}

#[test]
fn c31_what_captures_submit_while_the_runtime_stops_is_refused() {
    within("c31_what_captures_submit_while_the_runtime_stops_is_refused", || {
        for limit in [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(20)] {
            let (runtime, bulkhead) = build(Bulkhead::builder("c31").threads(1).queue(4));
            let ran = Arc::new(AtomicUsize::new(0));
            let (told, submitted) = mpsc::channel();
            let gate = Gate::new();
            let held = hold(&bulkhead, &gate, 1);
            gate.wait_for(1);
            let queued: Vec<_> = (0..4)
                .map(|_| {
                    let (inner, ran, told) = (bulkhead.clone(), Arc::clone(&ran), told.clone());
                    let captured = SubmitsWhenDropped { bulkhead: inner, ran, told };
                    bulkhead.submit(move |_| drop(captured)).unwrap()
                })
                .collect();
            let runs = limit > Duration::from_secs(1);
            let closed = bulkhead.clone();
            let stopping = thread::spawn(move || runtime.shutdown(limit).unwrap());
            eventually("it closes", || {
                closed.submit(|_| ()).is_err_and(|no| no.reason() == Rejection::ShuttingDown)
            });
            if runs {
                gate.open();
            }
            let report = within("shutdown", move || stopping.join().unwrap());
            assert_eq!(report.unstarted.len(), if runs { 0 } else { 4 }, "{report}");
            gate.open();
            for job in queued {
                assert_eq!(job.join().is_ok(), runs);
            }
            for _ in 0..4 {
                let told = submitted.recv_timeout(crate::support::WATCHDOG).unwrap();
                assert_eq!(told, Some(Rejection::ShuttingDown), "{limit:?}");
            }
            drop(held);
            assert_eq!(ran.load(Ordering::SeqCst), 0);
        }
    });
}

#[test]
fn c31_nothing_starts_after_shutdown_has_returned() {
    within("c31_nothing_starts_after_shutdown_has_returned", || {
        for round in 0..200 {
            let limit = if round % 2 == 0 { Duration::ZERO } else { Duration::from_secs(20) };
            let (runtime, bulkhead) = build(Bulkhead::builder("c31").threads(2).queue(8));
            let returned = Arc::new(AtomicBool::new(false));
            let late = Arc::new(AtomicUsize::new(0));
            let submitters: Vec<_> = (0..3)
                .map(|_| {
                    let (bulkhead, returned, late) =
                        (bulkhead.clone(), Arc::clone(&returned), Arc::clone(&late));
                    thread::spawn(move || {
                        loop {
                            let (inner, returned, late) =
                                (bulkhead.clone(), Arc::clone(&returned), Arc::clone(&late));
                            let job = bulkhead.submit(move |_| {
                                if returned.load(Ordering::SeqCst) {
                                    late.fetch_add(1, Ordering::SeqCst);
                                }
                                // A job that brings another: accepted or refused, never lost.
                                drop(inner.submit(|_| ()));
                            });
                            if job.is_err_and(|refused| refused.reason() == Rejection::ShuttingDown)
                            {
                                return;
                            }
                        }
                    })
                })
                .collect();
            let report = runtime.shutdown(limit).unwrap();
            returned.store(report.stuck.is_empty(), Ordering::SeqCst);
            for submitter in submitters {
                within("a submitter", move || submitter.join().unwrap());
            }
            drop(runtime);
            eventually("at rest", || bulkhead.snapshot().running == 0);
            let end = bulkhead.snapshot();
            assert_eq!(late.load(Ordering::SeqCst), 0, "{report}");
            assert_eq!(end.totals.accepted, end.totals.ended(), "{end}");
            assert_eq!(end.arrivals, end.totals.accepted + end.rejected_in_all(), "{end}");
            assert_eq!((end.running, end.queued), (0, 0), "{end}");
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn c32_two_runtimes_whose_jobs_hold_each_other_s_last_handle_both_go() {
    within("c32_two_runtimes_whose_jobs_hold_each_other_s_last_handle_both_go", || {
        for wait in [Duration::ZERO, Duration::from_millis(20)] {
            let named = |name: &str| {
                let bulkhead = Bulkhead::builder(name).threads(2);
                Arc::new(Runtime::builder().drop_wait(wait).bulkhead(bulkhead).build().unwrap())
            };
            let (one, other) = (named("c32x"), named("c32y"));
            let gate = Gate::new();
            for (mine, theirs) in [("c32x", &other), ("c32y", &one)] {
                let holder = if mine == "c32x" { &one } else { &other };
                let (last, gate) = (Arc::clone(theirs), gate.clone());
                drop(holder.bulkhead(mine).unwrap().submit(move |_| {
                    gate.pass();
                    drop(last);
                }));
            }
            gate.wait_for(2);
            drop((one, other));
            gate.open();
            let left = || {
                crate::support::threads_named("wt-c32x") + crate::support::threads_named("wt-c32y")
            };
            eventually("the threads of both are gone", || left() == 0);
        }
    });
}

/// Drops what it is given in its hook, on the worker.
struct DropsInItsHook(Arc<Mutex<Option<Arc<Runtime>>>>);

impl Observer for DropsInItsHook {
    fn on_finished(&self, _: &FinishedEvent<'_>) {
        let last = self.0.lock().unwrap().take();
        drop(last);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn c32_the_last_handle_may_go_in_any_place_that_the_user_s_values_go() {
    within("c32_the_last_handle_may_go_in_any_place_that_the_user_s_values_go", || {
        // On a thread of its own it would wait for itself, so there it must not wait at all.
        const FOREVER: Duration = Duration::MAX;
        const BRIEFLY: Duration = Duration::from_millis(20);
        type Place = fn(Arc<Runtime>, Bulkhead, Gate);
        let places: [(&str, Duration, Place); 9] = [
            ("a result that nobody takes", FOREVER, |last, bulkhead, gate| {
                drop(bulkhead.submit(move |_| {
                    gate.pass();
                    last
                }));
            }),
            ("a panic's payload", FOREVER, |last, bulkhead, gate| {
                drop(bulkhead.submit(move |_| {
                    gate.pass();
                    resume_unwind(Box::new(last));
                }));
            }),
            ("the key of a batch", FOREVER, |last, bulkhead, gate| {
                let batch = Batch::new();
                drop(batch.submit(&bulkhead, last, move |_| gate.pass()));
            }),
            ("the captures of a job that expires", FOREVER, |last, bulkhead, gate| {
                let soon = Deadline::after(Duration::from_millis(1));
                drop(bulkhead.submit(move |_| gate.pass()));
                let job = bulkhead.submit_until(soon, move |_| drop(last)).unwrap();
                assert!(within("the limit", move || job.join()).is_err());
            }),
            ("the captures of a job that is cancelled", BRIEFLY, |last, bulkhead, gate| {
                drop(bulkhead.submit(move |_| gate.pass()));
                assert!(bulkhead.submit(move |_| drop(last)).unwrap().cancel());
            }),
            ("a future dropped in a foreign thread", BRIEFLY, |last, bulkhead, gate| {
                drop(bulkhead.submit(move |_| gate.pass()));
                let mut call = Box::pin(bulkhead.call_async(move |_| drop(last)));
                assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                thread::spawn(move || drop(call)).join().unwrap();
            }),
            ("a future dropped in a job", FOREVER, |last, bulkhead, gate| {
                let call = bulkhead.call_async(move |_| drop(last));
                drop(bulkhead.submit(move |_| {
                    gate.pass();
                    drop(call);
                }));
            }),
            ("an abort hook", FOREVER, |last, bulkhead, gate| {
                let job = bulkhead.submit(move |ctx| {
                    let _guard = ctx.on_abort(move || drop(Arc::clone(&last)));
                    gate.pass();
                });
                job.unwrap().cancel();
            }),
            ("a closure refused", BRIEFLY, |last, bulkhead, gate| {
                drop(hold(&bulkhead, &gate, 2));
                drop(bulkhead.submit(move |_| drop(last)).unwrap_err());
            }),
        ];
        for (place, drop_wait, put) in places {
            let builder = Bulkhead::builder("c32z").threads(1).queue(1).no_deadline();
            let runtime = Runtime::builder().drop_wait(drop_wait).bulkhead(builder);
            let runtime = Arc::new(runtime.build().unwrap());
            let bulkhead = runtime.bulkhead("c32z").unwrap();
            let (last, gate) = (Arc::clone(&runtime), Gate::new());
            let inner = gate.clone();
            within(place, move || {
                drop(runtime);
                put(last, bulkhead, inner);
            });
            gate.open();
            eventually(place, || crate::support::threads_named("wt-c32z") == 0);
        }

        // An observer that holds the very runtime that it observes, and lets go of it in a hook.
        let held = Arc::new(Mutex::new(None));
        let runtime = Runtime::builder()
            .observer(DropsInItsHook(Arc::clone(&held)))
            .bulkhead(Bulkhead::builder("c32z").threads(1))
            .build()
            .unwrap();
        let bulkhead = runtime.bulkhead("c32z").unwrap();
        *held.lock().unwrap() = Some(Arc::new(runtime));
        bulkhead.call(|_| ()).unwrap();
        eventually("an observer", || crate::support::threads_named("wt-c32z") == 0);
    });
}

/// Submits itself again as its last act, until it is refused.
fn chain(bulkhead: &Bulkhead, links: Arc<AtomicUsize>, refused: mpsc::Sender<Rejection>) {
    let next = bulkhead.clone();
    let link = bulkhead.submit(move |_| {
        links.fetch_add(1, Ordering::SeqCst);
        chain(&next, links, refused.clone());
    });
    // The sender went with the closure; the end of the channel is the refusal.
    drop(link.map_err(|no| assert_eq!(no.reason(), Rejection::ShuttingDown)));
}

#[test]
fn c38_a_chain_of_jobs_ends_with_the_shutdown_and_every_drainer_returns() {
    within("c38_a_chain_of_jobs_ends_with_the_shutdown_and_every_drainer_returns", || {
        for _ in 0..20 {
            let (runtime, bulkhead) = build(Bulkhead::builder("c38").threads(2).queue(16));
            let runtime = Arc::new(runtime);
            let links = Arc::new(AtomicUsize::new(0));
            let (sender, refusals) = mpsc::channel();
            for _ in 0..4 {
                chain(&bulkhead, Arc::clone(&links), sender.clone());
            }
            drop(sender);
            eventually("the middle of the chains", || links.load(Ordering::SeqCst) > 200);
            let together = Arc::new(Barrier::new(6));
            let drainers: Vec<_> = (0..6)
                .map(|_| {
                    let (runtime, bulkhead) = (Arc::clone(&runtime), bulkhead.clone());
                    let (together, links) = (Arc::clone(&together), Arc::clone(&links));
                    thread::spawn(move || {
                        together.wait();
                        let report = runtime.shutdown(Duration::from_secs(20)).unwrap();
                        assert!(report.is_clean(), "{report}");
                        let refused = bulkhead.submit(|_| ()).unwrap_err();
                        assert_eq!(refused.reason(), Rejection::ShuttingDown);
                        links.load(Ordering::SeqCst)
                    })
                })
                .collect();
            let seen: Vec<_> = drainers
                .into_iter()
                .map(|drainer| within("a drainer", move || drainer.join().unwrap()))
                .collect();
            // Whoever returned saw all that has ever run.
            let at_last = links.load(Ordering::SeqCst);
            assert!(seen.iter().all(|links| *links == at_last), "{seen:?}, {at_last}");
            assert!(refusals.recv().is_err(), "every chain has been dropped");
            let end = bulkhead.snapshot();
            assert_eq!(end.totals.returned, at_last as u64, "{end}");
            assert_eq!(end.totals.accepted, end.totals.returned, "{end}");
        }
    });
}

#[test]
fn c38_a_drain_runs_all_that_was_accepted_before_it() {
    within("c38_a_drain_runs_all_that_was_accepted_before_it", || {
        let (runtime, bulkhead) = build(Bulkhead::builder("c38").threads(1).queue(100));
        let ran = Arc::new(AtomicUsize::new(0));
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        for _ in 0..100 {
            let ran = Arc::clone(&ran);
            drop(bulkhead.submit(move |_| {
                thread::yield_now();
                ran.fetch_add(1, Ordering::SeqCst);
            }));
        }
        let drain = thread::spawn(move || runtime.shutdown(Duration::MAX).unwrap());
        eventually("it closes", || {
            bulkhead.submit(|_| ()).unwrap_err().reason() == Rejection::ShuttingDown
        });
        gate.open();
        let report = within("the drain", move || drain.join().unwrap());
        assert_eq!((report.finished, ran.load(Ordering::SeqCst)), (101, 100), "{report}");
        drop(held);
    });
}

#[test]
fn c39_a_batch_sees_every_end_of_every_job() {
    within("c39_a_batch_sees_every_end_of_every_job", || {
        let clock = Arc::new(ManualClock::new());
        let limit = Duration::from_secs(1);
        let runtime = Runtime::builder()
            .clock(Arc::clone(&clock))
            .bulkhead(
                Bulkhead::builder("c39").threads(1).queue(4).rejection(RejectionPolicy::DropOldest),
            )
            .bulkhead(Bulkhead::builder("c39-late").threads(1).queue(9).queue_limit(limit))
            .build()
            .unwrap();
        let (drops, late) =
            (runtime.bulkhead("c39").unwrap(), runtime.bulkhead("c39-late").unwrap());
        let batch = Batch::new();
        let gate = Gate::new();
        for bulkhead in [&drops, &late] {
            let gate = gate.clone();
            batch.submit(bulkhead, "returns", move |_| gate.pass()).unwrap();
        }
        gate.wait_for(2);
        let soon = Deadline::at(clock.now() + limit / 2);
        let running = Gate::new();
        batch.submit(&drops, "is displaced", |_| ()).unwrap();
        for _ in 0..2 {
            batch.submit(&drops, "panics", |_| resume_unwind(Box::new(()))).unwrap();
        }
        batch.submit_until(&late, soon, "is past its deadline", |_| ()).unwrap();
        batch.submit(&late, "is past the queue limit", |_| ()).unwrap();
        for _ in 0..2 {
            batch.submit(&drops, "returns", |_| ()).unwrap();
        }
        assert_eq!(batch.pending(), 9);
        clock.advance(limit);
        let mut ends = std::collections::BTreeMap::new();
        let mut next = |batch: &Batch<&'static str, ()>| {
            let (key, answer) = batch.receiver().recv_timeout(crate::support::WATCHDOG).unwrap();
            let end = match answer {
                Ok(()) => "returns",
                Err(CallError::Panicked(_)) => "panics",
                Err(CallError::TimedOut(_)) => "runs past its deadline",
                Err(error) => match error.rejection().unwrap() {
                    Rejection::Displaced => "is displaced",
                    Rejection::DeadlinePast => "is past its deadline",
                    Rejection::QueueLimit => "is past the queue limit",
                    Rejection::ShuttingDown => "is shut down",
                    other => panic!("{other}"),
                },
            };
            assert_eq!(key, end);
            *ends.entry(end).or_insert(0) += 1;
        };
        for _ in 0..3 {
            next(&batch);
        }
        gate.open();
        for _ in 0..6 {
            next(&batch);
        }
        // One that runs past its deadline, one that is refused, ten that a shutdown ends.
        let inner = running.clone();
        let deadline = Deadline::at(clock.now() + limit);
        let slow = move |_: &watertight::Context<'_>| inner.pass();
        batch.submit_until(&late, deadline, "runs past its deadline", slow).unwrap();
        running.wait_for(1);
        clock.advance(limit);
        next(&batch);
        for _ in 0..9 {
            batch.submit(&late, "is shut down", |_| ()).unwrap();
        }
        let refused = batch.submit(&late, "is refused", |_| ()).unwrap_err();
        assert_eq!((refused.reason(), batch.pending()), (Rejection::QueueFull, 9));
        within("shutdown", move || runtime.shutdown(Duration::ZERO).unwrap());
        for _ in 0..9 {
            next(&batch);
        }
        running.open();
        assert_eq!((batch.pending(), batch.receiver().len()), (0, 0));
        assert_eq!(ends["returns"] + ends["panics"], 6);
        assert_eq!(ends["is shut down"], 9);
    });
}

#[test]
fn c39_a_batch_that_is_dropped_hurts_nobody() {
    within("c39_a_batch_that_is_dropped_hurts_nobody", || {
        for _ in 0..300 {
            let (_runtime, bulkhead) = build(Bulkhead::builder("c39").threads(2).queue(8));
            let value = Arc::new(());
            let kept = Batch::new();
            let dropped = Batch::new();
            for _ in 0..5 {
                let (key, value) = (Arc::clone(&value), Arc::clone(&value));
                dropped.submit(&bulkhead, key, move |_| value).unwrap();
                kept.submit(&bulkhead, (), |_| ()).unwrap();
            }
            drop(dropped);
            for _ in 0..5 {
                let received = kept.receiver().recv_timeout(crate::support::WATCHDOG).unwrap();
                received.1.unwrap();
            }
            crate::support::capacity_is(&bulkhead, 2);
            eventually("keys and values are dropped", || Arc::strong_count(&value) == 1);
            let end = bulkhead.snapshot();
            assert_eq!((end.totals.returned, end.drop_panics), (12, 0), "{end}");
        }
    });
}
