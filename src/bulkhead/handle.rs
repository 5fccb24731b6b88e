//! [`JobHandle`]: the caller's end of a submitted job.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{self, Poll};
use std::time::{Duration, Instant};

use super::Bulkhead;
use crate::compartment::{Answer, Pending, Withdrawn, Woken, here};
use crate::error::{CallError, Rejection};
use crate::sync::Arc;
use crate::time::{Clock, Deadline, MonotonicClock};

/// The caller's end of a job that has been accepted.
///
/// Wait for the answer with [`join`](JobHandle::join), or `.await` it: it is a future that works on
/// any executor. Dropping the handle detaches the job: it runs, and its value is dropped on its
/// worker. To have it cancelled instead, make it [`cancel_on_drop`](JobHandle::cancel_on_drop).
///
/// Once polling it as a future has given the answer, it is empty: polling it again panics, and so do
/// its other methods but [`bulkhead`](JobHandle::bulkhead).
#[must_use = "dropping the handle detaches the job; keep it to learn how the job ends"]
pub struct JobHandle<T> {
    bulkhead: Bulkhead,
    /// `None` once the answer is out.
    job: Option<Arc<dyn Pending<T>>>,
    seq: u64,
}

impl<T> JobHandle<T> {
    pub(super) fn new(bulkhead: Bulkhead, job: Arc<dyn Pending<T>>, seq: u64) -> Self {
        Self { bulkhead, job: Some(job), seq }
    }

    fn job(&self) -> &Arc<dyn Pending<T>> {
        // PANIC: only `join` and `poll` take the answer; the first consumes the handle, and polling
        // a future that is ready is a misuse which futures answer with a panic.
        self.job.as_ref().expect("a job's handle is not polled after it was ready")
    }

    /// The name of the bulkhead that the job is in.
    #[must_use]
    pub fn bulkhead(&self) -> &str {
        self.bulkhead.name()
    }

    /// Waits until the job has ended. In a job, no longer than that job's own deadline.
    ///
    /// # Errors
    ///
    /// See [`CallError`]; it cannot be `Rejected` any more. A worker that joins a job still queued
    /// in its own bulkhead ends it with [`Rejection::WouldDeadlock`].
    pub fn join(self) -> Result<T, CallError> {
        match self.wait(Deadline::never()) {
            Ok(answer) => answer,
            // Only the deadline of the job that we are in can have passed.
            Err(handle) => Err(handle.bulkhead.timed_out()),
        }
    }

    /// Waits until the job has ended, but not longer than `limit`.
    ///
    /// # Errors
    ///
    /// The handle itself, if the job has not ended by then. The job goes on.
    pub fn join_timeout(self, limit: Duration) -> Result<Result<T, CallError>, Self> {
        let now = self.bulkhead.compartment.now();
        self.wait(Deadline::from_now(now, limit))
    }

    fn wait(mut self, until: Deadline) -> Result<Answer<T>, Self> {
        let job = Arc::clone(self.job());
        let current = here::current_job();
        let in_ring = current
            .as_ref()
            .is_some_and(|current| here::is_waited_for_by(current, job.header().home));
        let _waiting = current.map(|current| here::wait_for(job.header(), current));
        if in_ring {
            self.bulkhead.compartment.break_ring(self.seq);
        }
        let until = until.earlier(here::deadline());
        if self.bulkhead.compartment.vitals.is_quick() {
            job.slot().look_briefly();
        }
        loop {
            match job.slot().wait(self.look_again(until)) {
                Woken::Answer(answer) => {
                    self.job = None;
                    return Ok(answer);
                }
                Woken::TimedOut if self.has_come(until) => return Err(self),
                // Too early, or news from the door, which this job has passed.
                Woken::TimedOut | Woken::Granted | Woken::Refused(_) => {}
            }
        }
    }

    /// Until when a thread can sleep that waits until `until`. Nobody wakes it when a clock is moved
    /// by hand, as in tests: there it looks now and then.
    fn look_again(&self, until: Deadline) -> Option<Instant> {
        let at = until.instant()?;
        let keeps_time = self.bulkhead.compartment.callers_keep_time();
        Some(if keeps_time { at } else { MonotonicClock.now() + Duration::from_millis(1) })
    }

    /// Whether `until` has come, for a thread that has slept as long as it could.
    fn has_come(&self, until: Deadline) -> bool {
        let compartment = &self.bulkhead.compartment;
        compartment.callers_keep_time() || until.is_past(compartment.now())
    }

    /// Whether the job has ended, so that joining returns at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.job().slot().is_done()
    }

    /// Asks the job to end.
    ///
    /// One that has not started leaves the queue at once, gives its place back, and its closure is
    /// dropped here; that returns `true`. One that is running has
    /// [`Context::is_cancelled`](crate::Context::is_cancelled) set, its
    /// [`on_abort`](crate::Context::on_abort) hooks act, here, and it goes on until it returns.
    #[expect(clippy::must_use_candidate, reason = "most who cancel do not care how far it was")]
    pub fn cancel(&self) -> bool {
        self.job().header().cancelled.raise();
        let compartment = &self.bulkhead.compartment;
        let unstarted =
            !matches!(compartment.withdraw(self.seq, Rejection::Cancelled), Withdrawn::Gone);
        if !unstarted {
            compartment.abort(self.job().header());
        }
        unstarted
    }

    /// A handle that [cancels](JobHandle::cancel) its job when it is dropped.
    #[must_use = "dropped at once, it cancels the job at once"]
    pub fn cancel_on_drop(self) -> CancelOnDrop<T> {
        CancelOnDrop(Some(self))
    }
}

impl<T> Future for JobHandle<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let polled = self.job().slot().poll(cx.waker());
        if polled.is_ready() {
            self.job = None;
        }
        polled
    }
}

impl<T> Drop for JobHandle<T> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            job.slot().detach();
        }
    }
}

impl<T> fmt::Debug for JobHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle")
            .field("bulkhead", &self.bulkhead())
            .field("finished", &self.job.as_ref().is_none_or(|job| job.slot().is_done()))
            .finish_non_exhaustive()
    }
}

/// A [`JobHandle`] that cancels its job when it is dropped. Made by [`JobHandle::cancel_on_drop`].
#[derive(Debug)]
#[must_use = "dropped at once, it cancels the job at once"]
pub struct CancelOnDrop<T>(Option<JobHandle<T>>);

impl<T> CancelOnDrop<T> {
    /// Waits until the job has ended.
    ///
    /// # Errors
    ///
    /// As for [`JobHandle::join`].
    pub fn join(mut self) -> Result<T, CallError> {
        self.take().join()
    }

    /// The plain handle again, which detaches when it is dropped.
    pub fn disarm(mut self) -> JobHandle<T> {
        self.take()
    }

    /// Whether the job has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().is_none_or(JobHandle::is_finished)
    }

    fn take(&mut self) -> JobHandle<T> {
        // PANIC: only consuming methods take it, so it is there.
        self.0.take().expect("a guard holds its handle until it is consumed")
    }
}

impl<T> Future for CancelOnDrop<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        // PANIC: as for polling a `JobHandle` after it was ready.
        let handle = self.0.as_mut().expect("a guard is not polled after it was ready");
        let polled = Pin::new(handle).poll(cx);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<T> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            if !handle.cancel() && !handle.is_finished() {
                // It runs on, and nobody is there for it any more.
                handle.job().header().left.raise();
            }
        }
    }
}
