//! The service's front door: a blocking HTTP server with a fixed number of request threads.
//!
//! Both builds stand behind this same door. It has 400 threads, so that the dependencies and not the
//! door set the limit: even when every page waits the full 2 s, 150 pages a second hold only 300.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use serde_json::json;
use tiny_http::{Header, Method, Request, Response, Server};

use crate::dependencies::Dependencies;
use crate::latency::Pace;
use crate::page::{Failure, Part, Storefront, Unavailable};

pub(crate) const REQUEST_THREADS: usize = 400;

/// The header that names the parts a page has to do without.
pub(crate) const MISSING_PARTS: &str = "Missing-Parts";

type Answer = Response<std::io::Cursor<Vec<u8>>>;

/// The running server. Dropping it stops it after the requests in hand.
pub(crate) struct Front {
    address: SocketAddr,
    server: Arc<Server>,
    threads: Vec<JoinHandle<()>>,
}

impl Front {
    /// Opens the door on a loopback port; 0 takes any free one.
    pub(crate) fn open(
        port: u16,
        storefront: &Arc<dyn Storefront>,
        dependencies: &Arc<Dependencies>,
    ) -> Result<Self, Failure> {
        let server = Arc::new(Server::http((Ipv4Addr::LOCALHOST, port))?);
        let address = server.server_addr().to_ip().ok_or("the server has no IP address")?;
        let threads = (0..REQUEST_THREADS)
            .map(|number| {
                let server = Arc::clone(&server);
                let storefront = Arc::clone(storefront);
                let dependencies = Arc::clone(dependencies);
                thread::Builder::new().name(format!("request-{number}")).spawn(move || {
                    while let Ok(request) = server.recv() {
                        let answer = answer(&request, &*storefront, &dependencies);
                        // A client that hung up gets no answer; the next request is not its fault.
                        let _ = request.respond(answer);
                    }
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { address, server, threads })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // Each call ends one thread's `recv`.
        for _ in &self.threads {
            self.server.unblock();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn answer(request: &Request, storefront: &dyn Storefront, dependencies: &Dependencies) -> Answer {
    let started = Instant::now();
    let (path, query) = request.url().split_once('?').unwrap_or((request.url(), ""));
    match (request.method(), path.split('/').skip(1).collect::<Vec<_>>().as_slice()) {
        (Method::Get, ["health"]) => text(200, "fine"),
        (Method::Get, ["product", product]) => match product.parse() {
            Ok(product) => product_page(storefront, product, started),
            Err(_) => text(400, "a product is a number: /product/1"),
        },
        (Method::Post, ["slow", part]) => {
            let pace = query.strip_prefix("ms=").and_then(|millis| match millis {
                "never" => Some(Pace::Never),
                _ => millis.parse().ok().map(Pace::Millis),
            });
            match (Part::named(part), pace) {
                (Some(part), Some(pace)) => set_pace(dependencies, part, pace),
                _ => text(400, "POST /slow/{pricing,reviews,recommendations}?ms=3000 (or never)"),
            }
        }
        _ => text(404, "try /product/1 or /health"),
    }
}

fn set_pace(dependencies: &Dependencies, part: Part, pace: Pace) -> Answer {
    let name = part.name();
    match (dependencies.set(part, pace), pace) {
        (Ok(()), Pace::Millis(millis)) => {
            text(200, &format!("{name} takes {millis} ms from now on"))
        }
        (Ok(()), Pace::Never) => {
            text(200, &format!("{name} accepts and does not answer from now on"))
        }
        (Err(error), _) => text(500, &format!("{name} is as it was: {error}")),
    }
}

fn product_page(storefront: &dyn Storefront, product: u32, started: Instant) -> Answer {
    match storefront.page(product, started) {
        Ok(page) => {
            let missing: Vec<_> = page.missing().map(Part::name).collect();
            let answer = text(200, &page.into_json().to_string())
                .with_header(header("Content-Type", "application/json"));
            if missing.is_empty() {
                answer
            } else {
                answer.with_header(header(MISSING_PARTS, &missing.join(", ")))
            }
        }
        Err(Unavailable { reason, retry_after }) => {
            // The header counts whole seconds; rounding up never asks a client back too early.
            let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
            text(503, &json!({ "error": reason }).to_string())
                .with_header(header("Content-Type", "application/json"))
                .with_header(header("Retry-After", &seconds.to_string()))
        }
    }
}

fn text(status: u16, body: &str) -> Answer {
    // The line end is for the person at the other end of `curl`.
    Response::from_string(format!("{body}\n")).with_status_code(status)
}

fn header(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).expect("names and values here are plain ASCII")
}
