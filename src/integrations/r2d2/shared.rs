//! [`Shared`]: what all handles of a pool, its jobs and its bulkhead share.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ::r2d2::ManageConnection;

use super::keeper::Keeper;
use super::manager::{Attempts, Guarded};
use crate::compartment::{Connections, Holdings, Parting, PlannedDescriptors, Resource, Thread};
use crate::integrations::helpers::Helpers;
use crate::integrations::remotes::Remotes;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::vitals::Facts;

/// Makes a used connection clean. Says whether it is.
pub(super) type OnReturn<C> = Arc<dyn Fn(&mut C) -> bool + Send + Sync>;

pub(super) struct Shared<M: ManageConnection>
where
    M::Error: Send + Sync,
{
    pub(super) id: u64,
    pub(super) about: &'static Facts,
    pub(super) connect_limit: Duration,
    pub(super) test_after_idle: Duration,
    pub(super) max_lifetime: Duration,
    /// What ends with the pool; `None` from then on.
    pub(super) open: Mutex<Option<Open<M>>>,
    pub(super) keeper: Arc<Keeper<M>>,
    pub(super) attempts: Arc<Attempts>,
    pub(super) helpers: Arc<Helpers>,
    /// `None` from the close on.
    pub(super) planned: Mutex<Option<PlannedDescriptors>>,
    /// Where its connections go, if the user has said so.
    pub(super) remote_address: Option<SocketAddr>,
    /// The same, if the manager is ours and says so.
    pub(super) remotes: Option<Arc<Remotes>>,
    /// Workers that want a connection and have none yet.
    pub(super) waiting: AtomicU64,
}

/// Everything that is the user's, or leads to it.
pub(super) struct Open<M: ManageConnection>
where
    M::Error: Send + Sync,
{
    pub(super) pool: ::r2d2::Pool<Guarded<M>>,
    pub(super) manager: Arc<M>,
    pub(super) on_return: Option<OnReturn<M::Connection>>,
}

impl<M: ManageConnection> Clone for Open<M>
where
    M::Error: Send + Sync,
{
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            manager: Arc::clone(&self.manager),
            on_return: self.on_return.clone(),
        }
    }
}

/// The numbers of a [`Pool`](super::Pool) at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatus {
    /// Connections in the pool, those that jobs hold included.
    pub connections: usize,
    /// Those of them that no job holds.
    pub idle: usize,
    /// Jobs that are running and wait for their connection: for a new one, or for one to be tested.
    pub waiting: usize,
    /// Connections that have left the pool and are not closed yet, or are being tested.
    pub unclosed: usize,
    /// How many connections have been opened, since the pool was built.
    pub opened: u64,
    /// How many attempts to connect have failed.
    pub failed: u64,
    /// How many connections were given up: after a panic, a cancel or a passed deadline, because they
    /// were broken or could not be cleaned, or because they did not pass their test.
    pub discarded: u64,
}

impl<M: ManageConnection> Shared<M>
where
    M::Error: Send + Sync,
{
    pub(super) fn open(&self) -> Option<Open<M>> {
        self.open.lock().clone()
    }

    pub(super) fn status(&self) -> PoolStatus {
        // Under the lock, so that no last reference to what is the user's can end up here. r2d2 takes
        // its own lock for it, under which it calls nobody.
        let state = self.open.lock().as_ref().map(|open| open.pool.state());
        let (connections, idle) =
            state.map_or((0, 0), |state| (state.connections, state.idle_connections));
        // ORDERING: Relaxed is enough: here nothing is decided by it.
        let waiting = self.waiting.load(Ordering::Relaxed);
        PoolStatus {
            connections: connections as usize,
            idle: idle as usize,
            waiting: usize::try_from(waiting).unwrap_or(usize::MAX),
            unclosed: self.keeper.backlog(),
            opened: self.attempts.opened.get(),
            failed: self.attempts.failed.get(),
            discarded: self.discarded(),
        }
    }

    fn discarded(&self) -> u64 {
        let parted = self.attempts.parted();
        let retired = parted[Parting::Retired as usize];
        parted.iter().sum::<u64>() - retired
    }
}

impl<M: ManageConnection> Resource for Shared<M>
where
    M::Error: Send + Sync,
{
    fn close(&self) {
        self.attempts.closed.raise();
        // LOCK: free when they are given back, which takes another.
        let planned = self.planned.lock().take();
        drop(planned);
        let Some(open) = self.open.lock().take() else { return };
        let Open { pool, manager, on_return } = open;
        // With its last reference r2d2's pool hands its idle connections to the keeper, and lets
        // its own thread go. If that thread is connecting just now, the reference is there.
        drop(pool);
        // The manager's destructor is the user's: it runs where it can hang nobody.
        self.keeper.finish(Box::new((manager, on_return)));
    }

    fn wait_until_gone(&self, until: Option<Instant>) -> Vec<String> {
        self.helpers.wait_until_gone(until)
    }

    fn threads(&self) -> Vec<Thread> {
        self.helpers.threads()
    }

    fn holdings(&self) -> Holdings {
        let status = self.status();
        Holdings {
            in_use: status.connections.saturating_sub(status.idle),
            idle: status.idle,
            waiting: status.waiting,
            unclosed: status.unclosed,
            opened: status.opened,
            failed: status.failed,
            parted: self.attempts.parted(),
            look_ups: None,
        }
    }

    fn connections(&self) -> Connections {
        if let Some(remotes) = &self.remotes {
            return Connections { known: remotes.list(), unknown: 0 };
        }
        let status = self.status();
        let count = status.connections + status.unclosed;
        match self.remote_address {
            Some(address) => Connections { known: vec![Arc::from([address]); count], unknown: 0 },
            None => Connections { known: Vec::new(), unknown: count },
        }
    }

    fn is_over(&self) -> bool {
        self.attempts.closed.is_up() && self.helpers.are_gone()
    }
}
