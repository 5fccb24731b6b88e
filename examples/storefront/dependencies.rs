//! The three things that a product page depends on, started together.

use serde_json::json;

use crate::database::Database;
use crate::latency::Latency;
use crate::origin::Origin;
use crate::page::{Failure, Part};

/// Pricing and recommendations over HTTP, reviews in a database: each runs on its own.
#[derive(Debug)]
pub(crate) struct Dependencies {
    pub(crate) pricing: Origin,
    pub(crate) recommendations: Origin,
    pub(crate) reviews: Database,
    switches: [(Part, Latency); 3],
}

impl Dependencies {
    /// Starts all three, healthy.
    pub(crate) fn start() -> Result<Self, Failure> {
        let switches = Part::ALL.map(|part| (part, Latency::from_millis(part.healthy_millis())));
        let latency = |part: Part| switches[part as usize].1.clone();
        Ok(Self {
            pricing: Origin::start(
                "pricing",
                latency(Part::Pricing),
                |product| json!({ "amount": 5 + product % 90, "currency": "EUR" }),
            )?,
            recommendations: Origin::start(
                "recommendations",
                latency(Part::Recommendations),
                |product| json!([product + 1, product + 2, product + 3]),
            )?,
            reviews: Database::create(latency(Part::Reviews))?,
            switches,
        })
    }

    /// Changes how long a dependency takes, from its next call on.
    pub(crate) fn slow(&self, part: Part, millis: u64) {
        self.switches[part as usize].1.set_millis(millis);
    }

    /// Calls that have reached a dependency so far.
    pub(crate) fn reached(&self, part: Part) -> u64 {
        match part {
            Part::Pricing => self.pricing.requests(),
            Part::Recommendations => self.recommendations.requests(),
            Part::Reviews => self.reviews.usage().statements(),
        }
    }
}
