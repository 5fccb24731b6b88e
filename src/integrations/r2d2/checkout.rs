//! [`Lease`]: how a job comes by its connection, and what becomes of it after.

use std::time::{Duration, Instant};

use ::r2d2::{ManageConnection, PooledConnection};

use super::error::{ConnectionError, ConnectionErrorKind};
use super::manager::Guarded;
use super::shared::{Open, Shared};
use crate::compartment::Context;
use crate::contain::contain;
use crate::sync::Ordering;
use crate::time::Deadline;

/// How often a worker that waits for a connection looks whether anybody still wants its job's
/// result: r2d2's own wait cannot be ended from outside. Half of what a freed thread may be late by.
const LOOK: Duration = Duration::from_millis(25);

/// A connection that a job holds. Dropped on the way of a panic, it discards the connection.
pub(super) struct Lease<M: ManageConnection>
where
    M::Error: Send + Sync,
{
    open: Open<M>,
    pooled: PooledConnection<Guarded<M>>,
}

impl<M: ManageConnection> Shared<M>
where
    M::Error: Send + Sync,
{
    /// A connection for the job of `context`, within what time it has. `now` is the runtime's clock.
    pub(super) fn check_out(
        &self,
        context: &Context<'_>,
        now: impl Fn() -> Instant,
    ) -> Result<Lease<M>, ConnectionError> {
        let start = Instant::now();
        let failed = |kind, cause| ConnectionError::new(kind, &self.about, start.elapsed(), cause);
        let Some(open) = self.open() else {
            return Err(failed(ConnectionErrorKind::Closed, None));
        };
        let _waiting = Waiting::count(self);
        let limit =
            context.remaining().map_or(self.connect_limit, |left| left.min(self.connect_limit));
        let until = Deadline::from_now(start, limit);
        loop {
            let left = until.remaining(Instant::now()).unwrap_or(Duration::MAX);
            if context.is_unwanted() {
                return Err(failed(ConnectionErrorKind::NoConnectionInTime, None));
            }
            if let Ok(mut pooled) = open.pool.get_timeout(left.min(LOOK)) {
                if self.is_good(&open, &mut pooled, left, &now) {
                    pooled.dirty = true;
                    return Ok(Lease { open, pooled });
                }
            } else if self.attempts.closed.is_up() {
                return Err(failed(ConnectionErrorKind::Closed, None));
            } else if until.is_past(Instant::now()) {
                return Err(match self.attempts.failure_since(start) {
                    Some(cause) => failed(ConnectionErrorKind::CannotConnect, Some(cause)),
                    None => failed(ConnectionErrorKind::NoConnectionInTime, None),
                });
            }
        }
    }

    /// Whether the connection has been used lately, or passes the manager's test.
    fn is_good(
        &self,
        open: &Open<M>,
        pooled: &mut PooledConnection<Guarded<M>>,
        left: Duration,
        now: impl Fn() -> Instant,
    ) -> bool {
        let Some(used) = pooled.used else { return true };
        if self.test_after_idle == Duration::MAX
            || now().saturating_duration_since(used) < self.test_after_idle
        {
            return true;
        }
        // Half of what is left, so that there is time for a new one if the test hangs.
        let half = Deadline::from_now(Instant::now(), (left / 2).min(LONGEST_TEST));
        let (Some(connection), Some(until)) = (pooled.connection.take(), half.instant()) else {
            return false;
        };
        pooled.connection = self.keeper.test(&open.manager, connection, until);
        pooled.connection.is_some()
    }
}

/// The longest that a test may take where the job's time does not say so.
const LONGEST_TEST: Duration = Duration::from_secs(5);

impl<M: ManageConnection> Lease<M>
where
    M::Error: Send + Sync,
{
    pub(super) fn connection(&mut self) -> &mut M::Connection {
        // PANIC: it is given away only to be tested, and that was before there was a lease.
        self.pooled.connection.as_mut().expect("a lease has its connection")
    }

    /// Gives the connection back for others to use, if the job has come to its end in peace.
    pub(super) fn give_back(mut self, context: &Context<'_>, now: impl Fn() -> Instant) {
        if context.is_unwanted() {
            // Somebody may have broken it to free the job, or it is in the middle of an answer.
            return;
        }
        let mut clean = true;
        if let Some(hook) = self.open.on_return.clone() {
            let connection = self.connection();
            clean = false;
            contain(|| clean = hook(connection));
        }
        self.pooled.dirty = !clean;
        self.pooled.used = Some(now());
    }
}

/// Counts a worker that waits.
struct Waiting<'a, M: ManageConnection>(&'a Shared<M>)
where
    M::Error: Send + Sync;

impl<'a, M: ManageConnection> Waiting<'a, M>
where
    M::Error: Send + Sync,
{
    fn count(shared: &'a Shared<M>) -> Self {
        // ORDERING: Relaxed, here and below: nothing is decided by the number.
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl<M: ManageConnection> Drop for Waiting<'_, M>
where
    M::Error: Send + Sync,
{
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
