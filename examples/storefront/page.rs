//! What both builds of the service have in common: the page, its parts, and the trait they share.

use std::error::Error;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

/// Why a dependency gave no answer.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// A part of a product page, and so the dependency that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Pricing,
    Reviews,
    Recommendations,
}

impl Part {
    /// The required part first: when it is refused, no work is started for the others.
    pub(crate) const ALL: [Self; 3] = [Self::Pricing, Self::Reviews, Self::Recommendations];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pricing => "pricing",
            Self::Reviews => "reviews",
            Self::Recommendations => "recommendations",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// A page without its price is useless; without the other parts it still sells.
    pub(crate) fn is_required(self) -> bool {
        self == Self::Pricing
    }

    /// How long the dependency takes when nothing is wrong.
    pub(crate) fn healthy_millis(self) -> u64 {
        match self {
            Self::Pricing => 15,
            Self::Reviews => 30,
            Self::Recommendations => 40,
        }
    }
}

/// A product page while it is put together.
#[derive(Debug)]
pub(crate) struct Page {
    product: u32,
    parts: [Option<Value>; Part::ALL.len()],
}

impl Page {
    pub(crate) fn new(product: u32) -> Self {
        Self { product, parts: [const { None }; Part::ALL.len()] }
    }

    pub(crate) fn insert(&mut self, part: Part, value: Value) {
        self.parts[part as usize] = Some(value);
    }

    pub(crate) fn has(&self, part: Part) -> bool {
        self.parts[part as usize].is_some()
    }

    /// The parts that the page has to do without.
    pub(crate) fn missing(&self) -> impl Iterator<Item = Part> {
        Part::ALL.into_iter().filter(|part| !self.has(*part))
    }

    /// The body of the answer; a missing part is left out of it.
    pub(crate) fn into_json(self) -> Value {
        let mut body = Map::from_iter([("product".to_owned(), json!(self.product))]);
        for (part, value) in Part::ALL.into_iter().zip(self.parts) {
            body.extend(value.map(|value| (part.name().to_owned(), value)));
        }
        Value::Object(body)
    }
}

/// There is no page, because a part that it requires could not be had.
#[derive(Debug)]
pub(crate) struct Unavailable {
    pub(crate) reason: String,
    /// When it makes sense to ask again.
    pub(crate) retry_after: Duration,
}

/// One build of the service: a way to put pages together, over the same clients.
pub(crate) trait Storefront: Send + Sync {
    /// Puts a page together on the calling request thread. `started` is when the request came in.
    fn page(&self, product: u32, started: Instant) -> Result<Page, Unavailable>;

    /// Calls for a part so far.
    fn calls(&self, part: Part) -> Calls;

    /// Threads that call a dependency right now.
    fn busy(&self) -> usize;

    /// Whether it still holds a call from before `moment`, on a thread or in a queue.
    fn holds_from_before(&self, moment: Instant) -> bool;

    /// Threads that may call dependencies, in all.
    fn threads(&self) -> usize;
}

/// What became of the calls for one part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) asked: u64,
    /// Turned away at once, without a thread, a socket or a connection.
    pub(crate) refused: u64,
    /// Accepted, but no longer wanted by the time that a thread was free.
    pub(crate) unstarted: u64,
}

impl Calls {
    /// Calls that a thread has carried out.
    pub(crate) fn started(self) -> u64 {
        self.asked.saturating_sub(self.refused + self.unstarted)
    }
}
