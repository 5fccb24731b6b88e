//! [`Histogram`]: how long things took, in fixed buckets.

use std::time::Duration;

use crate::sync::Arc;

/// The bounds that waits and run times are counted by unless a bulkhead has others: from below what
/// a thread switch takes to where nobody waits any more, at most 2.5 times apart up to a second.
pub(crate) const DEFAULT_BOUNDS: [Duration; 17] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
];

/// The most bounds that a histogram may have: each costs 8 bytes a bulkhead, and a series a scrape.
pub(crate) const MOST_BOUNDS: usize = 64;

/// How many durations fell into which bucket, since the bulkhead was built.
///
/// A duration belongs to the first bucket whose bound it does not exceed, as with Prometheus's `le`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    bounds: Arc<[Duration]>,
    counts: Box<[u64]>,
    /// In nanoseconds, of which 64 bits hold five centuries.
    sum: u64,
}

impl Histogram {
    /// Bounds ascend; the builder has checked it.
    pub(crate) fn new(bounds: Arc<[Duration]>) -> Self {
        let counts = vec![0; bounds.len() + 1].into_boxed_slice();
        Self { bounds, counts, sum: 0 }
    }

    pub(crate) fn record(&mut self, took: Duration) {
        // From below, since the commonest wait is none, and the bounds are few.
        let bucket = self.bounds.iter().position(|bound| took <= *bound);
        self.counts[bucket.unwrap_or(self.bounds.len())] += 1;
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum = self.sum.saturating_add(nanos);
    }

    /// The upper bounds of the buckets, ascending, each included in its bucket. What exceeds the last
    /// falls into one bucket more.
    #[must_use]
    pub fn bounds(&self) -> &[Duration] {
        &self.bounds
    }

    /// How many fell into each bucket, those of smaller buckets left out; one more than there are
    /// bounds.
    #[must_use]
    pub const fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// All durations together.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        let ms = Duration::from_millis;
        let mut histogram = Histogram::new(Arc::from([ms(1), ms(10)]));
        for took in [ms(0), ms(1), Duration::from_nanos(1_000_001), ms(10), ms(11), ms(99)] {
            histogram.record(took);
        }
        assert_eq!(histogram.counts(), [2, 2, 2]);
        assert_eq!(histogram.count(), 6);
        assert_eq!(histogram.sum(), ms(122) + Duration::from_nanos(1));
    }

    #[test]
    fn the_default_bounds_ascend() {
        assert!(DEFAULT_BOUNDS.windows(2).all(|two| two[0] < two[1]));
    }
}
