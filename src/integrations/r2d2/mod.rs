//! Bulkheads whose jobs receive a connection, from any [r2d2](https://docs.rs/r2d2/0.8) manager. Feature `r2d2`.
//!
//! A [`Pool`] gives a bulkhead connections of its own, as many as it has threads, so that a running
//! job never waits for one behind another job. Managers for `SQLite`, `MySQL`, Redis and the rest work
//! unchanged.
//!
//! ```
//! # #[derive(Debug)] struct Connections;
//! # impl watertight::r2d2::ManageConnection for Connections {
//! #     type Connection = Vec<u8>;
//! #     type Error = std::io::Error;
//! #     fn connect(&self) -> std::io::Result<Vec<u8>> { Ok(vec![4]) }
//! #     fn is_valid(&self, _: &mut Vec<u8>) -> std::io::Result<()> { Ok(()) }
//! #     fn has_broken(&self, _: &mut Vec<u8>) -> bool { false }
//! # }
//! use watertight::r2d2::Pool;
//! use watertight::{Bulkhead, Runtime};
//!
//! let runtime = Runtime::builder().bulkhead(Bulkhead::builder("reviews").threads(4)).build()?;
//! let reviews = Pool::builder(Connections).build(&runtime.bulkhead("reviews")?)?;
//!
//! let stars = reviews.call(|connection, _ctx| connection[0])?;
//! assert_eq!(stars, 4);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # What goes back to the pool
//!
//! | The job | Its connection |
//! |---|---|
//! | returned, a `Result::Err` too | is kept, after [`on_return`](PoolBuilder::on_return) and the manager's `has_broken` |
//! | panicked | is closed |
//! | was cancelled, or aborted, or its deadline had passed | is closed |
//!
//! # Its threads
//!
//! A pool has three helper threads, started by [`build`](PoolBuilder::build) and gone after the
//! runtime's shutdown, or after the last handle and job of the pool:
//!
//! - `wt-<bulkhead>-c` opens connections, and tries again twice a second while that fails;
//! - `wt-<bulkhead>-k` and `-l` test and close them, so that neither can hang on a worker.
//!
//! Nothing can end a manager's call that hangs. While `connect` hangs no further connection is
//! opened; so give the manager a time limit on connecting if it has one. A job waits for its
//! connection no longer than [`connect_limit`](PoolBuilder::connect_limit) all the same.

mod builder;
mod checkout;
mod error;
mod held;
mod helpers;
mod keeper;
mod manager;
mod news;
mod pool;
mod shared;

pub use ::r2d2::ManageConnection;

pub use self::builder::PoolBuilder;
pub use self::error::{ConnectionError, ConnectionErrorKind};
pub use self::pool::Pool;
pub use self::shared::PoolStatus;
