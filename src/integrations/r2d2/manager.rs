//! [`Guarded`]: the user's manager as r2d2 sees it. It never panics, connects no more once the pool is
//! closed, and remembers why connecting failed.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use ::r2d2::ManageConnection;

use super::error::{Cause, NoAttempt};
use super::keeper::Keeper;
use super::news::News;
use crate::compartment::Parting;
use crate::contain::{contain, drop_contained};
use crate::sync::{Arc, Flag, Mutex, Tally};

pub(super) struct Guarded<M: ManageConnection> {
    pub(super) manager: Arc<M>,
    pub(super) keeper: Arc<Keeper<M>>,
    pub(super) attempts: Arc<Attempts>,
}

/// A connection, and what its pool has to know of it. Wherever it is dropped, it is closed by the
/// keeper: r2d2 drops connections on workers and on its own thread.
pub(super) struct Tracked<M: ManageConnection> {
    /// `None` when it has been given away to be tested and did not come back.
    pub(super) connection: Option<M::Connection>,
    /// When a job last brought it back; `None` as long as it is new.
    pub(super) used: Option<Instant>,
    /// When it is too old, if ever. Known from its first job on.
    pub(super) retires: Option<Instant>,
    /// Why it is to be given up: a job has it, or left it in a state that nobody knows. `None` if the
    /// next job may have it.
    pub(super) parting: Option<Parting>,
    keeper: Arc<Keeper<M>>,
    attempts: Arc<Attempts>,
}

/// What became of the attempts to connect.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// There must be no more.
    pub(super) closed: Flag,
    latest: Mutex<Latest>,
    pub(super) opened: Tally,
    pub(super) failed: Tally,
    /// By [`Parting`].
    parted: [Tally; Parting::COUNT],
    /// For those that wait for a connection.
    pub(super) news: Arc<News>,
}

#[derive(Debug, Default)]
struct Latest {
    under_way: bool,
    /// When and why the latest one failed, if it did.
    failure: Option<(Instant, Cause)>,
}

/// Tells r2d2 that there is no connection; the reason is kept by us, as it would keep only a text.
#[derive(Debug)]
pub(super) struct NotConnected;

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not connected")
    }
}

impl Error for NotConnected {}

impl Attempts {
    /// The failure that a checkout since `start` was kept by, if it was one: not one from before,
    /// while a newer attempt hangs.
    pub(super) fn failure_since(&self, start: Instant) -> Option<Cause> {
        let latest = self.latest.lock();
        let (when, why) = latest.failure.as_ref()?;
        (*when >= start || !latest.under_way).then(|| Arc::clone(why))
    }

    fn count(&self, parting: Parting) {
        self.parted[parting as usize].add(1);
    }

    pub(super) fn parted(&self) -> [u64; Parting::COUNT] {
        std::array::from_fn(|index| self.parted[index].get())
    }

    fn begin(&self) {
        self.latest.lock().under_way = true;
    }

    fn end(&self, failure: Option<Cause>) {
        let tally = if failure.is_some() { &self.failed } else { &self.opened };
        tally.add(1);
        let failure = failure.map(|why| (Instant::now(), why));
        let before = {
            let mut latest = self.latest.lock();
            latest.under_way = false;
            std::mem::replace(&mut latest.failure, failure)
        };
        // LOCK: free, the error is the user's.
        drop_contained(before);
    }
}

impl<M: ManageConnection> Guarded<M>
where
    M::Error: Send + Sync,
{
    fn attempt(&self) -> Result<M::Connection, Cause> {
        if self.keeper.is_full() {
            return Err(Arc::new(NoAttempt::Unclosed(self.keeper.backlog())));
        }
        // AssertUnwindSafe: a manager shares with us only what it would share with any thread.
        match catch_unwind(AssertUnwindSafe(|| self.manager.connect())) {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(Arc::new(error)),
            // r2d2 would lose the place for good.
            Err(payload) => {
                let message = message_of(&*payload);
                drop_contained(payload);
                Err(Arc::new(NoAttempt::Panicked(message)))
            }
        }
    }
}

fn message_of(payload: &(dyn Any + Send)) -> Option<String> {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
}

impl<M: ManageConnection> ManageConnection for Guarded<M>
where
    M::Error: Send + Sync,
{
    type Connection = Tracked<M>;
    type Error = NotConnected;

    fn connect(&self) -> Result<Tracked<M>, NotConnected> {
        if self.attempts.closed.is_up() {
            return Err(NotConnected);
        }
        self.attempts.begin();
        match self.attempt() {
            Ok(connection) => {
                self.attempts.end(None);
                self.attempts.news.spread();
                Ok(Tracked {
                    connection: Some(connection),
                    used: None,
                    retires: None,
                    parting: None,
                    keeper: Arc::clone(&self.keeper),
                    attempts: Arc::clone(&self.attempts),
                })
            }
            Err(why) => {
                self.attempts.end(Some(why));
                Err(NotConnected)
            }
        }
    }

    /// Never asked: the pool tests for itself, in bounded time.
    fn is_valid(&self, _: &mut Tracked<M>) -> Result<(), NotConnected> {
        Ok(())
    }

    fn has_broken(&self, tracked: &mut Tracked<M>) -> bool {
        if tracked.parting.is_none() {
            tracked.parting = match &mut tracked.connection {
                Some(connection) => {
                    let mut broken = true;
                    contain(|| broken = self.manager.has_broken(connection));
                    broken.then_some(Parting::Broken)
                }
                None => Some(Parting::FailedTest),
            };
        }
        tracked.parting.is_some()
    }
}

impl<M: ManageConnection> Drop for Tracked<M> {
    fn drop(&mut self) {
        self.attempts.count(self.parting.unwrap_or(Parting::Retired));
        if let Some(connection) = self.connection.take() {
            self.keeper.close(connection);
        }
    }
}
