//! The service with bulkheads: each dependency has its own threads, its own queue and no others.
//!
//! The numbers are those of the guide's worked example, for 150 pages a second. Pricing is required
//! and may queue; reviews and recommendations are optional, so a call that finds no free thread is
//! refused at once and the page goes on without the part.
//!
//! What to expect when reviews takes 3 s. Its 15 threads finish 15 / 3 s = 5 calls a second and the
//! other 145 are refused, each in microseconds. Nothing else changes, because nothing else is
//! shared. The 5 pages a second whose call was accepted (3.3 % of 150) wait for it in vain until
//! 48 ms after their start. So p99 moves from 41 ms, when recommendations decides, to 48 ms: by a
//! factor of about 1.2.
//!
//! With PostgreSQL the crate's own way to the database is used, and a call that reaches its limit
//! gives its thread back. 150 calls a second of 48 ms hold 7.2 of the 15 threads, so hardly any is
//! refused, and none is answered: every page comes without reviews after 48 ms.

use std::sync::Arc;
use std::time::{Duration, Instant};

use watertight::{Batch, Bulkhead, Deadline, Flatten, Runtime, Totals};

use crate::clients::Clients;
use crate::dependencies::Dependencies;
use crate::page::{Calls, Failure, Page, Part, Storefront, Unavailable};

/// Recommendations need 40 ms; an optional part that is not there 8 ms later is not coming.
const OPTIONAL_WITHIN: Duration = Duration::from_millis(48);

/// Without a price there is no page, so the page waits longer for it.
const REQUIRED_WITHIN: Duration = Duration::from_secs(1);

/// A bulkhead for each dependency and the clients that their threads use.
pub(crate) struct Bulkheads {
    clients: Arc<Clients>,
    pricing: Bulkhead,
    reviews: Bulkhead,
    recommendations: Bulkhead,
    runtime: Runtime,
}

impl Bulkheads {
    pub(crate) fn start(dependencies: &Dependencies) -> Result<Self, Failure> {
        let runtime = Runtime::builder()
            .bulkhead(Bulkhead::builder("pricing").threads(20).queue(50))
            .bulkhead(Bulkhead::builder("reviews").threads(15).queue(0))
            .bulkhead(Bulkhead::builder("recommendations").threads(20).queue(0))
            .build()?;
        let reviews = runtime.bulkhead("reviews")?;
        let way = dependencies.reviews.isolated(&reviews)?;
        Ok(Self {
            clients: Arc::new(Clients::new(dependencies, 20, way)),
            pricing: runtime.bulkhead("pricing")?,
            reviews,
            recommendations: runtime.bulkhead("recommendations")?,
            runtime,
        })
    }

    /// The bulkheads' numbers, served at a loopback port. Ready is whoever can sell.
    #[cfg(feature = "prometheus-serve")]
    pub(crate) fn serve_metrics(&self, port: u16) -> Result<watertight::metrics::Server, Failure> {
        use watertight::metrics::{Metrics, Server};
        let metrics = Metrics::of(&self.runtime);
        Ok(Server::builder(&metrics).require("pricing").serve(("127.0.0.1", port))?)
    }

    fn bulkhead(&self, part: Part) -> &Bulkhead {
        match part {
            Part::Pricing => &self.pricing,
            Part::Reviews => &self.reviews,
            Part::Recommendations => &self.recommendations,
        }
    }
}

impl Storefront for Bulkheads {
    fn page(&self, product: u32, started: Instant) -> Result<Page, Unavailable> {
        let required_until = started + REQUIRED_WITHIN;
        let optional_until = started + OPTIONAL_WITHIN;

        let calls = Batch::new();
        let mut awaited = 0;
        let waits_here = self.clients.reviews_bring_threads();
        for part in Part::ALL {
            if part == Part::Reviews && waits_here {
                continue;
            }
            let until = if part.is_required() { required_until } else { optional_until };
            let clients = Arc::clone(&self.clients);
            let accepted =
                calls.submit_until(self.bulkhead(part), Deadline::at(until), part, move |_| {
                    clients.fetch(part, product, until)
                });
            match accepted {
                Ok(()) => awaited += 1,
                Err(refused) if part.is_required() => {
                    return Err(Unavailable {
                        reason: refused.to_string(),
                        retry_after: refused.retry_after(),
                    });
                }
                Err(_) => {}
            }
        }

        let mut page = Page::new(product);
        if waits_here {
            // The other parts are under way meanwhile.
            if let Ok(value) = self.clients.fetch(Part::Reviews, product, optional_until) {
                page.insert(Part::Reviews, value);
            }
        }
        // Optional parts are taken as long as the page has to wait anyway, for them or for the price.
        while awaited > 0 {
            let until = if page.has(Part::Pricing) { optional_until } else { required_until };
            let Ok((part, outcome)) = calls.receiver().recv_deadline(until) else { break };
            awaited -= 1;
            match outcome.flat() {
                Ok(value) => page.insert(part, value),
                Err(error) if part.is_required() => return Err(no_price(error.to_string())),
                Err(_) => {}
            }
        }
        if page.has(Part::Pricing) {
            Ok(page)
        } else {
            Err(no_price("pricing did not answer in time".to_owned()))
        }
    }

    fn calls(&self, part: Part) -> Calls {
        let now = self.bulkhead(part).snapshot();
        let refused = now.rejected_in_all();
        let Totals { accepted, returned, panicked, .. } = now.totals;
        let started = returned + panicked + now.running as u64;
        Calls { asked: now.arrivals, refused, unstarted: accepted - started }
    }

    fn busy(&self) -> usize {
        self.runtime.snapshots().iter().map(|bulkhead| bulkhead.running).sum()
    }

    fn holds_from_before(&self, moment: Instant) -> bool {
        // Read before the ages are, so that a call is at most taken for older than it is.
        let since = moment.elapsed();
        self.runtime.snapshots().iter().any(|bulkhead| {
            bulkhead.oldest_running.max(bulkhead.oldest_queued).is_some_and(|age| age > since)
        })
    }

    fn threads(&self) -> usize {
        self.runtime.snapshots().iter().map(|bulkhead| bulkhead.threads).sum()
    }
}

fn no_price(reason: String) -> Unavailable {
    Unavailable { reason, retry_after: Duration::from_secs(1) }
}
