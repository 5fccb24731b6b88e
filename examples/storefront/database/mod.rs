//! The reviews database, of either kind, and the ways to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use r2d2::event::{AcquireEvent, CheckoutEvent, HandleEvent};
use watertight::Bulkhead;

use crate::latency::{Latency, Pace};
use crate::page::Failure;

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod proxy;
#[cfg(feature = "postgres")]
mod schema;
mod sqlite;

#[cfg(feature = "postgres")]
pub(crate) use self::schema::clean_up;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether the watertight build gets its thread back from a statement that runs.
    pub(crate) fn gives_threads_back(self) -> bool {
        self == Self::Postgres
    }

    /// Creates a database with reviews in it. Dropping it leaves nothing behind.
    pub(crate) fn create(self, latency: &Latency) -> Result<Box<dyn Database>, Failure> {
        match self {
            Self::Sqlite => Ok(Box::new(sqlite::Sqlite::create(latency.clone())?)),
            #[cfg(feature = "postgres")]
            Self::Postgres => Ok(Box::new(postgres::Postgres::create()?)),
            #[cfg(not(feature = "postgres"))]
            Self::Postgres => Err("PostgreSQL needs the feature `postgres`".into()),
        }
    }
}

/// A database of reviews that can be slowed down and hung.
pub(crate) trait Database: Send + Sync {
    /// Changes how long statements take that start from now on.
    fn set(&self, pace: Pace) -> Result<(), Failure>;

    /// A plain r2d2 pool of at most `connections`, each opened when it is first needed.
    fn pool(&self, connections: u32, patience: Duration) -> Result<Box<dyn Reviews>, Failure>;

    /// The way to the database that belongs to `bulkhead`.
    fn isolated(&self, bulkhead: &Bulkhead) -> Result<Box<dyn Reviews>, Failure>;

    /// What has reached the database so far.
    fn reached(&self) -> Result<Reached, Failure>;
}

/// A way to the reviews.
pub(crate) trait Reviews: Send + Sync {
    /// The number of reviews of a product and their average, from one statement. Waits no longer
    /// than `until`, if the driver can do that.
    fn summary(&self, product: u32, until: Instant) -> Result<(u32, f64), Failure>;

    /// Whether it runs its calls on the threads of its bulkhead. Then nobody else's job should: the
    /// caller waits where it is.
    fn brings_threads(&self) -> bool {
        false
    }
}

/// What has reached a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    /// Statements that it has begun, counted inside it.
    pub(crate) statements: u64,
    /// Times that a connection was taken from a pool.
    pub(crate) taken: u64,
    /// Connections that were ever opened.
    pub(crate) opened: u64,
}

/// Counts what a pool reports of itself. Clones share the counts.
#[derive(Clone, Debug, Default)]
struct Usage(Arc<[AtomicU64; 2]>);

impl Usage {
    fn opened(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    fn taken(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }

    fn count_taken(&self) {
        self.0[1].fetch_add(1, Ordering::Relaxed);
    }

    /// A plain pool that is counted.
    fn pool<M: r2d2::ManageConnection>(
        &self,
        manager: M,
        connections: u32,
        patience: Duration,
    ) -> Result<r2d2::Pool<M>, Failure> {
        Ok(r2d2::Pool::builder()
            .max_size(connections)
            .min_idle(Some(0))
            .connection_timeout(patience)
            .test_on_check_out(false)
            .event_handler(Box::new(self.clone()))
            .build(manager)?)
    }
}

impl HandleEvent for Usage {
    fn handle_acquire(&self, _: AcquireEvent) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }

    fn handle_checkout(&self, _: CheckoutEvent) {
        self.count_taken();
    }
}
