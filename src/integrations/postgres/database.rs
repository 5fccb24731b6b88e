//! [`Database`]: a bulkhead whose jobs receive a PostgreSQL client.

use std::fmt;
use std::time::Duration;

use ::postgres::config::Host;
use ::postgres::{Client, Config};

use super::manager::{Connection, Manager};
use super::transaction::Transaction;
use crate::bulkhead::Bulkhead;
use crate::compartment::Context;
use crate::error::{BuildError, BuildErrorKind, CallError};
use crate::integrations::r2d2::{ConnectionError, Pool, PoolStatus};
use crate::sync::Arc;
use crate::time::Deadline;

/// A bulkhead with connections to PostgreSQL of its own, as many as it has threads. Cheap to clone.
///
/// Every wait for the server ends with the job: at its deadline, when it is cancelled, and when a
/// shutdown's limit passes, also in the handshake, and against a server that accepts and stays
/// silent. The thread is free then; the connection is closed on a helper thread, which asks the
/// server to cancel what it is still at.
#[derive(Clone)]
pub struct Database {
    pool: Pool<Manager>,
}

impl Database {
    /// Starts the description of a database that is reached by `config`.
    pub fn builder(config: Config) -> DatabaseBuilder {
        DatabaseBuilder { config, connect_limit: Duration::from_secs(1) }
    }

    /// The bulkhead that the jobs run in.
    #[must_use]
    pub const fn bulkhead(&self) -> &Bulkhead {
        self.pool.bulkhead()
    }

    /// The numbers of its connections at this instant.
    #[must_use]
    pub fn status(&self) -> PoolStatus {
        self.pool.status()
    }

    /// Runs `job` with a client on one of the bulkhead's threads and waits for its value.
    ///
    /// A transaction that it leaves open is rolled back before anybody else sees the connection; with
    /// an answer that it has not read to its end, the connection is closed.
    ///
    /// # Errors
    ///
    /// As for [`Pool::call`]. What the server says is the closure's own: `db.call(..)??`.
    pub fn call<F, T>(&self, job: F) -> Result<T, CallError<ConnectionError>>
    where
        F: FnOnce(&mut Client, &Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.pool.call(|connection, context| connection.serve(context, job))
    }

    /// Runs `job` with a client and waits for its value until `deadline`.
    ///
    /// # Errors
    ///
    /// As for [`call`](Database::call).
    pub fn call_until<F, T>(
        &self,
        deadline: Deadline,
        job: F,
    ) -> Result<T, CallError<ConnectionError>>
    where
        F: FnOnce(&mut Client, &Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.pool.call_until(deadline, |connection, context| connection.serve(context, job))
    }

    /// Runs `job` in a transaction: committed if it returns `Ok`, rolled back if it returns `Err` or
    /// panics.
    ///
    /// The time that the call has left is the transaction's `statement_timeout`, set together with
    /// `BEGIN`, so that a server that is well ends a late statement by itself and the connection is
    /// kept.
    ///
    /// # Errors
    ///
    /// As for [`call`](Database::call); inside, `job`'s own error, or the server's about `BEGIN` and
    /// `COMMIT`: `db.transaction(..)??`.
    pub fn transaction<F, T, E>(&self, job: F) -> Result<Result<T, E>, CallError<ConnectionError>>
    where
        F: FnOnce(&mut Transaction<'_>, &Context<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<::postgres::Error> + Send + 'static,
    {
        self.call(|client, context| Transaction::run(client, context, job))
    }

    /// Runs `job` in a transaction until `deadline`, instead of the bulkhead's own limit.
    ///
    /// # Errors
    ///
    /// As for [`transaction`](Database::transaction).
    pub fn transaction_until<F, T, E>(
        &self,
        deadline: Deadline,
        job: F,
    ) -> Result<Result<T, E>, CallError<ConnectionError>>
    where
        F: FnOnce(&mut Transaction<'_>, &Context<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<::postgres::Error> + Send + 'static,
    {
        self.call_until(deadline, |client, context| Transaction::run(client, context, job))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("pool", &self.pool).finish()
    }
}

/// Describes a database. Made by [`Database::builder`].
#[must_use = "a description does nothing until it is built"]
#[derive(Debug)]
pub struct DatabaseBuilder {
    config: Config,
    connect_limit: Duration,
}

impl DatabaseBuilder {
    /// The longest that opening a connection may take, the handshake included, and that a job waits
    /// for one. Defaults to one second: within a data centre it takes some milliseconds. Zero is an
    /// error.
    pub fn connect_limit(mut self, limit: Duration) -> Self {
        self.connect_limit = limit;
        self
    }

    /// Builds the database into `bulkhead`. It opens no connection, so it does not wait for the
    /// server. It is closed when the runtime is.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: a limit of zero, a Unix socket (only TCP can be guarded), no host, or what
    /// [`PoolBuilder::build`](crate::r2d2::PoolBuilder::build) says.
    pub fn build(self, bulkhead: &Bulkhead) -> Result<Database, BuildError> {
        let name = bulkhead.name();
        let hosts = self.config.get_hosts();
        let is_tcp = |host: &Host| matches!(host, Host::Tcp(_));
        if hosts.is_empty() || !hosts.iter().all(is_tcp) {
            return Err(BuildError::new(
                BuildErrorKind::InvalidSetting,
                Some(name),
                "host",
                "must name a TCP host, such as \"127.0.0.1\": a wait on a Unix socket cannot be \
                 ended",
            ));
        }
        let manager = Manager::new(self.config, name, self.connect_limit);
        let remotes = Arc::clone(&manager.remotes);
        let pool = Pool::builder(manager)
            .remotes(remotes)
            .connect_limit(self.connect_limit)
            .on_return(Connection::tidy)
            .build(bulkhead)?;
        Ok(Database { pool })
    }
}
