//! [`ServerBuilder`]: the description of a server.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

use super::Server;
use super::guests::{Guests, welcome};
use super::reader::{self, Sources};
use super::ready::Requirements;
use crate::metrics::Metrics;
use crate::sync::{ThreadSpec, spawn};

/// Describes a server. Made by [`Server::builder`].
#[must_use = "a description does nothing until it is served"]
pub struct ServerBuilder {
    metrics: Metrics,
    registry: Registry,
    required: Vec<String>,
    saturated_limit: Duration,
    client_limit: Duration,
    clients: usize,
    is_public: bool,
}

impl ServerBuilder {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            registry: Registry::default(),
            required: Vec::new(),
            saturated_limit: Duration::from_secs(10),
            client_limit: Duration::from_secs(10),
            clients: 64,
            is_public: false,
        }
    }

    /// Serves the metrics of `registry` as well. The bulkheads' must not be
    /// [registered](Metrics::register) there: this does it. Defaults to none.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Has `/readyz` look at this bulkhead. Defaults to none, with which the service is always ready.
    ///
    /// Require those without which no request can be answered, and no other: a service that takes
    /// itself out of rotation because an optional dependency is slow has let that dependency take it
    /// down.
    pub fn require(mut self, bulkhead: impl Into<String>) -> Self {
        self.required.push(bulkhead.into());
        self
    }

    /// How long a required bulkhead may be full without a break before the service is not ready.
    ///
    /// Defaults to 10 seconds: a burst is over by then, and where every instance is as slow as this one
    /// it does not take all of them out at the first sign. [`Duration::MAX`] means that only a shutdown
    /// counts.
    pub fn saturated_limit(mut self, limit: Duration) -> Self {
        self.saturated_limit = limit;
        self
    }

    /// The longest that one client may stay connected. Defaults to 10 seconds, which is the longest
    /// that Prometheus waits for an answer unless it is told otherwise. Zero is an error.
    pub fn client_limit(mut self, limit: Duration) -> Self {
        self.client_limit = limit;
        self
    }

    /// How many clients may be connected at once. When one more comes, the one that has not finished
    /// its request for the longest time has to go, so that slow ones cannot keep the others out.
    /// Defaults to 64. Zero is an error.
    pub fn clients(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    /// Allows an address that others than this machine can reach. Off unless asked for: the numbers
    /// tell a stranger which dependencies there are and how close to their limits.
    pub fn allow_public(mut self) -> Self {
        self.is_public = true;
        self
    }

    /// Listens at `address` and starts the server's two threads. Port 0 lets the system choose one.
    ///
    /// # Errors
    ///
    /// [`io::Error`]: of kind `InvalidInput` if a setting is wrong or the address is not a loopback one
    /// and [`allow_public`](ServerBuilder::allow_public) was not asked for, otherwise the system's.
    /// Then nothing is left behind.
    pub fn serve(self, address: impl ToSocketAddrs) -> io::Result<Server> {
        let Self { metrics, mut registry, required, saturated_limit, client_limit, .. } = self;
        if client_limit.is_zero() || self.clients == 0 {
            let setting = if self.clients == 0 { "clients" } else { "client_limit" };
            return Err(wrong(format!(
                "`{setting}` is zero, so that nobody could be served; give it more, or leave it unset"
            )));
        }
        let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        let is_outside = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        if let Some(outside) = addresses.iter().find(is_outside).filter(|_| !self.is_public) {
            return Err(wrong(format!(
                "{outside} can be reached from other machines; listen at 127.0.0.1, or say \
                 `allow_public()`"
            )));
        }
        let listener = TcpListener::bind(&addresses[..])?;
        listener.set_nonblocking(true)?;
        let local_addr = listener.local_addr()?;

        metrics.register(&mut registry);
        let requirements = Requirements { required, saturated_limit };
        let reader = reader::start(Sources { metrics, registry, requirements })?;
        let guests = Guests { most: self.clients, limit: client_limit, reader };
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let spec = ThreadSpec { name: "watertight-http".into(), stack_size: None };
        let thread =
            spawn(spec, || (), move || executor.block_on(welcome(listener, guests, stopped)))?;
        Ok(Server { local_addr, stop: Some(stop), thread: Some(thread) })
    }
}

fn wrong(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart in full, so that a new setting cannot be forgotten here.
        let Self {
            metrics,
            registry: _,
            required,
            saturated_limit,
            client_limit,
            clients,
            is_public,
        } = self;
        f.debug_struct("ServerBuilder")
            .field("metrics", metrics)
            .field("required", required)
            .field("saturated_limit", saturated_limit)
            .field("client_limit", client_limit)
            .field("clients", clients)
            .field("is_public", is_public)
            .finish_non_exhaustive()
    }
}
