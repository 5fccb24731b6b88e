//! Reviews in `SQLite`, in a file, read through a connection pool.
//!
//! The slowness is in the SQL itself. Every connection has an SQL function `disk_wait()` that takes
//! as long as the database takes at the moment, and the query calls it. So a slow review holds what
//! it would hold in production: a thread inside the driver and a connection of the pool. As with
//! most drivers, a statement that runs cannot be given up from outside; it ends when it ends. A hung
//! database is a disk that does not answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, io, process};

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags};
use watertight::Bulkhead;

use super::{Database, Reached, Reviews, Usage};
use crate::clients::CALL_LIMIT;
use crate::latency::{Latency, Pace};
use crate::page::Failure;

/// The database file and what has been done to it. Dropping it removes the file.
pub(super) struct Sqlite {
    directory: PathBuf,
    latency: Latency,
    usage: Usage,
    statements: Arc<AtomicU64>,
}

impl Sqlite {
    /// Creates the file in a directory of its own and fills it.
    pub(super) fn create(latency: Latency) -> Result<Self, Failure> {
        let database = Self {
            directory: fresh_directory()?,
            latency,
            usage: Usage::default(),
            statements: Arc::default(),
        };
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

    fn file(&self) -> PathBuf {
        self.directory.join("reviews.sqlite")
    }
}

impl Database for Sqlite {
    fn set(&self, pace: Pace) -> Result<(), Failure> {
        self.latency.set(pace);
        Ok(())
    }

    fn pool(&self, connections: u32, patience: Duration) -> Result<Box<dyn Reviews>, Failure> {
        let manager = Connections {
            file: self.file(),
            latency: self.latency.clone(),
            statements: Arc::clone(&self.statements),
        };
        Ok(Box::new(self.usage.pool(manager, connections, patience)?))
    }

    /// A plain pool too, with a connection for each thread: nothing gets a thread out of `SQLite`.
    fn isolated(&self, bulkhead: &Bulkhead) -> Result<Box<dyn Reviews>, Failure> {
        self.pool(u32::try_from(bulkhead.snapshot().threads)?, CALL_LIMIT)
    }

    fn reached(&self) -> Result<Reached, Failure> {
        Ok(Reached {
            statements: self.statements.load(Ordering::Relaxed),
            taken: self.usage.taken(),
            opened: self.usage.opened(),
        })
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Reviews for r2d2::Pool<Connections> {
    fn summary(&self, product: u32, _: Instant) -> Result<(u32, f64), Failure> {
        // An aggregate without GROUP BY gives one row, so `disk_wait()` is called once a statement.
        Ok(self.get()?.query_row(
            "SELECT count(*), coalesce(round(avg(stars), 1), 0.0), disk_wait()
             FROM review WHERE product = ?1",
            [product],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?)
    }
}

/// Opens the pool's connections. (`r2d2_sqlite` does the same, but pins its own `SQLite` version.)
#[derive(Debug)]
struct Connections {
    file: PathBuf,
    latency: Latency,
    statements: Arc<AtomicU64>,
}

impl r2d2::ManageConnection for Connections {
    type Connection = Connection;
    type Error = rusqlite::Error;

    fn connect(&self) -> Result<Connection, rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.file, flags)?;
        let latency = self.latency.clone();
        let statements = Arc::clone(&self.statements);
        connection.create_scalar_function(
            "disk_wait",
            0,
            FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY,
            move |_| {
                statements.fetch_add(1, Ordering::Relaxed);
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

/// Makes a new directory that no other process or database of this one uses.
fn fresh_directory() -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("watertight-storefront-{}-{number}", process::id());
    let directory = Path::new(&env::temp_dir()).join(name);
    fs::create_dir(&directory)?;
    Ok(directory)
}
