//! [`JobCell`]: one job, seen by its compartment as something to run and by its caller as something
//! to wait for.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use super::abort::Abort;
use super::context::Context;
use super::slot::{Answer, Slot};
use crate::contain::drop_contained;
use crate::error::{CallError, NotStarted, Panicked, Rejection, TimedOut};
use crate::event::Outcome;
use crate::sync::{Arc, Flag, Mutex};
use crate::time::Deadline;

/// What its compartment, its context and the jobs that wait for it may know of any job.
#[derive(Debug)]
pub(crate) struct Header {
    /// The compartment that it belongs to.
    pub(crate) home: u64,
    pub(crate) deadline: Deadline,
    /// Somebody has asked it to stop.
    pub(crate) cancelled: Flag,
    /// Its caller is gone; if it runs, it is overdue.
    pub(crate) left: Flag,
    /// How to reach it while it is blocked.
    pub(crate) abort: Abort,
    /// The job that waits for this one, while one does: the next link of a chain of waiting jobs.
    pub(crate) waited_by: Mutex<Option<Arc<dyn Job>>>,
}

impl Header {
    pub(crate) fn new(home: u64, deadline: Deadline) -> Self {
        Self {
            home,
            deadline,
            cancelled: Flag::new(),
            left: Flag::new(),
            abort: Abort::default(),
            waited_by: Mutex::new(None),
        }
    }
}

/// A job as its compartment sees it. No method is called with a lock held.
pub(crate) trait Job: Send + Sync {
    fn header(&self) -> &Header;
    /// Runs the closure to its end and settles the answer, which nobody sees before `publish`.
    fn run(&self, context: &Context<'_>) -> Ran;
    /// Lets the caller see what was settled. For whoever settled it, who also wakes the waker.
    fn publish(&self) -> Option<Waker>;
    /// Whether publishing runs none of the user's code, the waker apart.
    fn is_published_quietly(&self) -> bool;
    /// Tells the caller that the job ended unstarted. The first end counts.
    fn end_unstarted(&self, why: NotStarted);
    /// Drops the closure of a job that will not run. Says whether that panicked.
    fn discard(&self) -> bool;
    /// Tells a caller at the door that the job has a place.
    fn grant(&self);
    /// Tells a caller at the door that it is sent away.
    fn refuse(&self, why: Rejection);
    /// Settles that the time of a running job's caller has passed, unless something else has been
    /// settled. Says whether this was; nobody sees it before `publish`.
    fn time_out(&self, why: TimedOut) -> bool;
}

/// How a closure came to its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    /// Its answer was settled, and is to be published: somebody waits for it.
    pub(crate) settled: bool,
}

impl std::fmt::Debug for dyn Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("header", self.header()).finish_non_exhaustive()
    }
}

/// Where an answer goes once it is in the slot.
pub(crate) trait Route<T>: Send + Sync {
    /// Whether nobody will ever look for the answer.
    fn is_abandoned(&self) -> bool;
    /// The answer is in the slot.
    fn deliver(&self, slot: &Slot<T>);
    /// Whether delivering runs none of the user's code.
    fn is_quiet(&self) -> bool {
        false
    }
    /// There will be no answer. What the caller gave along goes now, on this thread.
    fn recall(&self) {}
}

/// The caller comes for it: a blocked thread, a handle, a future.
#[derive(Debug)]
pub(crate) struct ToCaller;

impl<T> Route<T> for ToCaller {
    fn is_abandoned(&self) -> bool {
        false
    }

    fn deliver(&self, _: &Slot<T>) {}

    fn is_quiet(&self) -> bool {
        true
    }
}

/// The job's one allocation.
///
/// It lives in a standard `Arc`, because both sides see it as a trait object. When the last `Arc`
/// goes, nothing of the user's is left inside: the closure has been run, discarded or handed back,
/// and the answer taken, sent or dropped.
pub(crate) struct JobCell<F, T, R = ToCaller> {
    header: Header,
    /// The closure, until it is run, discarded, or handed back.
    body: Mutex<Option<F>>,
    slot: Slot<T>,
    route: R,
    result: PhantomData<fn() -> T>,
}

impl<F, T, R> JobCell<F, T, R> {
    pub(crate) fn new(body: F, header: Header, route: R) -> Self {
        Self { header, body: Mutex::new(Some(body)), slot: Slot::new(), route, result: PhantomData }
    }

    /// The closure of a job that was refused.
    pub(crate) fn take_body(&self) -> Option<F> {
        self.body.lock().take()
    }

    pub(crate) fn slot(&self) -> &Slot<T> {
        &self.slot
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }
}

impl<F, T, R> JobCell<F, T, R>
where
    R: Route<T>,
{
    /// The caller takes note that its job was refused.
    pub(crate) fn recall(&self) {
        self.route.recall();
    }

    /// Says whether anybody will see it.
    fn settle(&self, answer: Answer<T>) -> bool {
        // The job still counts as running: what its result's destructor does is part of it.
        if self.route.is_abandoned() {
            drop_contained(answer);
            self.route.recall();
            return false;
        }
        let unwanted = self.slot.settle(answer);
        let settled = unwanted.is_none();
        drop_contained(unwanted);
        settled
    }
}

impl<F, T, R> Job for JobCell<F, T, R>
where
    F: FnOnce(&Context<'_>) -> T + Send,
    T: Send,
    R: Route<T>,
{
    fn header(&self) -> &Header {
        &self.header
    }

    fn run(&self, context: &Context<'_>) -> Ran {
        let Some(body) = self.body.lock().take() else {
            debug_assert!(false, "a job was run that had been discarded");
            return Ran { outcome: Outcome::Returned, settled: false };
        };
        // AssertUnwindSafe: the closure is consumed, and what it shares with the outside is the
        // user's, as with a thread that panics.
        match catch_unwind(AssertUnwindSafe(move || body(context))) {
            Ok(value) => Ran { settled: self.settle(Ok(value)), outcome: Outcome::Returned },
            Err(payload) => {
                let panicked = CallError::Panicked(Panicked::new(context.facts(), payload));
                Ran { settled: self.settle(Err(panicked)), outcome: Outcome::Panicked }
            }
        }
    }

    fn publish(&self) -> Option<Waker> {
        let waker = self.slot.publish();
        self.route.deliver(&self.slot);
        waker
    }

    fn is_published_quietly(&self) -> bool {
        self.route.is_quiet()
    }

    fn end_unstarted(&self, why: NotStarted) {
        if self.slot.finish(Err(CallError::NotStarted(why))).is_none() {
            self.route.deliver(&self.slot);
        }
    }

    fn discard(&self) -> bool {
        let body = self.body.lock().take();
        drop_contained(body)
    }

    fn grant(&self) {
        self.slot.grant();
    }

    fn refuse(&self, why: Rejection) {
        if !self.slot.refuse(why) {
            // The caller has left without knowing. Its closure must not outlive this moment.
            self.discard();
        }
    }

    fn time_out(&self, why: TimedOut) -> bool {
        self.header.left.raise();
        self.slot.settle(Err(CallError::TimedOut(why))).is_none()
    }
}

/// A job as its handle sees it: without the closure's type.
pub(crate) trait Pending<T>: Send + Sync {
    fn slot(&self) -> &Slot<T>;
    fn header(&self) -> &Header;
}

impl<F, T, R> Pending<T> for JobCell<F, T, R>
where
    F: Send,
    T: Send,
    R: Send + Sync,
{
    fn slot(&self) -> &Slot<T> {
        &self.slot
    }

    fn header(&self) -> &Header {
        &self.header
    }
}
