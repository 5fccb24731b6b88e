//! The numbers of bulkheads for Prometheus. Feature `prometheus`; with `prometheus-serve` also a small
//! web server for them.
//!
//! ```
//! use watertight::metrics::{Format, Metrics};
//! use watertight::{Bulkhead, Runtime};
//!
//! let runtime = Runtime::builder().bulkhead(Bulkhead::builder("reviews").threads(4)).build()?;
//! let metrics = Metrics::of(&runtime);
//! runtime.bulkhead("reviews")?.call(|_| ())?;
//!
//! // In the handler of a server of your own; `accept` is the request's header.
//! let accept = "text/plain; version=0.0.4";
//! let format = Format::negotiate(accept);
//! let (content_type, body) = (format.content_type(), metrics.render(format));
//! # assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
//! assert!(body.contains(r#"watertight_ended_total{bulkhead="reviews",outcome="returned"} 1"#));
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! Whoever has a registry of [`client`] already puts the numbers next to their own with
//! [`Metrics::register`]. Whoever has no web server has one with `serve`.
//!
//! Gauges are read when they are asked for, so they cannot drift. All numbers of one bulkhead in one
//! answer come from one [`Snapshot`](crate::Snapshot), so that they agree with each other. Labels come
//! from closed sets: `bulkhead` and one of `reason`, `outcome`, `limit`, `state`, `cause`. What each
//! metric says, and in which order to look at them, is in `docs/operations.md`.
//!
//! Floor 5.

mod collector;
mod cpu;
mod families;
mod format;
mod reading;
mod throttling;

#[cfg(feature = "prometheus-serve")]
mod serve;

/// The crate whose registry [`Metrics::register`] takes, in the version that is used here.
pub use prometheus_client as client;

pub use self::collector::{DuplicateBulkhead, Metrics};
pub use self::format::Format;
#[cfg(feature = "prometheus-serve")]
#[cfg_attr(docsrs, doc(cfg(feature = "prometheus-serve")))]
pub use self::serve::{Server, ServerBuilder, serve};
