//! The three things that a product page depends on, started together.

use serde_json::json;

use crate::database::{Database, Kind};
use crate::latency::{Latency, Pace};
use crate::origin::Origin;
use crate::page::{Failure, Part};

/// Pricing and recommendations over HTTP, reviews in a database: each runs on its own.
pub(crate) struct Dependencies {
    pub(crate) pricing: Origin,
    pub(crate) recommendations: Origin,
    pub(crate) reviews: Box<dyn Database>,
    switches: [(Part, Latency); 3],
}

impl Dependencies {
    /// Starts all three, healthy.
    pub(crate) fn start(database: Kind) -> Result<Self, Failure> {
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
            reviews: database.create(&latency(Part::Reviews))?,
            switches,
        })
    }

    /// Changes how long a dependency takes, from its next call on.
    pub(crate) fn set(&self, part: Part, pace: Pace) -> Result<(), Failure> {
        match part {
            Part::Reviews => self.reviews.set(pace)?,
            Part::Pricing | Part::Recommendations => self.switches[part as usize].1.set(pace),
        }
        Ok(())
    }

    /// Calls that have reached a dependency so far.
    #[cfg(test)]
    pub(crate) fn reached(&self, part: Part) -> u64 {
        match part {
            Part::Pricing => self.pricing.requests(),
            Part::Recommendations => self.recommendations.requests(),
            Part::Reviews => self.reviews.reached().expect("the database can be asked").statements,
        }
    }
}
