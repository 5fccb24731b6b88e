//! The clients of the three dependencies. Both builds of the service use these; the way to the
//! reviews differs where the crate has one of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::Agent;

use crate::database::Reviews;
use crate::dependencies::Dependencies;
use crate::page::{Failure, Part};

/// No call to a dependency may take longer, as far as its client can enforce it.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(2);

/// A client for each dependency, shared by all threads of a build.
pub(crate) struct Clients {
    pricing: HttpClient,
    recommendations: HttpClient,
    reviews: Box<dyn Reviews>,
}

impl Clients {
    /// Keeps as many HTTP connections to each origin as threads may call it, so that no thread ever
    /// waits for one or opens one anew.
    pub(crate) fn new(
        dependencies: &Dependencies,
        threads: usize,
        reviews: Box<dyn Reviews>,
    ) -> Self {
        let Dependencies { pricing, recommendations, .. } = dependencies;
        Self {
            pricing: HttpClient::new(pricing.address(), threads),
            recommendations: HttpClient::new(recommendations.address(), threads),
            reviews,
        }
    }

    /// Whether calls for reviews run on threads that belong to their client.
    pub(crate) fn reviews_bring_threads(&self) -> bool {
        self.reviews.brings_threads()
    }

    /// Fetches one part of a page and waits for it, until `until` where the client can stop then.
    pub(crate) fn fetch(&self, part: Part, product: u32, until: Instant) -> Result<Value, Failure> {
        match part {
            Part::Pricing => self.pricing.get(product),
            Part::Recommendations => self.recommendations.get(product),
            Part::Reviews => {
                let (count, stars) = self.reviews.summary(product, until)?;
                Ok(json!({ "count": count, "stars": stars }))
            }
        }
    }
}

/// A ureq agent and the address of the origin that it talks to.
#[derive(Debug)]
struct HttpClient {
    agent: Agent,
    origin: String,
}

impl HttpClient {
    fn new(origin: SocketAddr, connections: usize) -> Self {
        let agent = Agent::config_builder()
            // Limits on the phases of a call. A global limit would cover the name look-up too, which
            // ureq then moves to a thread of its own for every call; here the address is a number.
            .timeout_connect(Some(CALL_LIMIT))
            .timeout_recv_response(Some(CALL_LIMIT))
            .timeout_recv_body(Some(CALL_LIMIT))
            // ureq keeps three idle connections to a host by default. Everything above that would
            // be opened anew for each call.
            .max_idle_connections(connections)
            .max_idle_connections_per_host(connections)
            // Kept for the whole run, so that the origin can count who ever connected.
            .max_idle_age(Duration::from_secs(3600))
            // Loopback is never reached through a proxy, whatever the environment says.
            .proxy(None)
            .build()
            .into();
        Self { agent, origin: format!("http://{origin}") }
    }

    fn get(&self, product: u32) -> Result<Value, Failure> {
        let mut response = self.agent.get(format!("{}/{product}", self.origin)).call()?;
        Ok(serde_json::from_str(&response.body_mut().read_to_string()?)?)
    }
}
