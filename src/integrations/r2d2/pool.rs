//! [`Pool`]: a bulkhead whose jobs receive a connection.

use std::fmt;

use ::r2d2::ManageConnection;

use super::builder::PoolBuilder;
use super::error::ConnectionError;
use super::held;
use super::shared::{PoolStatus, Shared};
use crate::bulkhead::{Bulkhead, JobHandle};
use crate::compartment::{Context, Resource};
use crate::error::{CallError, Flatten, Rejected, Rejection};
use crate::integrations::around::submit_around;
use crate::sync::Arc;
use crate::time::Deadline;

/// A bulkhead with connections of its own. Cheap to clone, safe to keep.
///
/// It is closed with its runtime; or before, when the last handle and the last job that came through
/// one are gone. Then its connections are closed and its helper threads end.
///
/// A job that asks for a second connection of the pool whose connection it holds is refused as
/// [`WouldDeadlock`](Rejection::WouldDeadlock), at once and always: if all jobs did it at the same
/// time, all would wait for each other. Hand the connection down, or use a bulkhead of its own.
pub struct Pool<M: ManageConnection>
where
    M::Error: Send + Sync,
{
    bulkhead: Bulkhead,
    owner: Arc<Owner<M>>,
}

/// What the handles and jobs own together: the last of them closes the pool.
struct Owner<M: ManageConnection>(Arc<Shared<M>>)
where
    M::Error: Send + Sync;

impl<M: ManageConnection> Drop for Owner<M>
where
    M::Error: Send + Sync,
{
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<M: ManageConnection> Pool<M>
where
    M::Error: Send + Sync,
{
    /// Starts the description of a pool whose connections `manager` opens.
    pub fn builder(manager: M) -> PoolBuilder<M> {
        PoolBuilder::new(manager)
    }

    pub(super) fn new(bulkhead: Bulkhead, shared: Arc<Shared<M>>) -> Self {
        Self { bulkhead, owner: Arc::new(Owner(shared)) }
    }

    /// The bulkhead that the jobs run in.
    #[must_use]
    pub const fn bulkhead(&self) -> &Bulkhead {
        &self.bulkhead
    }

    /// What tells this pool from others.
    #[cfg(feature = "postgres")]
    pub(in crate::integrations) fn id(&self) -> u64 {
        self.owner.0.id
    }

    /// The numbers of the pool at this instant.
    #[must_use]
    pub fn status(&self) -> PoolStatus {
        self.owner.0.status()
    }

    /// Runs `job` with a connection on one of the bulkhead's threads and waits for its value.
    ///
    /// It has the bulkhead's [`call_limit`](crate::BulkheadBuilder::call_limit), the wait for a
    /// connection included. What becomes of the connection depends on how the job ends; see the
    /// [module](crate::r2d2#what-goes-back-to-the-pool).
    ///
    /// # Errors
    ///
    /// [`CallError::Failed`] with the [`ConnectionError`] if there was no connection; then `job` was
    /// never started. The others are as for [`Bulkhead::call`]. If the closure itself returns a
    /// `Result`, that is inside: `pool.call(query)??` passes on both.
    pub fn call<F, T>(&self, job: F) -> Result<T, CallError<ConnectionError>>
    where
        F: FnOnce(&mut M::Connection, &Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.refuse_the_second_connection()?;
        self.bulkhead.call(self.with_connection(job)).flat()
    }

    /// Runs `job` with a connection and waits for its value until `deadline`, instead of the
    /// bulkhead's own limit.
    ///
    /// # Errors
    ///
    /// As for [`call`](Pool::call).
    pub fn call_until<F, T>(
        &self,
        deadline: Deadline,
        job: F,
    ) -> Result<T, CallError<ConnectionError>>
    where
        F: FnOnce(&mut M::Connection, &Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.refuse_the_second_connection()?;
        self.bulkhead.call_until(deadline, self.with_connection(job)).flat()
    }

    /// Hands `job` over and returns a handle to it, without a limit on the whole. The wait for a
    /// connection has its own ([`connect_limit`](PoolBuilder::connect_limit)).
    ///
    /// ```
    /// # #[derive(Debug)] struct Connections;
    /// # impl watertight::r2d2::ManageConnection for Connections {
    /// #     type Connection = Vec<u8>;
    /// #     type Error = std::io::Error;
    /// #     fn connect(&self) -> std::io::Result<Vec<u8>> { Ok(vec![4]) }
    /// #     fn is_valid(&self, _: &mut Vec<u8>) -> std::io::Result<()> { Ok(()) }
    /// #     fn has_broken(&self, _: &mut Vec<u8>) -> bool { false }
    /// # }
    /// use watertight::{Bulkhead, Flatten, Rejected, Runtime, r2d2::Pool};
    ///
    /// let runtime = Runtime::builder().bulkhead(Bulkhead::builder("reviews").threads(1)).build()?;
    /// let reviews = Pool::builder(Connections).build(&runtime.bulkhead("reviews")?)?;
    ///
    /// let job = reviews.submit(|connection, _| connection[0]).map_err(Rejected::forget)?;
    /// assert_eq!(job.join().flat()?, 4);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Rejected`] with the closure inside, if the bulkhead has no place for it.
    pub fn submit<F, T>(&self, job: F) -> Result<JobHandle<Result<T, ConnectionError>>, Rejected<F>>
    where
        F: FnOnce(&mut M::Connection, &Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_until(Deadline::never(), job)
    }

    /// Hands `job` over with a deadline, as [`Bulkhead::submit_until`] does.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Pool::submit).
    pub fn submit_until<F, T>(
        &self,
        deadline: Deadline,
        job: F,
    ) -> Result<JobHandle<Result<T, ConnectionError>>, Rejected<F>>
    where
        F: FnOnce(&mut M::Connection, &Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_wrapped(deadline, job, |job, connection, context| job(connection, context))
    }

    /// Hands over a job that `run` knows how to run with a connection.
    pub(in crate::integrations) fn submit_wrapped<F, T>(
        &self,
        deadline: Deadline,
        job: F,
        run: impl FnOnce(F, &mut M::Connection, &Context<'_>) -> T + Send + 'static,
    ) -> Result<JobHandle<Result<T, ConnectionError>>, Rejected<F>>
    where
        F: Send + 'static,
        T: Send + 'static,
    {
        let pool = self.clone();
        submit_around(&self.bulkhead, deadline, job, move |job, context| {
            pool.run(|connection, context| run(job, connection, context), context)
        })
    }

    fn with_connection<F, T>(
        &self,
        job: F,
    ) -> impl FnOnce(&Context<'_>) -> Result<T, ConnectionError> + Send + use<F, T, M>
    where
        F: FnOnce(&mut M::Connection, &Context<'_>) -> T + Send + 'static,
    {
        let pool = self.clone();
        move |context: &Context<'_>| pool.run(job, context)
    }

    /// On the worker.
    fn run<F, T>(&self, job: F, context: &Context<'_>) -> Result<T, ConnectionError>
    where
        F: FnOnce(&mut M::Connection, &Context<'_>) -> T,
    {
        let shared = &self.owner.0;
        let now = || self.bulkhead.compartment().now();
        let mut lease = shared.check_out(context, now)?;
        let _holding = held::hold(shared.id);
        let value = job(lease.connection(), context);
        shared.give_back(lease, context, now);
        Ok(value)
    }

    fn refuse_the_second_connection(&self) -> Result<(), Rejected> {
        if !held::is_held_here(self.owner.0.id) {
            return Ok(());
        }
        let (compartment, why) = (self.bulkhead.compartment(), Rejection::WouldDeadlock);
        compartment.count_arrival();
        compartment.count_refusal(why);
        let depth = compartment.depth_for(why);
        Err(Rejected::new(why, &compartment.vitals, depth, ()))
    }
}

impl<M: ManageConnection> Clone for Pool<M>
where
    M::Error: Send + Sync,
{
    fn clone(&self) -> Self {
        Self { bulkhead: self.bulkhead.clone(), owner: Arc::clone(&self.owner) }
    }
}

impl<M: ManageConnection> fmt::Debug for Pool<M>
where
    M::Error: Send + Sync,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("bulkhead", &self.bulkhead.name())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
