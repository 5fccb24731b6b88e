//! [`ClientBuilder`]: the description of a client.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ureq::Agent;
use ureq::Proxy;

use super::client::{Client, Wires};
use super::resolver::{Bounded, LOOKERS, LookUp, Names, system_look_up};
use super::seat::Lines;
use super::transport::Watched;
use crate::bulkhead::Bulkhead;
use crate::compartment::{Compartment, Resource, here};
use crate::error::{BuildError, BuildErrorKind};
use crate::integrations::helpers::Helpers;
use crate::integrations::remotes::Remotes;
use crate::sync::{Arc, Mutex, ThreadSpec, spawn};

/// Describes a client. Made by [`Client::builder`].
#[must_use = "a description does nothing until it is built"]
pub struct ClientBuilder {
    connect_limit: Duration,
    max_response: u64,
    dns_age: Duration,
    look_up: LookUp,
    proxy_from_environment: bool,
    user_agent: Option<String>,
    status_as_error: bool,
    redirects: u32,
}

impl ClientBuilder {
    pub(super) fn new() -> Self {
        Self {
            connect_limit: Duration::from_secs(1),
            max_response: 10 * 1024 * 1024,
            dns_age: Duration::from_secs(30),
            look_up: Arc::new(system_look_up),
            proxy_from_environment: false,
            user_agent: None,
            status_as_error: true,
            redirects: 10,
        }
    }

    /// The longest that one connection may take to open, TLS included; never longer than the job has
    /// left. Defaults to one second: within a data centre it takes a millisecond, and a server that
    /// is gone should not cost the whole call. [`Duration::MAX`] means no limit of its own. Zero is an
    /// error.
    pub fn connect_limit(mut self, limit: Duration) -> Self {
        self.connect_limit = limit;
        self
    }

    /// The most bytes of one response, its head included; a longer one ends as
    /// [`ureq::Error::BodyExceedsLimit`]. Defaults to 10 MiB: a compartment's memory is bounded by its
    /// threads times this. Zero is an error.
    pub fn max_response(mut self, bytes: u64) -> Self {
        self.max_response = bytes;
        self
    }

    /// How long the addresses of a name are believed before they are asked for again. Defaults to
    /// 30 seconds, which follows a fail-over and spares the name server. While that does not answer,
    /// older ones go on being used. Zero asks each time, [`Duration::MAX`] once.
    pub fn dns_age(mut self, age: Duration) -> Self {
        self.dns_age = age;
        self
    }

    /// Looks names up with `look_up(host, port)` instead of the system's resolver. It runs on the
    /// client's own look-up threads and may block. Literal addresses never come to it. Defaults to the
    /// system's.
    pub fn look_up(
        mut self,
        look_up: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        self.look_up = Arc::new(look_up);
        self
    }

    /// Goes through the proxy that the environment names (`HTTPS_PROXY` and the like), if it names
    /// one. Off unless asked for: a proxy that is shared with other bulkheads is a wall between none.
    pub fn proxy_from_environment(mut self) -> Self {
        self.proxy_from_environment = true;
        self
    }

    /// The `User-Agent` of every request. Defaults to ureq's.
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = Some(name.into());
        self
    }

    /// Whether a status of 400 and above is an error, as in ureq, or a response like any other, which
    /// keeps its `Retry-After` for [`fault`](fn@super::fault). Defaults to `true`.
    pub fn status_as_error(mut self, is_error: bool) -> Self {
        self.status_as_error = is_error;
        self
    }

    /// How many redirects a request follows; one more is [`ureq::Error::TooManyRedirects`], and with 0
    /// the redirect itself is the response. Defaults to 10, as in ureq.
    pub fn max_redirects(mut self, redirects: u32) -> Self {
        self.redirects = redirects;
        self
    }

    /// Builds the client that makes its requests on `bulkhead`'s threads, with at most as many idle
    /// connections as those are.
    ///
    /// It starts two threads, which look names up.
    ///
    /// # Errors
    ///
    /// [`BuildError`] with the first thing that is wrong; also if a connection for each thread, with
    /// those of the runtime's other pools and 32 file descriptors for the rest of the process, is more
    /// than `RLIMIT_NOFILE` allows. Then nothing is left behind.
    pub fn build(self, bulkhead: &Bulkhead) -> Result<Client, BuildError> {
        let compartment = bulkhead.compartment();
        let wrong = |setting, problem: &str| {
            let name = Some(compartment.name());
            BuildError::new(BuildErrorKind::InvalidSetting, name, setting, problem)
        };
        if self.connect_limit.is_zero() {
            return Err(wrong(
                "connect_limit",
                "is zero, so that no connection could be opened; give it a longer time, or \
                 `Duration::MAX` for none but the job's",
            ));
        }
        if self.max_response == 0 {
            return Err(wrong(
                "max_response",
                "is 0 bytes, so that no response could be received; allow at least the size of a head",
            ));
        }
        let threads = compartment.rules.threads;
        let limit = (self.connect_limit != Duration::MAX).then_some(self.connect_limit);
        let mut config = Agent::config_builder()
            .max_idle_connections(threads)
            .max_idle_connections_per_host(threads)
            .timeout_connect(limit)
            .http_status_as_error(self.status_as_error)
            .max_redirects(self.redirects)
            // Two of them for each connection; ureq's 128 KiB are for throughput on one.
            .input_buffer_size(32 * 1024)
            .output_buffer_size(32 * 1024);
        config = if self.proxy_from_environment {
            config.proxy(Proxy::try_from_env())
        } else {
            config.proxy(None)
        };
        if let Some(name) = self.user_agent {
            config = config.user_agent(name);
        }
        let planned = Mutex::new(Some(compartment.plan_descriptors("threads", threads, 1)?));
        let names = Names::new(self.look_up, self.dns_age, compartment.name());
        let helpers = Arc::new(Helpers::default());
        if let Err(error) = start_lookers(compartment, &names, &helpers) {
            names.close();
            // They have nothing to do, so they go at once.
            helpers.wait_until_gone(None);
            return Err(error);
        }
        helpers.wait_until_all_are_here();
        let resolver = Bounded(Arc::clone(&names));
        let (lines, remotes) = (Arc::new(Lines::default()), Arc::new(Remotes::default()));
        let connector = Watched::new(self.max_response, Arc::clone(&lines), Arc::clone(&remotes));
        let agent = Agent::with_parts(config.build(), connector, resolver);
        let wires = Arc::new(Wires { agent, lines, names, helpers, remotes, planned });
        let client = Client::new(bulkhead.clone(), Arc::clone(&wires));
        compartment.attach(&(wires as Arc<dyn Resource>));
        Ok(client)
    }
}

fn start_lookers(
    compartment: &Compartment,
    names: &Arc<Names>,
    helpers: &Arc<Helpers>,
) -> Result<(), BuildError> {
    for letter in ['d', 'e'].into_iter().take(LOOKERS) {
        let name = compartment.helper_name(letter);
        let gone = helpers.starting(&name);
        let (body, runtime) = (Arc::clone(names), compartment.runtime);
        let spec = ThreadSpec { name: name.clone(), stack_size: None };
        let me = helpers.check_in(&name);
        let started = spawn(spec, gone, move || {
            me();
            here::belongs_to(runtime);
            body.look();
        });
        // Nobody joins it: that it is gone is what `gone` says.
        started.map(drop).map_err(|error| {
            helpers.gone(&name);
            let problem = "has no thread to run on, since the system refused to start one; raise its \
                           limits on threads and memory";
            BuildError::new(BuildErrorKind::Spawn, Some(compartment.name()), "look_up", problem)
                .caused_by(error)
        })?;
    }
    Ok(())
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart in full, so that a new setting cannot be forgotten here.
        let Self {
            connect_limit,
            max_response,
            dns_age,
            look_up: _,
            proxy_from_environment,
            user_agent,
            status_as_error,
            redirects,
        } = self;
        f.debug_struct("ClientBuilder")
            .field("connect_limit", connect_limit)
            .field("max_response", max_response)
            .field("dns_age", dns_age)
            .field("proxy_from_environment", proxy_from_environment)
            .field("user_agent", user_agent)
            .field("status_as_error", status_as_error)
            .field("redirects", redirects)
            .finish_non_exhaustive()
    }
}
