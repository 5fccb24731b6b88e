//! [`Bulkhead`]: the handle through which everything is called.
//!
//! Floor 3. It brings a caller's closure into a compartment and the answer back.

mod batch;
mod builder;
mod future;
mod handle;
mod snapshot;
mod submission;

use std::fmt;
use std::time::Duration;

pub use self::batch::Batch;
pub use self::builder::BulkheadBuilder;
pub(crate) use self::builder::{CoreRequest, Settings};
pub use self::future::{CallFuture, SubmitFuture};
pub use self::handle::{CancelOnDrop, JobHandle};
pub use self::snapshot::{Footprint, Snapshot};
use self::submission::{Manner, Until};

use crate::compartment::{Compartment, Context, RejectionPolicy, ToCaller};
use crate::error::{CallError, Rejected};
use crate::sync::OwnerArc;
use crate::time::Deadline;

/// A handle to one dependency's compartment. Cheap to clone, safe to keep.
///
/// It outlives its runtime: when that is gone, everything is refused as
/// [`ShuttingDown`](crate::Rejection::ShuttingDown).
///
/// Inside a job, whatever waits has at most the time that the job itself has left, and a job that
/// would have to queue behind the worker that waits for it is refused as
/// [`WouldDeadlock`](crate::Rejection::WouldDeadlock).
///
/// ```
/// use watertight::{Bulkhead, Runtime};
///
/// let runtime = Runtime::builder()
///     .bulkhead(Bulkhead::builder("pricing").threads(4))
///     .build()?;
/// let pricing = runtime.bulkhead("pricing")?;
///
/// let price = pricing.call(|_| 42)?;
/// assert_eq!(price, 42);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone)]
pub struct Bulkhead {
    compartment: OwnerArc<Compartment>,
}

impl Bulkhead {
    /// Starts the description of a bulkhead; [`RuntimeBuilder::bulkhead`] takes it.
    ///
    /// [`RuntimeBuilder::bulkhead`]: crate::RuntimeBuilder::bulkhead
    pub fn builder(name: impl Into<String>) -> BulkheadBuilder {
        BulkheadBuilder::new(name.into())
    }

    pub(crate) fn new(compartment: OwnerArc<Compartment>) -> Self {
        Self { compartment }
    }

    pub(crate) fn compartment(&self) -> &OwnerArc<Compartment> {
        &self.compartment
    }

    /// The bulkhead's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.compartment.name()
    }

    /// Runs `job` on one of the bulkhead's threads and waits for its value.
    ///
    /// It has the bulkhead's [`call_limit`](BulkheadBuilder::call_limit), one second unless set
    /// otherwise. If the time passes while the closure runs, the caller gets its error, and the
    /// thread stays taken until the closure returns.
    ///
    /// # Errors
    ///
    /// See [`CallError`]. A refused closure is dropped; use [`submit`](Bulkhead::submit), then
    /// [`JobHandle::join`], to get it back. If the closure itself returns a `Result`, see
    /// [`Flatten::flat`](crate::Flatten::flat).
    pub fn call<F, T>(&self, job: F) -> Result<T, CallError>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.call_and_wait(Until::CallLimit, job)
    }

    /// Runs `job` and waits for its value until `deadline`, instead of the bulkhead's own limit.
    ///
    /// # Errors
    ///
    /// As for [`call`](Bulkhead::call).
    pub fn call_until<F, T>(&self, deadline: Deadline, job: F) -> Result<T, CallError>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.call_and_wait(Until::Deadline(deadline), job)
    }

    /// Hands `job` over and returns a handle to it, without a limit on the whole.
    ///
    /// With [`RejectionPolicy::Wait`] it may wait for a place, within the policy's limits.
    ///
    /// # Errors
    ///
    /// [`Rejected`] with the closure inside, if the bulkhead has no place for it. To pass the error
    /// on with `?`, drop the closure first: `submit(job).map_err(Rejected::forget)?`.
    pub fn submit<F, T>(&self, job: F) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_as(Manner::MayWait, Deadline::never(), job)
    }

    /// Hands `job` over with a deadline, counted like that of [`call_until`](Bulkhead::call_until):
    /// when it comes, the handle has an answer, whether anybody is waiting or not.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Bulkhead::submit).
    pub fn submit_until<F, T>(
        &self,
        deadline: Deadline,
        job: F,
    ) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_as(Manner::MayWait, deadline, job)
    }

    /// Hands `job` over if there is a place for it right now. Never waits, whatever the policy.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Bulkhead::submit).
    pub fn try_submit<F, T>(&self, job: F) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_as(Manner::Never, Deadline::never(), job)
    }

    fn submit_as<F, T>(
        &self,
        manner: Manner,
        deadline: Deadline,
        job: F,
    ) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        let (cell, seq) = self.bring_in(manner, deadline, job, ToCaller)?;
        Ok(JobHandle::new(self.clone(), cell, seq))
    }

    /// A future of the value, for callers that must not block. Works on any executor.
    ///
    /// Nothing happens until it is polled; then it behaves as [`call`](Bulkhead::call), waits in the
    /// same line as blocked threads, and ends by the same limits. Dropped, it leaves the line; if
    /// its job was accepted, it is cancelled.
    pub fn call_async<F, T>(&self, job: F) -> CallFuture<F, T>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        CallFuture::new(SubmitFuture::new(self.clone(), Until::CallLimit, job))
    }

    /// A future of the value that ends at `deadline`, instead of the bulkhead's own limit.
    pub fn call_async_until<F, T>(&self, deadline: Deadline, job: F) -> CallFuture<F, T>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        CallFuture::new(SubmitFuture::new(self.clone(), Until::Deadline(deadline), job))
    }

    /// A future of the handle: waits for a place as [`submit`](Bulkhead::submit) does.
    pub fn submit_async<F, T>(&self, job: F) -> SubmitFuture<F, T>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        SubmitFuture::new(self.clone(), Until::Deadline(Deadline::never()), job)
    }

    /// The numbers of this bulkhead at this instant.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.compartment)
    }

    /// The most callers of [`call`](Bulkhead::call) that this bulkhead can hold at once, and for how
    /// long: what it can cost the service in front of it.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        let rules = &self.compartment.rules;
        let (submitters, longest_wait) = match rules.policy {
            RejectionPolicy::Wait { at_most, submitters } => (submitters, at_most),
            _ => (0, Duration::ZERO),
        };
        Footprint {
            callers: rules.threads.saturating_add(rules.queue).saturating_add(submitters),
            longest_call: self.compartment.vitals.facts.call_limit,
            longest_submit: (longest_wait != Duration::MAX).then_some(longest_wait),
        }
    }
}

impl fmt::Debug for Bulkhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulkhead").field("name", &self.name()).finish_non_exhaustive()
    }
}
