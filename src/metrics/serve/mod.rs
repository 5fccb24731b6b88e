//! [`Server`]: a small web server for metrics and health checks.
//!
//! Two threads. One, `watertight-http`, serves every client: each is a task of its executor, so a slow
//! one keeps nobody waiting, and how many there are and how long one may stay is bounded. It runs no
//! code of the user's and takes no lock of a bulkhead, so it answers `/livez` whatever else hangs.
//! The other, `watertight-read`, reads the bulkheads and writes the answers, since the user's clock,
//! wakers and collectors may run there.

mod answer;
mod builder;
mod guests;
mod http;
mod json;
mod reader;
mod ready;

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use tokio::sync::oneshot;

pub use self::builder::ServerBuilder;
use super::collector::Metrics;
use crate::sync::ThreadHandle;

/// Serves `metrics` at a loopback address, with the defaults of [`Server::builder`].
///
/// ```
/// use std::io::{Read, Write};
/// use watertight::metrics::{Metrics, serve};
/// use watertight::{Bulkhead, Runtime};
///
/// let runtime = Runtime::builder().bulkhead(Bulkhead::builder("reviews").threads(4)).build()?;
/// let server = serve("127.0.0.1:0", &Metrics::of(&runtime))?;
///
/// let mut client = std::net::TcpStream::connect(server.local_addr())?;
/// client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
/// let mut answer = String::new();
/// client.read_to_string(&mut answer)?;
/// assert!(answer.starts_with("HTTP/1.1 200 OK"));
/// assert!(answer.contains(r#"watertight_threads{bulkhead="reviews"} 4"#));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// # Errors
///
/// As for [`ServerBuilder::serve`].
pub fn serve(address: impl ToSocketAddrs, metrics: &Metrics) -> io::Result<Server> {
    Server::builder(metrics).serve(address)
}

/// A running server of metrics and health checks. It stops when it is dropped.
///
/// | Path | Answer |
/// |---|---|
/// | `/metrics` | every number, in the [`Format`](super::Format) that the request prefers |
/// | `/snapshot.json` | the same for people and scripts |
/// | `/livez` | 200 as long as the process can answer at all, also while every bulkhead hangs |
/// | `/readyz` | 200, or 503 with the reasons: a [required](ServerBuilder::require) bulkhead is shutting down, has been full for long, or is not there |
///
/// Nothing that it does calls a dependency. A client has one request, then the connection is closed. It
/// may stay for as long as [`client_limit`](ServerBuilder::client_limit) says; when there are too many
/// of them, the one that has not finished its request for the longest time has to go.
#[must_use = "it stops when it is dropped"]
pub struct Server {
    local_addr: SocketAddr,
    /// Dropped, it stops the server.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<ThreadHandle>,
}

impl Server {
    /// Starts the description of a server for `metrics`.
    pub fn builder(metrics: &Metrics) -> ServerBuilder {
        ServerBuilder::new(metrics.clone())
    }

    /// Where it listens; with the port that the system chose, if it was to choose one.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops it: closes its port and every connection. Dropping it does the same.
    ///
    /// The thread that reads the bulkheads is not waited for, since the user's code may hang there; it
    /// ends after the answer that it is at.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // It runs nothing that may block. A panic there would be ours, and has been printed.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("local_addr", &self.local_addr).finish_non_exhaustive()
    }
}
