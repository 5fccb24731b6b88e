//! [`Metrics`]: which bulkheads are exported, and writing their numbers.

use std::error::Error;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text, text};
use prometheus_client::registry::Registry;

use super::cpu::Ledger;
use super::families;
use super::format::Format;
use super::reading::{Process, Reading};
use crate::bulkhead::Bulkhead;
use crate::contain::drop_contained;
use crate::runtime::Runtime;
use crate::sync::{Arc, Mutex, Weak};

/// The numbers of one or more runtimes, ready to be exported. Cheap to clone: all clones are one.
///
/// It does not keep a runtime alive: when one is dropped its bulkheads leave the output, and a new one
/// with the same names may be [added](Metrics::add). A runtime that has been shut down stays in until
/// it is dropped.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Default)]
struct Inner {
    runtimes: Mutex<Vec<Weak<[Bulkhead]>>>,
    /// Held while the system is asked, so that what is written never falls.
    ledger: Mutex<Ledger>,
}

impl Metrics {
    /// Exports no bulkhead yet; [`add`](Metrics::add) brings them in.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Exports the bulkheads of `runtime`.
    #[must_use]
    pub fn of(runtime: &Runtime) -> Self {
        let metrics = Self::new();
        metrics.0.runtimes.lock().push(Arc::downgrade(runtime.shared_bulkheads()));
        metrics
    }

    /// Exports the bulkheads of `runtime` as well. To add it twice is to add it once.
    ///
    /// # Errors
    ///
    /// [`DuplicateBulkhead`] if a bulkhead of another runtime that is alive has one of the names:
    /// nobody could tell their numbers apart. Then none of `runtime`'s is exported.
    pub fn add(&self, runtime: &Runtime) -> Result<(), DuplicateBulkhead> {
        let new = runtime.shared_bulkheads();
        // Dropped after the lock is free: the last reference to a bulkhead drops what is the user's.
        let exported: Vec<Arc<[Bulkhead]>>;
        let mut runtimes = self.0.runtimes.lock();
        exported = runtimes.iter().filter_map(Weak::upgrade).collect();
        if exported.iter().any(|runtime| Arc::ptr_eq(runtime, new)) {
            return Ok(());
        }
        for bulkhead in exported.iter().flat_map(|bulkheads| bulkheads.iter()) {
            if new.iter().any(|other| other.name() == bulkhead.name()) {
                return Err(DuplicateBulkhead { bulkhead: bulkhead.name().to_owned() });
            }
        }
        runtimes.retain(|runtime| runtime.strong_count() > 0);
        runtimes.push(Arc::downgrade(new));
        Ok(())
    }

    /// Writes the numbers of this instant.
    ///
    /// It takes each bulkhead's lock for a moment, as [`Bulkhead::snapshot`] does, and asks the system
    /// for the times of its threads: one small file for each. `cargo bench --bench metrics` measures it.
    #[must_use]
    pub fn render(&self, format: Format) -> String {
        let mut registry = Registry::default();
        self.register(&mut registry);
        encode(&registry, format)
    }

    /// Has `registry` write the numbers together with its own, each time that it is encoded.
    ///
    /// Once for each registry: metrics of the same name twice are no valid output. Further runtimes are
    /// [added](Metrics::add) to what is registered already. Prefixes and labels of the registry apply.
    ///
    /// ```
    /// use watertight::metrics::{Metrics, client};
    /// use watertight::{Bulkhead, Runtime};
    ///
    /// let runtime = Runtime::builder().bulkhead(Bulkhead::builder("reviews").threads(4)).build()?;
    /// let mut registry = client::registry::Registry::default();
    /// Metrics::of(&runtime).register(&mut registry);
    ///
    /// let mut body = String::new();
    /// client::encoding::text::encode(&mut body, &registry)?;
    /// assert!(body.contains(r#"watertight_threads{bulkhead="reviews"} 4"#));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }

    /// The bulkheads that are exported, as long as what is returned lives. It is to be dropped where
    /// the user's destructors may run, since it may be the last to hold them.
    pub(super) fn bulkheads(&self) -> Vec<Arc<[Bulkhead]>> {
        let mut runtimes = self.0.runtimes.lock();
        runtimes.retain(|runtime| runtime.strong_count() > 0);
        runtimes.iter().filter_map(Weak::upgrade).collect()
    }

    /// Each bulkhead is read once, so that what is written of it agrees with itself.
    pub(super) fn read(&self) -> Vec<Reading> {
        let runtimes = self.bulkheads();
        let bulkheads = || runtimes.iter().flat_map(|bulkheads| bulkheads.iter());
        let readings = bulkheads().map(|bulkhead| Reading::of(bulkhead, &self.0.ledger)).collect();
        let is_there = |id| bulkheads().any(|bulkhead| bulkhead.compartment().id == id);
        self.0.ledger.lock().keep(is_there);
        drop_contained(runtimes);
        readings
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        families::write(&self.read(), &Process::read(), &mut encoder)
    }
}

pub(super) fn encode(registry: &Registry, format: Format) -> String {
    let mut body = String::new();
    let written = match format {
        Format::Text => prometheus_text::encode(&mut body, registry),
        Format::OpenMetrics => text::encode(&mut body, registry),
    };
    // Only a collector of the user's can fail: a `String` takes everything. Half an answer would look
    // like a whole one.
    if written.is_err() {
        body.clear();
    }
    body
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runtimes = self.0.runtimes.lock().len();
        f.debug_struct("Metrics").field("runtimes", &runtimes).finish_non_exhaustive()
    }
}

/// A runtime was not added to [`Metrics`], because one that is there has a bulkhead of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DuplicateBulkhead {
    /// The name.
    pub bulkhead: String,
}

impl fmt::Display for DuplicateBulkhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "metrics export a bulkhead `{}` of another runtime already; give one of them another \
             name, or drop the other runtime before this one is added",
            self.bulkhead
        )
    }
}

impl Error for DuplicateBulkhead {}
