//! [`Database`]: a bulkhead whose jobs receive a PostgreSQL client.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ::postgres::config::Host;
use ::postgres::tls::{MakeTlsConnect, TlsConnect};
use ::postgres::{Client, Config, Socket};

use super::check::{CheckError, ServerPlan};
use super::conflict::{TransactionError, TransactionOptions};
use super::manager::{Connection, Manager};
use super::names::{LookUp, system_look_up};
use super::tls::{Connector, Tls};
use super::transaction::Transaction;
use crate::bulkhead::{Bulkhead, JobHandle};
use crate::compartment::Context;
use crate::error::{BuildError, BuildErrorKind, CallError, Rejected};
use crate::integrations::r2d2::{ConnectionError, Pool, PoolStatus};
use crate::sync::{Arc, Tally};
use crate::time::Deadline;

/// What a connection takes: its socket, and three with which its client waits for it.
const DESCRIPTORS: u64 = 4;

/// A bulkhead with connections to PostgreSQL of its own, as many as it has threads. Cheap to clone.
///
/// Every wait for the server ends with the job: at its deadline, when it is cancelled, and when a
/// shutdown's limit passes, also in the handshake, and against a server that accepts and stays
/// silent. The thread is free then; the connection is closed on a helper thread, which asks the
/// server to cancel what it is still at.
#[derive(Clone)]
pub struct Database {
    pool: Pool<Manager>,
    /// How often a transaction was run again.
    retries: Arc<Tally>,
    /// The server's address, as the configuration has it.
    server: Arc<str>,
}

impl Database {
    /// Starts the description of a database that is reached by `config`.
    pub fn builder(config: Config) -> DatabaseBuilder {
        DatabaseBuilder {
            config,
            connector: None,
            look_up: Arc::new(system_look_up),
            connect_limit: Duration::from_secs(1),
            reset_sessions: false,
        }
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
    /// an answer that it has not read to its end, the connection is closed. What it sets for the session
    /// the next job finds, unless [`reset_sessions`](DatabaseBuilder::reset_sessions) is asked for.
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

    /// Hands `job` over and returns a handle to it, without a limit on the whole.
    ///
    /// # Errors
    ///
    /// As for [`Pool::submit`].
    pub fn submit<F, T>(&self, job: F) -> Result<JobHandle<Result<T, ConnectionError>>, Rejected<F>>
    where
        F: FnOnce(&mut Client, &Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_until(Deadline::never(), job)
    }

    /// Hands `job` over with a deadline, as [`Bulkhead::submit_until`] does.
    ///
    /// # Errors
    ///
    /// As for [`Pool::submit`].
    pub fn submit_until<F, T>(
        &self,
        deadline: Deadline,
        job: F,
    ) -> Result<JobHandle<Result<T, ConnectionError>>, Rejected<F>>
    where
        F: FnOnce(&mut Client, &Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.pool.submit_wrapped(deadline, job, |job, connection, context| {
            connection.serve(context, job)
        })
    }

    /// Runs `job` in a transaction: committed if it returns `Ok`, rolled back if it returns `Err` or
    /// panics.
    ///
    /// If `job` returns `Ok` although the server has refused a statement, the transaction is lost, and
    /// that is the server's error (25P02), never a success.
    ///
    /// The time that the call has left, less an eighth or 25 ms, is the transaction's
    /// `statement_timeout`, set together with `BEGIN`. So a server that is well ends a late statement by
    /// itself: the job has error 57014 a moment before the deadline, and the connection is kept.
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
        self.pool.call(|connection, context| once(connection, context, job))
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
        self.pool.call_until(deadline, |connection, context| once(connection, context, job))
    }

    /// Runs `job` in a transaction with `options`: it may be kept apart from others, and run again when
    /// it loses to another one.
    ///
    /// ```no_run
    /// # use watertight::postgres::{Database, Error};
    /// use watertight::postgres::{IsolationLevel, TransactionOptions};
    ///
    /// # fn buy(orders: &Database) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// let careful = TransactionOptions::new().isolation(IsolationLevel::Serializable).attempts(5);
    /// let left = orders.transaction_with(careful, |tx, _| -> Result<i32, Error> {
    ///     let left: i32 = tx.query_one("select pieces from stock where product = 42", &[])?.get(0);
    ///     tx.execute("update stock set pieces = $1 where product = 42", &[&(left - 1)])?;
    ///     Ok(left - 1)
    /// })??;
    /// # let _ = left;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`call`](Database::call); inside, a [`TransactionError`] with the number of attempts and
    /// the last one's error, as for [`transaction`](Database::transaction).
    pub fn transaction_with<F, T, E>(
        &self,
        options: TransactionOptions,
        job: F,
    ) -> Result<Result<T, TransactionError<E>>, CallError<ConnectionError>>
    where
        F: FnMut(&mut Transaction<'_>, &Context<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<::postgres::Error> + Send + 'static,
    {
        self.pool.call(self.again(options, job))
    }

    /// Runs `job` in a transaction with `options` until `deadline`, instead of the bulkhead's own limit.
    ///
    /// # Errors
    ///
    /// As for [`transaction_with`](Database::transaction_with).
    pub fn transaction_with_until<F, T, E>(
        &self,
        deadline: Deadline,
        options: TransactionOptions,
        job: F,
    ) -> Result<Result<T, TransactionError<E>>, CallError<ConnectionError>>
    where
        F: FnMut(&mut Transaction<'_>, &Context<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<::postgres::Error> + Send + 'static,
    {
        self.pool.call_until(deadline, self.again(options, job))
    }

    /// How often a transaction was run again since the database was built, because it had lost to
    /// another one.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.get()
    }

    /// Asks the server whether it has connections enough for this database, as [`check`](super::check())
    /// does for several.
    ///
    /// # Errors
    ///
    /// [`CheckError`]: it has too few, or did not answer.
    pub fn check(&self) -> Result<ServerPlan, CheckError> {
        ServerPlan::of(self)
    }

    /// What tells this pool from others.
    pub(super) fn id(&self) -> u64 {
        self.pool.id()
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    fn again<F, T, E>(
        &self,
        options: TransactionOptions,
        job: F,
    ) -> impl FnOnce(&mut Connection, &Context<'_>) -> Result<T, TransactionError<E>> + use<F, T, E>
    where
        F: FnMut(&mut Transaction<'_>, &Context<'_>) -> Result<T, E>,
        E: From<::postgres::Error>,
    {
        let retries = Arc::clone(&self.retries);
        move |connection, context| {
            connection.serve(context, |client, context| options.run(client, context, &retries, job))
        }
    }
}

/// Where the server is, for people to read.
fn address(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(number, host)| {
        let port = ports.get(number).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(host) => format!("{host}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        }
    });
    hosts.collect::<Vec<_>>().join(",")
}

fn once<F, T, E>(connection: &mut Connection, context: &Context<'_>, job: F) -> Result<T, E>
where
    F: FnOnce(&mut Transaction<'_>, &Context<'_>) -> Result<T, E>,
    E: From<::postgres::Error>,
{
    connection.serve(context, |client, context| {
        let ended = Transaction::run(client, context, TransactionOptions::new(), job);
        ended.map_err(|failed| failed.cause)
    })
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, retries, server } = self;
        f.debug_struct("Database")
            .field("pool", pool)
            .field("server", server)
            .field("retries", &retries.get())
            .finish()
    }
}

/// Describes a database. Made by [`Database::builder`].
#[must_use = "a description does nothing until it is built"]
pub struct DatabaseBuilder {
    config: Config,
    connector: Option<Connector>,
    look_up: LookUp,
    connect_limit: Duration,
    reset_sessions: bool,
}

impl DatabaseBuilder {
    /// Encrypts the connections, by a connector such as that of tokio-postgres-rustls or of
    /// postgres-native-tls. The requests to cancel a query are encrypted too.
    ///
    /// The configuration's `sslmode` says when: `require` always, `prefer`, which is its default, if
    /// the server does TLS, `disable` never. So set `require` unless a plain connection will do. Whose
    /// certificates are good is for the connector to say; it is given the host's name. The handshake
    /// is within [`connect_limit`](DatabaseBuilder::connect_limit).
    ///
    /// Defaults to no TLS; then `require` is an error.
    pub fn tls<T>(mut self, connector: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send + 'static,
        T::Stream: Send + 'static,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        self.connector = Some(Connector::new(connector));
        self
    }

    /// Looks names up with `look_up(host, port)` instead of the system's resolver. It runs on the
    /// bulkhead's connecting thread and may block; a literal address never comes to it. An answer is
    /// believed for 30 seconds, and longer while there is only an error instead. The port of what it
    /// returns does not matter. Defaults to the system's.
    pub fn look_up(
        mut self,
        look_up: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        self.look_up = Arc::new(look_up);
        self
    }

    /// The longest that opening a connection may take, the handshake included, and that a job waits
    /// for one; never longer than the job has left. Defaults to one second: within a data centre it takes
    /// some milliseconds. [`Duration::MAX`] means no limit of its own, so that a server that accepts and
    /// stays silent can hold the connecting thread. Zero is an error.
    pub fn connect_limit(mut self, limit: Duration) -> Self {
        self.connect_limit = limit;
        self
    }

    /// Resets a connection's session after each job, so that the next one finds nothing of it: no
    /// setting or role (`SET`), no temporary table, no advisory lock, no `LISTEN`, no open cursor. Only
    /// prepared statements stay.
    ///
    /// It costs a round trip, which the job's thread makes after the job. So it is off unless asked for:
    /// jobs that use [`transaction`](Database::transaction) and `SET LOCAL` leave nothing.
    pub fn reset_sessions(mut self) -> Self {
        self.reset_sessions = true;
        self
    }

    /// Builds the database into `bulkhead`. It opens no connection, so it does not wait for the
    /// server. It is closed when the runtime is. Each connection is planned as four file descriptors:
    /// its socket, and three with which its client waits for it.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: a limit of zero, a Unix socket (only TCP can be guarded), no host, `sslmode`
    /// `require` without a connector, or what
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
        let server = address(&self.config).into();
        let tls = Tls::of(&self.config, self.connector).map_err(|(setting, problem)| {
            BuildError::new(BuildErrorKind::InvalidSetting, Some(name), setting, problem)
        })?;
        let manager = Manager::new(self.config, tls, self.look_up, name, self.connect_limit);
        let remotes = Arc::clone(&manager.remotes);
        let pool = Pool::builder(manager)
            .remotes(remotes)
            .descriptors_each(DESCRIPTORS)
            .connect_limit(self.connect_limit)
            .on_return(move |connection: &mut Connection| connection.tidy(self.reset_sessions))
            .build(bulkhead)?;
        Ok(Database { pool, retries: Arc::default(), server })
    }
}

impl fmt::Debug for DatabaseBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart in full, so that a new setting cannot be forgotten here.
        let Self { config, connector, look_up: _, connect_limit, reset_sessions } = self;
        f.debug_struct("DatabaseBuilder")
            .field("config", config)
            .field("connector", connector)
            .field("connect_limit", connect_limit)
            .field("reset_sessions", reset_sessions)
            .finish_non_exhaustive()
    }
}
