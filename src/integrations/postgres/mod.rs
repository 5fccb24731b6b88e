//! Bulkheads whose jobs receive a PostgreSQL client. Feature `postgres`.
//!
//! ```no_run
//! use watertight::postgres::{Config, Database};
//! use watertight::{Bulkhead, Runtime};
//!
//! let runtime = Runtime::builder().bulkhead(Bulkhead::builder("reviews").threads(15)).build()?;
//! let config: Config = "host=db.internal user=shop dbname=shop".parse()?;
//! let reviews = Database::builder(config).build(&runtime.bulkhead("reviews")?)?;
//!
//! let stars: i32 = reviews.call(|client, _| -> Result<i32, watertight::postgres::Error> {
//!     Ok(client.query_one("select stars from reviews where product = $1", &[&42_i32])?.get(0))
//! })??;
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! TLS is by a connector of your choice, see [`DatabaseBuilder::tls`]. A Unix socket cannot be guarded.

mod check;
mod conflict;
mod database;
mod fault;
mod frames;
mod guard;
mod manager;
mod names;
mod tls;
mod transaction;

/// The client's crate in the version that is used here.
pub use ::postgres as client;
pub use ::postgres::{Client, Config, Error, IsolationLevel, types};

pub use self::check::{CheckError, ServerPlan, check};
pub use self::conflict::{TransactionError, TransactionOptions};
pub use self::database::{Database, DatabaseBuilder};
pub use self::fault::fault;
pub use self::manager::ConnectError;
pub use self::transaction::Transaction;
pub use super::Fault;
