//! Bulkheads whose jobs make HTTP requests, with [ureq]. Feature `http`, and `http-tls` for
//! `https:` URLs.
//!
//! A [`Client`] gives a bulkhead an agent of its own: connections, name look-ups and limits that no
//! other bulkhead shares.
//!
//! ```no_run
//! use watertight::http::Client;
//! use watertight::{Bulkhead, Flatten, Runtime};
//!
//! let runtime = Runtime::builder().bulkhead(Bulkhead::builder("pricing").threads(20)).build()?;
//! let pricing = Client::builder().build(&runtime.bulkhead("pricing")?)?;
//!
//! let price = pricing
//!     .call(|agent, _ctx| agent.get("http://pricing.internal/42").call()?.body_mut().read_to_string())
//!     .flat()?;
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # Its threads
//!
//! Two for each client, `wt-<bulkhead>-d` and `-e`, which look names up; none for a request. The
//! system's look-up cannot be interrupted, so they may outlast a shutdown until the system gives up;
//! then they are in its report. Callers and workers never wait for that.

mod builder;
mod client;
mod fault;
mod resolver;
mod seat;
mod transport;

pub use self::builder::ClientBuilder;
pub use self::client::Client;
pub use self::fault::fault;
pub use super::Fault;
