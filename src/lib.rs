//! Bulkheads for blocking work.
//!
//! A service has 200 threads. One dependency of six becomes slow; nothing fails, every thread waits
//! for it, and the whole service is down. With `watertight` each dependency has a compartment of its
//! own: OS threads, a bounded queue, cores and time limits, and nothing is borrowed between them. The
//! slow one is refused at once; the others do not notice.
//!
//! ```
//! use watertight::{Bulkhead, CallError, Flatten, Runtime};
//!
//! let runtime = Runtime::builder()
//!     .bulkhead(Bulkhead::builder("pricing").threads(20).queue(50))
//!     .bulkhead(Bulkhead::builder("reviews").threads(15).queue(0))
//!     .build()?;
//!
//! let reviews = runtime.bulkhead("reviews")?;
//! match reviews.call(|_| query_reviews()).flat() {
//!     Ok(stars) => println!("{stars} stars"),
//!     Err(CallError::Rejected(full)) => println!("no reviews now: {full}"),
//!     Err(error) => println!("no reviews: {error}"),
//! }
//! # fn query_reviews() -> Result<u32, std::io::Error> { Ok(4) }
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! Start at [`Runtime::builder`], [`Bulkhead::builder`] and [`Bulkhead::call`]. What a full bulkhead
//! does is its [`RejectionPolicy`]; how a call can end is [`CallError`]; what it is at is its
//! [`Snapshot`]. Which pools the process still shares is in [`Runtime::audit`].
//!
//! # Cargo features
//!
//! None is on by default.
//!
//! | Feature | What it gives |
//! |---|---|
//! | `r2d2` | `r2d2::Pool`: jobs receive a connection, from any r2d2 manager |
//! | `postgres` | `postgres::Database`: jobs receive a PostgreSQL client that gives the thread back at the deadline |
//! | `http`, `http-tls` | `http::Client`: jobs make HTTP requests that give the thread back at the deadline |
//! | `prometheus` | `metrics::Metrics`: the numbers as Prometheus text or OpenMetrics |
//! | `prometheus-serve` | `metrics::Server`: a small web server for them, with health checks |
//! | `background` | `BulkheadBuilder::background`: workers in the system's idle class |
#![cfg_attr(docsrs, feature(doc_cfg))]

mod sync;

mod contain;
mod error;
mod event;
mod name;
mod time;
mod vitals;

mod compartment;

mod bulkhead;

mod runtime;

#[cfg(all(any(feature = "http", feature = "r2d2"), not(watertight_loom)))]
mod integrations;

#[cfg(all(feature = "prometheus", not(watertight_loom)))]
#[cfg_attr(docsrs, doc(cfg(feature = "prometheus")))]
pub mod metrics;

#[cfg(all(test, watertight_loom))]
mod models;
#[cfg(all(test, watertight_shuttle))]
mod schedules;

/// The Rust blocks of the README and the guide are tests like those of this documentation.
#[cfg(doctest)]
mod prose {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/guide.md")]
    mod guide {}
    #[doc = include_str!("../docs/design.md")]
    mod design {}
    #[cfg(all(feature = "http", feature = "postgres", feature = "r2d2"))]
    #[doc = include_str!("../docs/integrations.md")]
    mod integrations {}
    #[cfg(feature = "prometheus-serve")]
    #[doc = include_str!("../docs/operations.md")]
    mod operations {}
}

pub use bulkhead::{
    Batch, Bulkhead, BulkheadBuilder, CallFuture, CancelOnDrop, Footprint, JobHandle, Snapshot,
    SubmitFuture,
};
pub use compartment::{
    AbortGuard, Context, Histogram, Peaks, Pinning, RejectionPolicy, Scheduling, ThreadInfo,
    ThreadKind, Totals,
};
pub use error::{
    BuildError, BuildErrorKind, CallError, Flatten, NotStarted, Panicked, Rejected, Rejection,
    ShutdownError, TimeLimit, TimedOut, UnknownBulkhead,
};
pub use event::{
    AcceptedEvent, FinishedEvent, NotStartedEvent, Observer, Outcome, RejectedEvent, RelievedEvent,
    SaturatedEvent, StartedEvent,
};
#[cfg(all(feature = "http", not(watertight_loom)))]
pub use integrations::http;
#[cfg(all(feature = "postgres", not(watertight_loom)))]
pub use integrations::postgres;
#[cfg(all(feature = "r2d2", not(watertight_loom)))]
pub use integrations::r2d2;
pub use runtime::{
    Audit, AuditedConnections, AuditedListener, AuditedThread, BulkheadPlan, HelperThread, Plan,
    RemoteAddress, Runtime, RuntimeBuilder, ShutdownReport, StuckThread, UnstartedJob,
};
pub use time::{Clock, Deadline, ManualClock, MonotonicClock};
