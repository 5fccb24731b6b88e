//! [`Manager`]: opens guarded connections, on the pool's own threads.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ::postgres::config::{SslMode, SslNegotiation};
use ::postgres::error::SqlState;
use ::postgres::{Client, Config};

use super::frames::Rest;
use super::guard::{Control, Guarding};
use super::names::{LookUp, Names};
use super::tls::Tls;
use crate::compartment::Context;
use crate::contain::contain;
use crate::integrations::remotes::{Remote, Remotes};
use crate::sync::Arc;

/// How long a connection may take to say goodbye, or to have its last query cancelled. It happens on
/// the pool's helper threads, so it holds no worker.
const GOODBYE: Duration = Duration::from_millis(200);

/// How long a ping of an idle connection may take.
const PING: Duration = Duration::from_secs(1);

/// What a session keeps beyond a transaction, but for prepared statements: the client has some of its
/// own, and believes them to be there.
const RESET: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
    SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";

#[derive(Debug)]
pub(crate) struct Manager {
    config: Config,
    tls: Tls,
    names: Names,
    connect_limit: Duration,
    pub(super) remotes: Arc<Remotes>,
}

impl Manager {
    pub(super) fn new(
        mut config: Config,
        tls: Tls,
        look_up: LookUp,
        name: &str,
        connect_limit: Duration,
    ) -> Self {
        // So that `pg_stat_activity` shows which bulkhead a query is of.
        if config.get_application_name().is_none() {
            config.application_name(name);
        }
        // Against hosts that are gone. Those that are there and silent are the guard's.
        config
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(30))
            .keepalives_interval(Duration::from_secs(10))
            .keepalives_retries(3);
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(30));
        }
        // What hands the socket over, before the first byte: see `guard`. What the user has set is
        // in `tls`.
        config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        Self { config, tls, names: Names::new(look_up), connect_limit, remotes: Arc::default() }
    }
}

/// The addresses of a configuration whose names have been looked up.
fn addresses(config: &Config) -> impl Iterator<Item = SocketAddr> {
    // As the client reads it: one port for all, or one for each.
    let port =
        |index| *config.get_ports().get(index).or(config.get_ports().first()).unwrap_or(&5432);
    let addresses = config.get_hostaddrs().iter().enumerate();
    addresses.map(move |(index, ip)| SocketAddr::new(*ip, port(index)))
}

/// A client with a guarded socket.
pub(crate) struct Connection {
    client: Client,
    control: Arc<Control>,
    remote: Remote,
    tls: Tls,
}

impl Connection {
    /// Runs a job with the client: every wait ends at its deadline, or at an abort.
    pub(super) fn serve<F, T>(&mut self, context: &Context<'_>, job: F) -> T
    where
        F: FnOnce(&mut Client, &Context<'_>) -> T,
    {
        match context.remaining() {
            Some(left) => self.control.limit_to(left),
            None => self.control.limit(None),
        }
        let control = Arc::clone(&self.control);
        let _abort = context.on_abort(move || control.abort());
        job(&mut self.client, context)
    }

    /// Leaves no transaction and no half-read answer to the next job; nor, with `reset`, anything else
    /// of the session.
    pub(super) fn tidy(&mut self, reset: bool) -> Result<(), ::postgres::Error> {
        // It is the job's time that this takes, and its thread.
        self.control.limit_further(PING);
        if self.control.rest() == Rest::Failed {
            // An ordinary error must not cost the connection.
            self.client.batch_execute("")?;
        }
        if self.control.rest() == Rest::InTransaction {
            self.client.batch_execute("ROLLBACK")?;
        }
        // An answer that is not read to its end could take as long as its query; the pool finds the
        // connection spoilt and closes it.
        if reset && self.control.rest() == Rest::Idle {
            self.client.batch_execute(RESET)?;
        }
        Ok(())
    }

    /// Whether nobody else may have it.
    fn is_spoilt(&mut self) -> bool {
        self.client.is_closed()
            || self.control.was_cut_off()
            || self.control.rest() != Rest::Idle
            // Somebody has it listen still. What comes would be kept, for nobody, until it is closed.
            || !self.client.notifications().is_empty()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // On a helper thread of the pool. The server may still be at a query that nobody waits for;
        // the connection is lost, so a cancel can hit nothing else.
        if self.control.was_cut_off() || self.control.rest() == Rest::Unfinished {
            let cancel = Arc::new(Control::default());
            cancel.limit_to(GOODBYE);
            let _remote = self.remote.clone();
            let guarding = Guarding::new(cancel, self.tls.clone());
            contain(|| drop(self.client.cancel_token().cancel_query(guarding)));
        }
        // The client says goodbye when it is dropped, and waits for that to be sent.
        self.control.limit_to(GOODBYE);
    }
}

impl ::r2d2::ManageConnection for Manager {
    type Connection = Connection;
    type Error = ConnectError;

    fn connect(&self) -> Result<Connection, ConnectError> {
        let (config, each) =
            self.names.resolve(&self.config, self.connect_limit).map_err(ConnectError::Name)?;
        let remote = self.remotes.note(addresses(&config));
        let control = Arc::new(Control::default());
        let mut guarding = Guarding::new(Arc::clone(&control), self.tls.clone());
        // The name's time is not the server's.
        if let Some(until) = Instant::now().checked_add(self.connect_limit) {
            guarding = guarding.in_turn(until, each);
        }
        let client = config.connect(guarding).map_err(ConnectError::of)?;
        Ok(Connection { client, control, remote, tls: self.tls.clone() })
    }

    fn is_valid(&self, connection: &mut Connection) -> Result<(), ConnectError> {
        connection.control.limit_to(PING);
        connection.client.batch_execute("").map_err(ConnectError::Server)
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        connection.is_spoilt()
    }
}

/// Why no connection to the server could be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// Its name could not be looked up.
    Name(io::Error),
    /// It has as many connections already as it, the database or the user may have.
    TooManyConnections(::postgres::Error),
    /// It did not answer in time, or said no.
    Server(::postgres::Error),
}

impl ConnectError {
    fn of(error: ::postgres::Error) -> Self {
        if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS) {
            Self::TooManyConnections(error)
        } else {
            Self::Server(error)
        }
    }
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(_) => f.write_str("the database server's name could not be looked up"),
            Self::TooManyConnections(_) => f.write_str(
                "the database server has no connection left: give a bulkhead fewer `threads`, or \
                 the server more `max_connections`",
            ),
            Self::Server(_) => f.write_str("the database server could not be connected to"),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Name(error) => Some(error),
            Self::TooManyConnections(error) | Self::Server(error) => Some(error),
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}
