//! [`Lease`]: how a job comes by its connection, and what becomes of it after.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use ::r2d2::{ManageConnection, PooledConnection};

use super::error::{ConnectionError, ConnectionErrorKind};
use super::manager::Guarded;
use super::shared::{Open, Shared};
use crate::compartment::{Context, Parting};
use crate::contain::contain;
use crate::sync::{Arc, Ordering, spin_until};
use crate::time::Deadline;

/// How often a worker that waits for a connection looks for one unasked: r2d2 puts a new one into its
/// pool a moment after we spread the news of it.
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
        let failed = |kind, cause| ConnectionError::new(kind, self.about, start.elapsed(), cause);
        let Some(open) = self.open() else {
            return Err(failed(ConnectionErrorKind::Closed, None));
        };
        let _waiting = Waiting::count(self);
        let limit =
            context.remaining().map_or(self.connect_limit, |left| left.min(self.connect_limit));
        let until = Deadline::from_now(start, limit);
        let mut asked = None;
        let mut bell = None;
        loop {
            let seen = self.attempts.news.count();
            if let Some(mut pooled) = self.take(&open, &mut asked) {
                let left = until.remaining(Instant::now()).unwrap_or(Duration::MAX);
                if self.is_good(&open, &mut pooled, left, &now) {
                    if pooled.used.is_none() {
                        pooled.retires = now().checked_add(lifetime(self.max_lifetime));
                    }
                    // Unless the job comes to its end.
                    pooled.parting = Some(Parting::Panicked);
                    return Ok(Lease { open, pooled });
                }
                asked = None;
                continue;
            }
            // Only now, since it is not for free, and most find a connection at once.
            bell.get_or_insert_with(|| {
                let news = Arc::clone(&self.attempts.news);
                context.on_abort(move || news.spread())
            });
            let present = Instant::now();
            if self.attempts.closed.is_up() {
                return Err(failed(ConnectionErrorKind::Closed, None));
            }
            if until.is_past(present) {
                return Err(match self.attempts.failure_since(start) {
                    Some(cause) => failed(ConnectionErrorKind::CannotConnect, Some(cause)),
                    None => failed(ConnectionErrorKind::NoConnectionInTime, None),
                });
            }
            if context.is_unwanted() {
                return Err(failed(ConnectionErrorKind::NoConnectionInTime, None));
            }
            let look = present + LOOK;
            self.attempts.news.wait_for_more_than(seen, until.instant().unwrap_or(look).min(look));
        }
    }

    /// A connection that is there. If there is none r2d2 is asked to open one: once, and again when
    /// somebody else has taken the one that came of it.
    fn take(
        &self,
        open: &Open<M>,
        asked: &mut Option<u64>,
    ) -> Option<PooledConnection<Guarded<M>>> {
        let opened = self.attempts.opened.get();
        let found = Cell::new(open.pool.try_get());
        if *asked != Some(opened) {
            if asked.is_some() {
                // It was opened, and is on its way into the pool.
                spin_until(|| {
                    let pooled = found.take().or_else(|| open.pool.try_get());
                    let is_there = pooled.is_some();
                    found.set(pooled);
                    is_there
                });
            }
            *asked = Some(opened);
            return found.take().or_else(|| open.pool.get_timeout(Duration::ZERO).ok());
        }
        found.take()
    }

    /// Gives a connection back for others to use, if the job has come to its end in peace.
    pub(super) fn give_back(
        &self,
        mut lease: Lease<M>,
        context: &Context<'_>,
        now: impl Fn() -> Instant,
    ) {
        if context.is_unwanted() {
            // Somebody may have broken it to free the job, or it is in the middle of an answer.
            lease.pooled.parting = Some(Parting::Unwanted);
            return;
        }
        if lease.pooled.retires.is_some_and(|at| at <= now()) {
            lease.pooled.parting = Some(Parting::Retired);
            // For the jobs that wait, its place is free.
            drop(lease);
            return;
        }
        let mut clean = true;
        if let Some(hook) = lease.open.on_return.clone() {
            let connection = lease.connection();
            clean = false;
            contain(|| clean = hook(connection));
        }
        lease.pooled.parting = (!clean).then_some(Parting::Unclean);
        lease.pooled.used = Some(now());
        drop(lease);
        // ORDERING: Relaxed is enough. Whoever found the pool empty before this connection came back
        // was counted before it looked, and r2d2's lock is between its look and our return.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.attempts.news.spread();
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

/// How old one connection may become: between three quarters of `most` and all of it, by chance.
/// Connections that were opened together, after a start or an outage, would otherwise all be replaced
/// together, time and again.
fn lifetime(most: Duration) -> Duration {
    // The standard library's only source of chance.
    let chance = (RandomState::new().build_hasher().finish() >> 33) as u32;
    let quarter = most / 4;
    (quarter * 3).saturating_add(quarter.mul_f64(f64::from(chance) / f64::from(u32::MAX >> 1)))
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
        // ORDERING: Relaxed; see where it is read, in `give_back`.
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
