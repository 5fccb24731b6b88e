//! The reviews database: `SQLite` in a file, read through a connection pool.
//!
//! The slowness is in the SQL itself. Every connection has an SQL function `disk_wait()` that takes
//! as long as the database takes at the moment, and the query calls it. So a slow review holds what
//! it would hold in production: a thread inside the driver and a connection of the pool. As with
//! most drivers, a statement that runs cannot be given up from outside; it ends when it ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, fs, io, process};

use r2d2::event::{AcquireEvent, CheckoutEvent, HandleEvent};
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags};

use crate::latency::Latency;
use crate::page::Failure;

/// A pool of connections to the reviews database.
pub(crate) type Pool = r2d2::Pool<Connections>;

/// The database file and what has been done to it. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct Database {
    directory: PathBuf,
    latency: Latency,
    usage: Arc<Usage>,
}

/// What has reached the database so far.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    opened: AtomicU64,
    taken: AtomicU64,
    statements: AtomicU64,
}

impl Usage {
    /// Connections that the pool has opened.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Times that a connection was taken from the pool.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Statements that have been run, counted inside `SQLite`.
    pub(crate) fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }
}

impl Database {
    /// Creates the file in a directory of its own and fills it.
    pub(crate) fn create(latency: Latency) -> Result<Self, Failure> {
        let database =
            Self { directory: fresh_directory()?, latency, usage: Arc::new(Usage::default()) };
        let connection = Connection::open(database.file())?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE review (product INTEGER NOT NULL, stars INTEGER NOT NULL);
             CREATE INDEX review_by_product ON review (product);
             WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 499)
             INSERT INTO review SELECT 1 + i % 100, 3 + i * 7 % 3 FROM n;",
        )?;
        Ok(database)
    }

    /// A pool of at most `connections`, each opened when it is first needed.
    pub(crate) fn pool(&self, connections: u32, patience: Duration) -> Result<Pool, Failure> {
        let manager = Connections {
            file: self.file(),
            latency: self.latency.clone(),
            usage: Arc::clone(&self.usage),
        };
        Ok(r2d2::Pool::builder()
            .max_size(connections)
            .min_idle(Some(0))
            .connection_timeout(patience)
            .test_on_check_out(false)
            .event_handler(Box::new(Recorder(Arc::clone(&self.usage))))
            .build(manager)?)
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    fn file(&self) -> PathBuf {
        self.directory.join("reviews.sqlite")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The number of reviews of a product and their average, from one statement.
pub(crate) fn summary(connection: &Connection, product: u32) -> rusqlite::Result<(u32, f64)> {
    // An aggregate without GROUP BY gives one row, so `disk_wait()` is called once a statement.
    connection.query_row(
        "SELECT count(*), coalesce(round(avg(stars), 1), 0.0), disk_wait()
         FROM review WHERE product = ?1",
        [product],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Opens the pool's connections. (`r2d2_sqlite` does the same, but pins its own `SQLite` version.)
#[derive(Debug)]
pub(crate) struct Connections {
    file: PathBuf,
    latency: Latency,
    usage: Arc<Usage>,
}

impl r2d2::ManageConnection for Connections {
    type Connection = Connection;
    type Error = rusqlite::Error;

    fn connect(&self) -> Result<Connection, rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.file, flags)?;
        let latency = self.latency.clone();
        let usage = Arc::clone(&self.usage);
        connection.create_scalar_function(
            "disk_wait",
            0,
            FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY,
            move |_| {
                usage.statements.fetch_add(1, Ordering::Relaxed);
                latency.pass();
                Ok(0)
            },
        )?;
        Ok(connection)
    }

    fn is_valid(&self, _: &mut Connection) -> Result<(), rusqlite::Error> {
        Ok(())
    }

    fn has_broken(&self, _: &mut Connection) -> bool {
        false
    }
}

/// Counts what the pool reports of itself.
#[derive(Debug)]
struct Recorder(Arc<Usage>);

impl HandleEvent for Recorder {
    fn handle_acquire(&self, _: AcquireEvent) {
        self.0.opened.fetch_add(1, Ordering::Relaxed);
    }

    fn handle_checkout(&self, _: CheckoutEvent) {
        self.0.taken.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes a new directory that no other process or database of this one uses.
fn fresh_directory() -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("watertight-storefront-{}-{number}", process::id());
    let directory = Path::new(&env::temp_dir()).join(name);
    fs::create_dir(&directory)?;
    Ok(directory)
}
