//! What one job leaves for the next: nothing. Neither context nor memory.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use watertight::{
    Bulkhead, Clock, Deadline, FinishedEvent, JobHandle, ManualClock, Observer, Runtime,
};

use crate::support::{Gate, eventually, hold, within};

thread_local! {
    static TENANT: Cell<&'static str> = const { Cell::new("nobody") };
}

/// Clears the user's own thread-local after every job.
#[derive(Clone, Default)]
struct Clears(Arc<AtomicUsize>);

impl Observer for Clears {
    fn on_finished(&self, _: &FinishedEvent<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        TENANT.set("nobody");
    }
}

#[test]
fn c105_no_job_sees_what_the_one_before_it_was() {
    within("c105_no_job_sees_what_the_one_before_it_was", || {
        let clock = Arc::new(ManualClock::new());
        let clears = Clears::default();
        let runtime = Runtime::builder()
            .clock(Arc::clone(&clock))
            .observer(clears.clone())
            .bulkhead(Bulkhead::builder("c105").threads(1).queue(2))
            .bulkhead(Bulkhead::builder("c105-next").threads(1).queue(1).no_deadline())
            .build()
            .unwrap();
        let bulkhead = runtime.bulkhead("c105").unwrap();
        let next = runtime.bulkhead("c105-next").unwrap();
        let second = Duration::from_secs(1);
        for exit in ["returns", "panics", "is late", "is cancelled", "is called from a job"] {
            let ended = clears.0.load(Ordering::SeqCst);
            let gate = Gate::new();
            let (inner, onward) = (gate.clone(), next.clone());
            let first = move |_: &watertight::Context<'_>| {
                TENANT.set("a");
                inner.pass();
                // It has asked others for something, with what time it had.
                let _ = onward.call(|_| ());
                if exit == "panics" {
                    resume_unwind(Box::new(exit));
                }
            };
            let mut jobs_of_others = 1;
            let job: JobHandle<()> = if exit == "is called from a job" {
                let caller = bulkhead.clone();
                jobs_of_others += 1;
                next.submit(move |_| drop(caller.call(first))).unwrap()
            } else {
                bulkhead.submit_until(Deadline::at(clock.now() + second), first).unwrap()
            };
            gate.wait_for(1);
            // The next is queued already: it starts as soon as the first has ended.
            let (onward, held_gate) = (next.clone(), Gate::new());
            let others = held_gate.clone();
            let after = bulkhead.submit(move |ctx| {
                let own = (ctx.deadline(), ctx.remaining(), ctx.is_cancelled());
                let acted = Arc::new(AtomicUsize::new(0));
                let count = Arc::clone(&acted);
                drop(ctx.on_abort(move || {
                    count.fetch_add(1, Ordering::SeqCst);
                }));
                // What it asks of others has no limit from before, and is in no chain of waiting jobs:
                // it may queue behind a job there.
                let full = hold(&onward, &others, 1);
                others.wait_for(1);
                let queued = onward.submit(|inner| inner.deadline()).unwrap();
                others.open();
                let passed_on = queued.join().unwrap();
                for job in full {
                    job.join().unwrap();
                }
                let called = onward.call(|inner| inner.deadline()).unwrap();
                (own, acted.load(Ordering::SeqCst), passed_on, called, TENANT.get())
            });
            match exit {
                "is late" => {
                    clock.advance(second);
                    eventually("its caller is told", || job.is_finished());
                }
                "is cancelled" => assert!(!job.cancel()),
                _ => {}
            }
            gate.open();
            let answer = within("the first", move || job.join());
            assert_eq!(answer.is_err(), ["panics", "is late"].contains(&exit), "{exit}");
            let seen = within("the next", move || after.unwrap().join().unwrap());
            let never = Deadline::never();
            assert_eq!(seen, ((never, None, false), 0, never, never, "nobody"), "{exit}");
            // The first, its inner call, the next, and its three: the hook ran for each.
            let expected = ended + 4 + jobs_of_others;
            eventually("every end was told", || clears.0.load(Ordering::SeqCst) >= expected);
            let jobs = [&bulkhead, &next].map(|one| one.snapshot().totals.ended());
            let jobs = usize::try_from(jobs.iter().sum::<u64>()).unwrap();
            eventually("as often as jobs ended", || clears.0.load(Ordering::SeqCst) == jobs);
        }
    });
}

#[test]
fn c105_a_foreign_thread_has_no_job_s_limit() {
    within("c105_a_foreign_thread_has_no_job_s_limit", || {
        // Not even one that has just waited for a job, or run a hook.
        let runtime = Runtime::builder()
            .bulkhead(Bulkhead::builder("c105").threads(1).no_deadline())
            .build()
            .unwrap();
        let bulkhead = runtime.bulkhead("c105").unwrap();
        let _ = bulkhead.call_until(Deadline::after(Duration::from_secs(60)), |_| ());
        assert_eq!(bulkhead.call(|ctx| ctx.deadline()).unwrap(), Deadline::never());
        let job = bulkhead.submit_until(Deadline::after(Duration::from_secs(60)), |_| ()).unwrap();
        job.join().unwrap();
        assert_eq!(
            bulkhead.submit(|ctx| ctx.deadline()).unwrap().join().unwrap(),
            Deadline::never()
        );
    });
}

#[test]
fn c105_a_job_that_nobody_waits_for_any_more_may_queue_where_it_was_waited_for() {
    within("a job let go of", || {
        let runtime = Runtime::builder()
            .bulkhead(Bulkhead::builder("c105").threads(1).queue(1))
            .bulkhead(Bulkhead::builder("c105-next").threads(1))
            .build()
            .unwrap();
        let bulkhead = runtime.bulkhead("c105").unwrap();
        let next = runtime.bulkhead("c105-next").unwrap();
        let gate = Gate::new();
        let (back, inner) = (bulkhead.clone(), gate.clone());
        let left = bulkhead.submit(move |_| {
            let job = next.submit(move |_| {
                inner.pass();
                back.call(|_| 5)
            });
            // It waits for a moment, and then no longer.
            job.unwrap().join_timeout(Duration::from_millis(1)).map(|_| ()).unwrap_err()
        });
        let left = left.unwrap().join().unwrap();
        let full = Gate::new();
        let held = hold(&bulkhead, &full, 1);
        full.wait_for(1);
        gate.open();
        eventually("it queues behind a stranger", || bulkhead.snapshot().queued == 1);
        full.open();
        assert_eq!(left.join().unwrap().unwrap(), 5);
        for job in held {
            job.join().unwrap();
        }
    });
}

/// Runs `job` of each number in a child process and looks at its memory: after a tenth, and after
/// all.
#[cfg(target_os = "linux")]
fn is_flat(
    test: &str,
    jobs: usize,
    queue: usize,
    job: impl Fn(&Bulkhead, usize) -> Option<JobHandle<()>>,
) {
    use crate::support::{build, child, ends, memory, part};
    if part().is_none() {
        let output = ends(test, child(test, "child"));
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let (runtime, bulkhead) = build(Bulkhead::builder("flat").threads(1).queue(queue));
    let mut handles = Vec::with_capacity(queue);
    let mut run = |jobs: std::ops::Range<usize>| {
        for number in jobs {
            handles.extend(job(&bulkhead, number));
            if handles.len() == queue {
                handles.drain(..).for_each(|job: JobHandle<()>| drop(job.join()));
            }
        }
        handles.drain(..).for_each(|job| drop(job.join()));
        memory()
    };
    let early = run(0..jobs / 10);
    let late = run(jobs / 10..jobs);
    let grown = late.saturating_sub(early);
    // Four bytes for each job would be more.
    assert!(grown < jobs * 4, "{grown} bytes more after {jobs} jobs");
    let end = bulkhead.snapshot();
    assert_eq!(end.totals.ended(), jobs as u64, "{end}");
    assert!(runtime.shutdown(Duration::MAX).unwrap().is_clean());
}

#[cfg(target_os = "linux")]
#[test]
fn c109_a_million_registrations_for_cancelling_leave_nothing() {
    let this = "leftovers::c109_a_million_registrations_for_cancelling_leave_nothing";
    is_flat(this, 1_000_000, 128, |bulkhead, number| {
        let job = bulkhead
            .submit(move |ctx| {
                drop(ctx.on_abort(move || {
                    std::hint::black_box(number);
                }));
            })
            .unwrap();
        // One in three is cancelled: queued, running, or over, as it comes.
        if number % 3 == 0 {
            job.cancel();
        }
        Some(job)
    });
}

#[cfg(target_os = "linux")]
#[test]
fn c110_a_million_jobs_with_a_day_s_deadline_leave_no_alarm() {
    let this = "leftovers::c110_a_million_jobs_with_a_day_s_deadline_leave_no_alarm";
    let day = Deadline::after(Duration::from_secs(86_400));
    is_flat(this, 1_000_000, 128, |bulkhead, number| {
        if number % 50 == 0 {
            // A caller that waits by itself.
            bulkhead.call_until(day, |_| ()).unwrap();
            return None;
        }
        Some(bulkhead.submit_until(day, |_| ()).unwrap())
    });
}
