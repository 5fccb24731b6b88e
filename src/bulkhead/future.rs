//! Futures that call and submit, for code that must not block. They need no executor of ours.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{self, Poll};

use super::submission::{Manner, Until};
use super::{Bulkhead, CancelOnDrop, JobHandle};
use crate::compartment::{
    Admission, AtDoor, Context, Detached, Job, JobCell, ToCaller, Withdrawn, here,
};
use crate::error::{CallError, Rejected, Rejection};
use crate::sync::Arc;

/// The future of [`Bulkhead::submit_async`]: a handle, once the job has a place.
///
/// It panics if it is polled again after it was ready.
#[must_use = "a future does nothing until it is polled"]
pub struct SubmitFuture<F, T> {
    bulkhead: Bulkhead,
    until: Until,
    stage: Stage<F, T>,
}

enum Stage<F, T> {
    /// Nothing has happened yet.
    New(F),
    /// Stands in line for a place.
    AtDoor(Arc<JobCell<F, T>>, u64),
    Over,
}

// Nothing inside is ever pinned: the closure is moved into a job at the first poll.
impl<F, T> Unpin for SubmitFuture<F, T> {}

impl<F, T> SubmitFuture<F, T> {
    pub(super) fn new(bulkhead: Bulkhead, until: Until, job: F) -> Self {
        Self { bulkhead, until, stage: Stage::New(job) }
    }
}

impl<F, T> Future for SubmitFuture<F, T>
where
    F: FnOnce(&Context<'_>) -> T + Send + 'static,
    T: Send + 'static,
{
    type Output = Result<JobHandle<T>, Rejected<F>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match std::mem::replace(&mut this.stage, Stage::Over) {
            Stage::New(job) => {
                let job = this.bulkhead.greet(Manner::MayWait, job)?;
                // A call that is polled inside a job is that job waiting, as when it blocks.
                let current = here::current_job();
                let inherited = here::deadline();
                let own = this.bulkhead.deadline(this.until);
                let deadline = match this.until {
                    Until::CallLimit => own.earlier(inherited),
                    Until::Deadline(_) => own,
                };
                let cell = this.bulkhead.cell(deadline, job, ToCaller);
                let offered = Arc::clone(&cell) as Arc<dyn Job>;
                let admission = {
                    let _waiting = current.map(|current| here::wait_for(cell.header(), current));
                    let patience = deadline.earlier(inherited);
                    this.bulkhead.compartment.offer(offered, patience, false, true)
                };
                match admission {
                    Admission::Refused(_, why) => {
                        return Poll::Ready(Err(this.bulkhead.turn_away(&cell, why)));
                    }
                    Admission::Accepted(seq) => {
                        let handle = JobHandle::new(this.bulkhead.clone(), cell, seq);
                        return Poll::Ready(Ok(handle));
                    }
                    Admission::Waiting(seq) => this.stage = Stage::AtDoor(cell, seq),
                }
            }
            at_door @ Stage::AtDoor(..) => this.stage = at_door,
            Stage::Over => panic!("a submission is not polled after it was ready"),
        }
        let Stage::AtDoor(cell, seq) = &this.stage else {
            return Poll::Pending;
        };
        let ready = match cell.slot().poll_at_door(cx.waker()) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(AtDoor::Refused(why)) => Err(this.bulkhead.give_back(cell, why)),
            Poll::Ready(AtDoor::Granted | AtDoor::TimedOut) => {
                Ok(JobHandle::new(this.bulkhead.clone(), Arc::clone(cell) as _, *seq))
            }
        };
        this.stage = Stage::Over;
        Poll::Ready(ready)
    }
}

impl<F, T> Drop for SubmitFuture<F, T> {
    fn drop(&mut self) {
        let Stage::AtDoor(cell, seq) = &self.stage else {
            return;
        };
        cell.header().cancelled.raise();
        match self.bulkhead.compartment.withdraw(*seq, Rejection::Cancelled) {
            // It stood in line: it leaves, and its closure goes with it.
            Withdrawn::Waiting(_) => {
                let _ = self.bulkhead.turn_away(cell, Rejection::Cancelled);
            }
            // It had a place without our having been told, and gave it back.
            Withdrawn::Unstarted => {}
            // It was sent away, runs, or is over.
            Withdrawn::Gone => match cell.slot().detach() {
                Detached::Refused => drop(cell.take_body()),
                Detached::Pending => {
                    cell.header().left.raise();
                    self.bulkhead.compartment.abort(cell.header());
                }
                Detached::Ended => {}
            },
        }
    }
}

impl<F, T> fmt::Debug for SubmitFuture<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::New(_) => "new",
            Stage::AtDoor(..) => "waiting for a place",
            Stage::Over => "over",
        };
        f.debug_struct("SubmitFuture")
            .field("bulkhead", &self.bulkhead.name())
            .field("stage", &stage)
            .finish_non_exhaustive()
    }
}

/// The future of [`Bulkhead::call_async`]: the job's value.
///
/// It panics if it is polled again after it was ready.
#[must_use = "a future does nothing until it is polled"]
#[derive(Debug)]
pub struct CallFuture<F, T>(Call<F, T>);

#[derive(Debug)]
enum Call<F, T> {
    AtDoor(SubmitFuture<F, T>),
    Accepted(CancelOnDrop<T>),
}

impl<F, T> CallFuture<F, T> {
    pub(super) fn new(submission: SubmitFuture<F, T>) -> Self {
        Self(Call::AtDoor(submission))
    }
}

impl<F, T> Future for CallFuture<F, T>
where
    F: FnOnce(&Context<'_>) -> T + Send + 'static,
    T: Send + 'static,
{
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        if let Call::AtDoor(submission) = &mut self.0 {
            match task::ready!(Pin::new(submission).poll(cx)) {
                Err(rejected) => return Poll::Ready(Err(rejected.into())),
                Ok(handle) => self.0 = Call::Accepted(handle.cancel_on_drop()),
            }
        }
        let Call::Accepted(handle) = &mut self.0 else {
            return Poll::Pending;
        };
        Pin::new(handle).poll(cx)
    }
}
