//! Every piece of the user's code that the crate runs panics once. Nothing of the crate's breaks: no
//! lock, no thread, no slot, no count; submitting, looking and shutting down go on.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use watertight::{
    AcceptedEvent, Batch, Bulkhead, BulkheadBuilder, CallError, Clock, Deadline, FinishedEvent,
    JobHandle, ManualClock, NotStartedEvent, Observer, RejectedEvent, Rejection, RejectionPolicy,
    RelievedEvent, Runtime, SaturatedEvent, StartedEvent,
};

use crate::support::{Gate, build, capacity_is, child, ends, eventually, hold, part, within};

/// Panics when it is dropped, with a payload that does the same, so many times.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 && !thread::panicking() {
            blow(self.0 - 1);
        }
    }
}

fn blow(more: u32) {
    resume_unwind(Box::new(Bomb(more)));
}

/// What must work after a panic of whatever kind, whoever caused it.
fn serves_on(runtime: Runtime, bulkhead: &Bulkhead) {
    let bulkhead = bulkhead.clone();
    within("what follows a panic", move || {
        let threads = bulkhead.snapshot().threads;
        for _ in 0..2 * threads {
            assert_eq!(bulkhead.submit(|_| 1).unwrap().join().unwrap(), 1);
        }
        capacity_is(&bulkhead, threads);
        let deadline = Deadline::after(Duration::from_secs(60));
        bulkhead.submit_until(deadline, |_| ()).unwrap().join().unwrap();
        let _ = (bulkhead.snapshot().to_string(), format!("{runtime:?} {:?}", runtime.plan()));
        let report = runtime.shutdown(Duration::MAX).unwrap();
        assert!(report.is_clean(), "{report}");
        assert_eq!(bulkhead.submit(|_| ()).unwrap_err().reason(), Rejection::ShuttingDown);
    });
}

/// Panics in one of its hooks, the first time.
struct Once(&'static str, AtomicBool);

impl Once {
    fn meets(&self, hook: &str) {
        if hook == self.0 && !self.1.swap(true, Ordering::SeqCst) {
            blow(1);
        }
    }
}

impl Observer for Once {
    fn on_accepted(&self, _: &AcceptedEvent<'_>) {
        self.meets("accepted");
    }

    fn on_rejected(&self, _: &RejectedEvent<'_>) {
        self.meets("rejected");
    }

    fn on_started(&self, _: &StartedEvent<'_>) {
        self.meets("started");
    }

    fn on_finished(&self, _: &FinishedEvent<'_>) {
        self.meets("finished");
    }

    fn on_not_started(&self, _: &NotStartedEvent<'_>) {
        self.meets("not started");
    }

    fn on_saturated(&self, _: &SaturatedEvent<'_>) {
        self.meets("saturated");
    }

    fn on_relieved(&self, _: &RelievedEvent<'_>) {
        self.meets("relieved");
    }
}

#[test]
fn c26_each_hook_of_an_observer_may_panic_once() {
    within("c26_each_hook_of_an_observer_may_panic_once", || {
        const HOOKS: [&str; 7] =
            ["accepted", "rejected", "started", "finished", "not started", "saturated", "relieved"];
        for hook in HOOKS {
            let runtime = Runtime::builder()
                .observer(Once(hook, AtomicBool::new(false)))
                .bulkhead(Bulkhead::builder("c26").threads(1).queue(1))
                .build()
                .unwrap();
            let bulkhead = runtime.bulkhead("c26").unwrap();
            // Every event once.
            let gate = Gate::new();
            let held = hold(&bulkhead, &gate, 1);
            let queued = bulkhead.submit(|_| ()).unwrap();
            assert_eq!(
                bulkhead.submit(|_| ()).unwrap_err().reason(),
                Rejection::QueueFull,
                "{hook}"
            );
            assert!(queued.cancel(), "{hook}");
            assert_eq!(
                queued.join().unwrap_err().rejection(),
                Some(Rejection::Cancelled),
                "{hook}"
            );
            gate.open();
            for job in held {
                job.join().unwrap();
            }
            eventually("it has panicked", || bulkhead.snapshot().hook_panics == 1);
            serves_on(runtime, &bulkhead);
            assert_eq!(bulkhead.snapshot().hook_panics, 1, "{hook}");
        }
    });
}

#[test]
fn c26_hooks_of_threads_may_panic_each_time() {
    within("c26_hooks_of_threads_may_panic_each_time", || {
        let (runtime, bulkhead) = build(
            Bulkhead::builder("c26")
                .threads(3)
                .on_thread_start(|_| blow(2))
                .on_thread_stop(|_| blow(2)),
        );
        serves_on(runtime, &bulkhead);
        assert_eq!(bulkhead.snapshot().hook_panics, 6);
    });
}

/// The system's time, but the next reading on a thread of the given name panics.
#[derive(Default)]
struct Broken {
    on: Mutex<Option<String>>,
    panics: AtomicUsize,
}

impl Broken {
    fn next_reading_panics_on(&self, thread: &str) {
        *self.on.lock().unwrap() = Some(thread.to_owned());
    }

    fn has_panicked(&self, times: usize) -> bool {
        self.panics.load(Ordering::SeqCst) == times
    }
}

impl Clock for Broken {
    fn now(&self) -> Instant {
        let due = {
            let here = thread::current();
            let mut on = self.on.lock().unwrap();
            on.is_some() && on.as_deref() == here.name() && on.take().is_some()
        };
        if due {
            self.panics.fetch_add(1, Ordering::SeqCst);
            blow(1);
        }
        Instant::now()
    }
}

fn build_on(clock: &Arc<Broken>, bulkhead: BulkheadBuilder) -> (Runtime, Bulkhead) {
    let runtime = Runtime::builder().clock(Arc::clone(clock)).bulkhead(bulkhead).build().unwrap();
    let handle = runtime.bulkheads().next().unwrap().clone();
    (runtime, handle)
}

#[test]
fn c27_a_clock_that_panics_on_a_worker_costs_neither_worker_nor_answer() {
    within("c27_a_clock_that_panics_on_a_worker_costs_neither_worker_nor_answer", || {
        let clock = Arc::new(Broken::default());
        let (runtime, bulkhead) = build_on(&clock, Bulkhead::builder("c27").threads(1).queue(3));
        // When it finishes a job.
        let broken = Arc::clone(&clock);
        let job = bulkhead.submit(move |_| broken.next_reading_panics_on("wt-c27-0")).unwrap();
        within("the job", move || job.join().unwrap());
        assert!(clock.has_panicked(1));
        // When it looks for the next one.
        clock.next_reading_panics_on("wt-c27-0");
        let job = bulkhead.submit(|_| 5).unwrap();
        assert_eq!(within("the next job", move || job.join().unwrap()), 5);
        assert!(clock.has_panicked(2));
        serves_on(runtime, &bulkhead);
        assert_eq!(bulkhead.snapshot().hook_panics, 2);
    });
}

#[test]
fn c27_a_clock_that_panics_on_the_timekeeper_stops_no_time() {
    within("c27_a_clock_that_panics_on_the_timekeeper_stops_no_time", || {
        let clock = Arc::new(Broken::default());
        let (runtime, bulkhead) = build_on(&clock, Bulkhead::builder("c27").threads(1).queue(3));
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        clock.next_reading_panics_on("wt-c27-t");
        for _ in 0..2 {
            let soon = Deadline::after(Duration::from_millis(1));
            let job = bulkhead.submit_until(soon, |_| ()).unwrap();
            eventually("its time passes with nobody looking", || job.is_finished());
            assert_eq!(job.join().unwrap_err().rejection(), Some(Rejection::DeadlinePast));
        }
        assert!(clock.has_panicked(1));
        gate.open();
        for job in held {
            job.join().unwrap();
        }
        serves_on(runtime, &bulkhead);
    });
}

/// What a caller does on its own thread, each reading the clock at least once.
type Act = fn(&Bulkhead, &Runtime);
const CALLERS: [(&str, Act); 9] = [
    ("call", |bulkhead, _| bulkhead.call(|_| ()).unwrap()),
    ("submit", |bulkhead, _| bulkhead.submit(|_| ()).unwrap().join().unwrap()),
    ("try_submit", |bulkhead, _| bulkhead.try_submit(|_| ()).unwrap().join().unwrap()),
    ("cancel", |bulkhead, _| {
        bulkhead.submit(|_| ()).unwrap().cancel();
    }),
    ("join_timeout", |bulkhead, _| {
        let job = bulkhead.submit(|_| ()).unwrap();
        drop(job.join_timeout(Duration::from_secs(60)));
    }),
    ("snapshot", |bulkhead, _| drop(bulkhead.snapshot())),
    ("future", |bulkhead, _| {
        let mut call = Box::pin(bulkhead.call_async(|_| ()));
        drop(call.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        // Dropped while a panic is under way, a panic more would end the process.
        drop(call);
    }),
    ("batch", |bulkhead, _| {
        let batch = Batch::new();
        batch.submit(bulkhead, (), |_| ()).unwrap();
        batch.receiver().recv().unwrap().1.unwrap();
    }),
    ("shutdown", |_, runtime| drop(runtime.shutdown(Duration::MAX))),
];

#[test]
fn c27_a_clock_that_panics_on_a_caller_s_thread_leaves_the_bulkhead_whole() {
    within("c27_a_clock_that_panics_on_a_caller_s_thread_leaves_the_bulkhead_whole", || {
        for (what, act) in CALLERS {
            let clock = Arc::new(Broken::default());
            let (runtime, bulkhead) =
                build_on(&clock, Bulkhead::builder("c27").threads(2).queue(2));
            let (caller, broken) = (bulkhead.clone(), Arc::clone(&clock));
            let runtime = Arc::new(runtime);
            let shared = Arc::clone(&runtime);
            let acting = thread::Builder::new().name("a caller".into());
            let acting = acting.spawn(move || {
                broken.next_reading_panics_on("a caller");
                act(&caller, &shared);
            });
            within(what, move || acting.unwrap().join()).unwrap();
            assert!(clock.has_panicked(1), "{what} did not read the clock");
            assert_eq!(bulkhead.snapshot().hook_panics, 1, "{what}");
            if what != "shutdown" {
                serves_on(Arc::into_inner(runtime).unwrap(), &bulkhead);
            }
        }
    });
}

#[test]
fn c27_a_clock_that_panics_while_the_runtime_is_dropped_keeps_no_thread() {
    within("c27_a_clock_that_panics_while_the_runtime_is_dropped_keeps_no_thread", || {
        let clock = Arc::new(Broken::default());
        let (runtime, bulkhead) = build_on(&clock, Bulkhead::builder("c27").threads(2).queue(2));
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 4);
        gate.wait_for(2);
        clock.next_reading_panics_on("dropping");
        let dropping = thread::Builder::new().name("dropping".into()).spawn(move || drop(runtime));
        let mut told = 0;
        gate.open();
        within("the drop", move || dropping.unwrap().join()).unwrap();
        for job in held {
            told += usize::from(within("a job", move || job.join()).is_err());
        }
        assert!(told <= 2);
        assert!(clock.has_panicked(1));
    });
}

/// A waker that panics when it wakes, or when it is dropped.
struct BadWaker(bool);

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        if self.0 {
            blow(1);
        }
    }
}

impl Drop for BadWaker {
    fn drop(&mut self) {
        if !self.0 && !thread::panicking() {
            blow(1);
        }
    }
}

#[test]
fn c27_wakers_may_panic_when_they_wake_and_when_they_are_dropped() {
    within("c27_wakers_may_panic_when_they_wake_and_when_they_are_dropped", || {
        let policy = RejectionPolicy::Wait { at_most: Duration::MAX, submitters: 9 };
        for wakes in [true, false] {
            let (runtime, bulkhead) =
                build(Bulkhead::builder("c27").threads(1).queue(0).rejection(policy).no_deadline());
            let gate = Gate::new();
            let held = hold(&bulkhead, &gate, 1);
            gate.wait_for(1);
            // One waits in line, one for its answer.
            let mut in_line = Box::pin(bulkhead.call_async(|_| 3));
            poll_with(&mut in_line, wakes);
            let mut answer = held.into_iter().next().unwrap();
            poll_with(&mut answer, wakes);
            // Replaced by another, the first waker is dropped.
            poll_with(&mut answer, wakes);
            gate.open();
            answer.join().unwrap();
            eventually("the one in line has run", || bulkhead.snapshot().totals.returned == 2);
            drop(in_line);
            serves_on(runtime, &bulkhead);
        }
    });
}

fn poll_with<F: Future + Unpin>(future: &mut F, panics: bool) {
    let waker = Waker::from(Arc::new(BadWaker(panics)));
    assert!(Pin::new(future).poll(&mut Context::from_waker(&waker)).is_pending());
    // The test's own handle of it goes here, and what its destructor does is the test's.
    std::mem::forget(catch_unwind(AssertUnwindSafe(|| drop(waker))));
}

/// Ways of an answer that nobody takes.
type Leaves = fn(&Bulkhead, Gate, fn() -> Bomb);
const LEAVERS: [(&str, Leaves); 5] = [
    ("a handle dropped", |bulkhead, gate, value| {
        drop(bulkhead.submit(answer(gate, value)).unwrap());
    }),
    ("a call timed out", |bulkhead, gate, value| {
        let soon = Deadline::after(Duration::from_millis(200));
        let error = bulkhead.call_until(soon, answer(gate, value)).map(std::mem::forget);
        assert!(error.is_err());
    }),
    ("a deadline with nobody there", |bulkhead, gate, value| {
        let soon = Deadline::after(Duration::from_millis(200));
        let job = bulkhead.submit_until(soon, answer(gate, value)).unwrap();
        assert!(job.join().map(std::mem::forget).is_err());
    }),
    ("a future dropped", |bulkhead, gate, value| {
        let mut call = Box::pin(bulkhead.call_async(answer(gate, value)));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }),
    ("a batch dropped", |bulkhead, gate, value| {
        let batch = Batch::new();
        // The key as well as the value.
        batch.submit(bulkhead, Bomb(2), answer(gate, value)).map_err(drop).unwrap();
    }),
];

fn answer(
    gate: Gate,
    value: fn() -> Bomb,
) -> impl FnOnce(&watertight::Context<'_>) -> Bomb + Send + 'static {
    move |_| {
        gate.pass();
        value()
    }
}

#[test]
fn c27_answers_that_nobody_takes_may_panic_when_dropped() {
    within("c27_answers_that_nobody_takes_may_panic_when_dropped", || {
        for (how, leave) in LEAVERS {
            // A value; a panic's payload.
            for value in [|| Bomb(3), || resume_unwind(Box::new(Bomb(3)))] {
                let (runtime, bulkhead) =
                    build(Bulkhead::builder("c27").threads(1).queue(0).no_deadline());
                let gate = Gate::new();
                let before = bulkhead.snapshot().totals.ended();
                leave(&bulkhead, gate.clone(), value);
                gate.open();
                eventually(how, || bulkhead.snapshot().totals.ended() == before + 1);
                serves_on(runtime, &bulkhead);
            }
        }
    });
}

#[test]
fn c27_captures_with_payloads_that_panic_are_contained_however_the_job_ends() {
    within("c27_captures_with_payloads_that_panic_are_contained_however_the_job_ends", || {
        let clock = Arc::new(ManualClock::new());
        let runtime = Runtime::builder()
            .clock(Arc::clone(&clock))
            .bulkhead(
                Bulkhead::builder("c27").threads(1).queue(2).rejection(RejectionPolicy::DropOldest),
            )
            .build()
            .unwrap();
        let bulkhead = runtime.bulkhead("c27").unwrap();
        let armed = || {
            let bomb = Bomb(3);
            move |_: &watertight::Context<'_>| {
                let _captured = &bomb;
            }
        };
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        let cancelled = bulkhead.submit(armed()).unwrap();
        assert!(cancelled.cancel());
        let displaced = bulkhead.submit(armed()).unwrap();
        let soon = Deadline::at(clock.now() + Duration::from_secs(1));
        let expired = bulkhead.submit_until(soon, armed()).unwrap();
        let newest = bulkhead.submit(armed()).unwrap();
        assert_eq!(displaced.join().unwrap_err().rejection(), Some(Rejection::Displaced));
        clock.advance(Duration::from_secs(1));
        assert_eq!(expired.join().unwrap_err().rejection(), Some(Rejection::DeadlinePast));
        gate.open();
        // The last one runs, and the panic of its captures is its own.
        let CallError::Panicked(own) = newest.join().unwrap_err() else { panic!("its captures") };
        std::mem::forget(own);
        for job in held {
            job.join().unwrap();
        }
        eventually("three have been dropped", || bulkhead.snapshot().drop_panics == 3);
        serves_on(runtime, &bulkhead);
    });
}

/// A job that waits at the gate with an abort hook, whose captures panic when they are dropped.
fn with_abort_hook(
    bulkhead: &Bulkhead,
    deadline: Deadline,
    gate: &Gate,
    acts: fn(&Gate),
) -> JobHandle<()> {
    let gate = gate.clone();
    let job = bulkhead.submit_until(deadline, move |ctx| {
        let (hooked, bomb) = (gate.clone(), Bomb(2));
        let guard = ctx.on_abort(move || {
            let _captured = &bomb;
            acts(&hooked);
        });
        gate.pass();
        drop(guard);
    });
    job.unwrap()
}

#[test]
fn c27_abort_hooks_may_panic_whoever_calls_them() {
    within("c27_abort_hooks_may_panic_whoever_calls_them", || {
        let acts = |gate: &Gate| {
            gate.open();
            blow(2);
        };
        for how in ["cancel", "deadline", "shutdown"] {
            let clock = Arc::new(ManualClock::new());
            let runtime = Runtime::builder()
                .clock(Arc::clone(&clock))
                .bulkhead(Bulkhead::builder("c27").threads(1))
                .build()
                .unwrap();
            let bulkhead = runtime.bulkhead("c27").unwrap();
            let gate = Gate::new();
            let deadline = Deadline::at(clock.now() + Duration::from_secs(1));
            let job = with_abort_hook(&bulkhead, deadline, &gate, acts);
            gate.wait_for(1);
            match how {
                "cancel" => assert!(!job.cancel()),
                "deadline" => clock.advance(Duration::from_secs(1)),
                _ => drop(runtime.shutdown(Duration::ZERO).unwrap()),
            }
            let answer = within("the job", move || job.join());
            assert_eq!(answer.is_err(), how == "deadline");
            eventually("it is counted", || bulkhead.snapshot().hook_panics == 1);
            if how != "shutdown" {
                serves_on(runtime, &bulkhead);
            }
        }
    });
}

#[test]
fn c27_an_abort_hook_that_comes_too_late_and_panics_is_counted_too() {
    within("c27_an_abort_hook_that_comes_too_late_and_panics_is_counted_too", || {
        let (runtime, bulkhead) = build(Bulkhead::builder("c27").threads(1));
        let (started, gate) = (Gate::new(), Gate::new());
        let (inner, first) = (gate.clone(), started.clone());
        first.open();
        let job = bulkhead.submit(move |ctx| {
            first.pass();
            inner.pass();
            let _guard = ctx.on_abort(|| blow(2));
        });
        let job = job.unwrap();
        started.wait_for(1);
        job.cancel();
        gate.open();
        within("the job", move || job.join().unwrap());
        eventually("it is counted", || bulkhead.snapshot().hook_panics == 1);
        serves_on(runtime, &bulkhead);
    });
}

#[test]
fn c27_an_abort_hook_s_captures_may_panic_on_the_thread_that_aborts() {
    within("c27_an_abort_hook_s_captures_may_panic_on_the_thread_that_aborts", || {
        // While the first hook acts, the job takes the others back, so that what they captured goes with
        // whoever aborts. Once that is a caller, and once the timekeeper.
        for by_timekeeper in [false, true] {
            let clock = Arc::new(ManualClock::new());
            let runtime = Runtime::builder()
                .clock(Arc::clone(&clock))
                .bulkhead(Bulkhead::builder("c27").threads(1))
                .build()
                .unwrap();
            let bulkhead = runtime.bulkhead("c27").unwrap();
            let (gate, taken_back) = (Gate::new(), Gate::new());
            let (inner, last) = (gate.clone(), taken_back.clone());
            let deadline = Deadline::at(clock.now() + Duration::from_secs(1));
            let job = bulkhead.submit_until(deadline, move |ctx| {
                let (opens, waits) = (inner.clone(), last.clone());
                let acting = ctx.on_abort(move || {
                    opens.open();
                    waits.pass();
                });
                let [one, other] = [Bomb(2), Bomb(2)];
                let first = ctx.on_abort(move || {
                    let _captured = &one;
                });
                let second = ctx.on_abort(move || {
                    let _captured = &other;
                });
                inner.pass();
                drop((first, second));
                last.open();
                drop(acting);
            });
            let job = job.unwrap();
            gate.wait_for(1);
            if by_timekeeper {
                clock.advance(Duration::from_secs(1));
                assert!(within("the job", move || job.join()).is_err());
            } else {
                assert!(!job.cancel());
                within("the job", move || job.join()).unwrap();
            }
            taken_back.open();
            serves_on(runtime, &bulkhead);
        }
    });
}

/// A key that says where it was dropped, and panics.
struct Key(Arc<Mutex<Vec<Option<String>>>>);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(thread::current().name().map(str::to_owned));
        if !thread::panicking() {
            blow(1);
        }
    }
}

/// Stays in `on_rejected`, where it is told of a refusal that another thread is waiting for.
struct Lingers(Gate);

impl Observer for Lingers {
    fn on_rejected(&self, _: &RejectedEvent<'_>) {
        self.0.pass();
    }
}

#[test]
fn c27_the_key_of_a_batch_that_is_refused_late_goes_with_its_submitter() {
    within("c27_the_key_of_a_batch_that_is_refused_late_goes_with_its_submitter", || {
        let (clock, lingers) = (Arc::new(ManualClock::new()), Gate::new());
        let policy = RejectionPolicy::Wait { at_most: Duration::from_secs(1), submitters: 1 };
        let runtime = Runtime::builder()
            .clock(Arc::clone(&clock))
            .observer(Lingers(lingers.clone()))
            .bulkhead(Bulkhead::builder("c27").threads(1).queue(0).rejection(policy))
            .build()
            .unwrap();
        let bulkhead = runtime.bulkhead("c27").unwrap();
        let gate = Gate::new();
        let held = hold(&bulkhead, &gate, 1);
        gate.wait_for(1);
        let dropped = Arc::default();
        let submitting = {
            let (bulkhead, key) = (bulkhead.clone(), Key(Arc::clone(&dropped)));
            let submitter = thread::Builder::new().name("the submitter".into());
            submitter.spawn(move || {
                let batch = Batch::new();
                let refused = batch.submit(&bulkhead, key, |_| ()).unwrap_err();
                assert_eq!(refused.reason(), Rejection::WaitLimit);
                assert_eq!(batch.pending(), 0);
            })
        };
        eventually("it waits", || bulkhead.snapshot().waiting == 1);
        // The timekeeper ends the wait, and then stays with the observer until all is over here.
        clock.advance(Duration::from_secs(1));
        within("the submitter", move || submitting.unwrap().join()).unwrap();
        assert_eq!(*dropped.lock().unwrap(), [Some("the submitter".to_owned())]);
        lingers.open();
        gate.open();
        for job in held {
            job.join().unwrap();
        }
        serves_on(runtime, &bulkhead);
    });
}

#[test]
fn c27_what_a_hook_captured_may_panic_on_the_last_thread_of_all() {
    // In a process of its own: a panic at the very end of a thread would end the process.
    if part().is_some() {
        let (gate, gone) = (Gate::new(), Gate::new());
        let (told, bomb) = (Arc::new(gone.clone()), Bomb(3));
        let runtime = Runtime::builder()
            .drop_wait(Duration::ZERO)
            .bulkhead(Bulkhead::builder("last").threads(1).on_thread_stop(move |_| {
                let _captured = &bomb;
                told.open();
            }))
            .build()
            .unwrap();
        let bulkhead = runtime.bulkhead("last").unwrap();
        drop(hold(&bulkhead, &gate, 1));
        gate.wait_for(1);
        drop((bulkhead, runtime));
        gate.open();
        gone.pass();
        let left = || crate::support::threads_named("wt-last");
        eventually("its threads are gone", || left() == 0);
        std::process::exit(7);
    }
    let this = "hostile::c27_what_a_hook_captured_may_panic_on_the_last_thread_of_all";
    let output = ends("the child", child(this, "child"));
    assert_eq!(output.status.code(), Some(7), "{output:?}");
}
