//! Reviews in PostgreSQL: the server of `DATABASE_URL`, or a throwaway one.
//!
//! The slowness is in the SQL itself, as with `SQLite`: the query calls `disk_wait()`, which counts
//! the statement and then sleeps, by `pg_sleep`. A hung database is one to which the road is blocked:
//! it accepts and does not answer, sessions that exist and new ones alike.

use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use watertight::postgres::client::{NoTls, Row, config::Host};
use watertight::postgres::types::Type;
use watertight::postgres::{Client, Config, Database as Isolated, Error};
use watertight::{Bulkhead, Deadline};

use self::server::{MISSING, Server};
use super::proxy::Proxy;
use super::schema::{self, Cleaner};
use super::{Database, Reached, Reviews, Usage};
use crate::latency::Pace;
use crate::page::Failure;

// The throwaway server of the tests. It is gone when this process is, however it ends.
#[allow(dead_code)]
#[path = "../../../tests/it/server.rs"]
mod server;

/// What the server must have left: 15 connections of the bulkhead, as many that are being closed,
/// and some for everybody else.
const LEAST_CONNECTIONS: u32 = 40;

/// How long before its call's limit the server ends a statement of the bulkhead's, so that the error
/// is there in time for the connection to be kept.
const FOR_THE_ANSWER: Duration = Duration::from_millis(8);

pub(super) struct Postgres {
    /// Goes straight to the server, so that it works while the road is blocked.
    admin: Mutex<Client>,
    /// By way of the proxy.
    config: Config,
    proxy: Proxy,
    schema: String,
    /// The connections that the server can spare.
    spare: u32,
    usage: Usage,
    /// Waited for when all connections are closed.
    _cleaner: Option<Cleaner>,
}

impl Postgres {
    /// Connects to the server and fills a schema of its own.
    pub(super) fn create() -> Result<Self, Failure> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let schema = schema::name(NEXT.fetch_add(1, Ordering::Relaxed));
        // The tests have nothing to do on a server of the user's.
        let (direct, cleaner) = match env::var(schema::URL) {
            Ok(url) if !cfg!(test) => (url.parse()?, Some(Cleaner::start(&schema)?)),
            _ => (throwaway()?, None),
        };
        let mut admin = direct.connect(NoTls)?;
        admin.batch_execute(&tables(&schema))?;
        let spare = spare(&mut admin)?;
        if spare < LEAST_CONNECTIONS {
            let most = "raise its max_connections, or close what else uses it";
            return Err(format!(
                "the server has {spare} connections left and {LEAST_CONNECTIONS} are needed: {most}"
            )
            .into());
        }
        let (host, port) = address(&direct)?;
        let proxy = Proxy::start(host, port)?;
        Ok(Self {
            config: detour(&direct, &proxy),
            admin: Mutex::new(admin),
            proxy,
            schema,
            spare,
            usage: Usage::default(),
            _cleaner: cleaner,
        })
    }

    fn admin<T>(
        &self,
        ask: impl FnOnce(&mut Client, &str) -> Result<T, Error>,
    ) -> Result<T, Error> {
        ask(&mut self.admin.lock().unwrap_or_else(PoisonError::into_inner), &self.schema)
    }

    /// The statement, and how to read its one row.
    fn query(&self) -> String {
        let schema = &self.schema;
        format!(
            "SELECT count(*), coalesce(round(avg(stars), 1), 0.0)::float8, {schema}.disk_wait()
             FROM {schema}.review WHERE product = $1"
        )
    }
}

fn read(row: &Row) -> Result<(u32, f64), Failure> {
    Ok((row.get::<_, i64>(0).try_into()?, row.get(1)))
}

impl Database for Postgres {
    fn set(&self, pace: Pace) -> Result<(), Failure> {
        if let Pace::Millis(millis) = pace {
            let seconds = Duration::from_millis(millis).as_secs_f64();
            self.admin(|admin, schema| {
                admin.execute(&format!("UPDATE {schema}.pace SET seconds = $1"), &[&seconds])
            })?;
        }
        self.proxy.set_blocked(pace == Pace::Never);
        Ok(())
    }

    /// With every limit that the client and the server have.
    fn pool(&self, connections: u32, patience: Duration) -> Result<Box<dyn Reviews>, Failure> {
        let mut config = self.config.clone();
        config
            .connect_timeout(patience)
            .tcp_user_timeout(patience)
            .options(&format!("-c statement_timeout={}", patience.as_millis()));
        let pool = self.usage.pool(Manager(config), connections.min(self.spare), patience)?;
        Ok(Box::new(Stock { pool, query: self.query() }))
    }

    fn isolated(&self, bulkhead: &Bulkhead) -> Result<Box<dyn Reviews>, Failure> {
        Ok(Box::new(Guarded {
            database: Isolated::builder(self.config.clone()).build(bulkhead)?,
            query: self.query(),
            usage: self.usage.clone(),
        }))
    }

    fn reached(&self) -> Result<Reached, Failure> {
        let count = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM";
        let statements: i64 = self.admin(|admin, schema| {
            Ok(admin.query_one(&format!("{count} {schema}.statement"), &[])?.get(0))
        })?;
        Ok(Reached {
            statements: statements.try_into()?,
            taken: self.usage.taken(),
            opened: self.proxy.sessions(),
        })
    }
}

/// The plain client in a plain pool.
struct Stock {
    pool: r2d2::Pool<Manager>,
    query: String,
}

impl Reviews for Stock {
    fn summary(&self, product: u32, _: Instant) -> Result<(u32, f64), Failure> {
        let product = i32::try_from(product)?;
        read(&self.pool.get()?.query_typed_one(&self.query, &[(&product, Type::INT4)])?)
    }
}

struct Manager(Config);

impl r2d2::ManageConnection for Manager {
    type Connection = Client;
    type Error = Error;

    fn connect(&self) -> Result<Client, Error> {
        self.0.connect(NoTls)
    }

    fn is_valid(&self, client: &mut Client) -> Result<(), Error> {
        client.simple_query("").map(drop)
    }

    fn has_broken(&self, client: &mut Client) -> bool {
        client.is_closed()
    }
}

/// The bulkhead's own connections. A server that is well ends a slow statement, and the connection
/// is kept; from one that is silent the thread is got back at the call's limit by breaking the socket.
struct Guarded {
    database: Isolated,
    query: String,
    usage: Usage,
}

impl Reviews for Guarded {
    fn summary(&self, product: u32, until: Instant) -> Result<(u32, f64), Failure> {
        let product = i32::try_from(product)?;
        let (query, usage) = (self.query.clone(), self.usage.clone());
        self.database.call_until(Deadline::at(until), move |client, _| {
            usage.count_taken();
            // A call may have waited for its connection.
            let left = until.saturating_duration_since(Instant::now());
            let millis = left.saturating_sub(FOR_THE_ANSWER).as_millis();
            if millis == 0 {
                return Err("there is no time left for a statement".into());
            }
            client.batch_execute(&format!("SET statement_timeout = {millis}"))?;
            read(&client.query_typed_one(&query, &[(&product, Type::INT4)])?)
        })?
    }

    fn brings_threads(&self) -> bool {
        true
    }
}

/// The shared side alone opens 200 connections.
fn throwaway() -> Result<Config, Failure> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Server::start(&["max_connections=300"], &[]));
    server
        .as_ref()
        .map(Server::config)
        .ok_or_else(|| format!("{MISSING}, or set DATABASE_URL").into())
}

fn tables(schema: &str) -> String {
    format!(
        "CREATE SCHEMA {schema};
         CREATE TABLE {schema}.review (product int NOT NULL, stars int NOT NULL);
         CREATE INDEX ON {schema}.review (product);
         INSERT INTO {schema}.review SELECT 1 + i % 100, 3 + i * 7 % 3 FROM generate_series(0, 499) i;
         CREATE TABLE {schema}.pace (seconds float8 NOT NULL);
         INSERT INTO {schema}.pace VALUES (0.030);
         -- A sequence counts statements that are rolled back, too.
         CREATE SEQUENCE {schema}.statement;
         CREATE FUNCTION {schema}.disk_wait() RETURNS int LANGUAGE plpgsql AS $$
         BEGIN
             PERFORM nextval('{schema}.statement');
             PERFORM pg_sleep(seconds) FROM {schema}.pace;
             RETURN 0;
         END $$;"
    )
}

/// How many connections the server still has, less a few for those who look after it.
fn spare(admin: &mut Client) -> Result<u32, Failure> {
    let left: i32 = admin
        .query_one(
            "SELECT current_setting('max_connections')::int
                 - current_setting('superuser_reserved_connections')::int
                 - (SELECT count(*) FROM pg_stat_activity)::int",
            &[],
        )?
        .get(0);
    Ok(left.try_into().unwrap_or(0))
}

/// Where the server is.
fn address(config: &Config) -> Result<(String, u16), Failure> {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match (config.get_hostaddrs().first(), config.get_hosts().first()) {
        (Some(address), _) => Ok((address.to_string(), port)),
        (None, Some(Host::Tcp(host))) => Ok((host.clone(), port)),
        _ => Err("DATABASE_URL must name a TCP host, as in postgres://user@127.0.0.1/db".into()),
    }
}

/// The same database by way of the proxy.
fn detour(direct: &Config, proxy: &Proxy) -> Config {
    let mut config = Config::new();
    config.host(&proxy.address().ip().to_string()).port(proxy.address().port());
    if let Some(user) = direct.get_user() {
        config.user(user);
    }
    if let Some(password) = direct.get_password() {
        config.password(password);
    }
    if let Some(name) = direct.get_dbname() {
        config.dbname(name);
    }
    config
}
