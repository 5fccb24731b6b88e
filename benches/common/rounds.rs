//! Interleaved rounds: everybody is measured once in each, in an order that moves on.

use std::collections::BTreeMap;

use super::Failure;
use super::statistics::{percentile, ratios, sorted};

/// Named figures of one measurement.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// Somebody who is measured once a round.
pub(crate) struct Subject<'a> {
    pub(crate) name: String,
    measure: Box<dyn FnMut() -> Result<Figures, Failure> + 'a>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(
        name: impl Into<String>,
        measure: impl FnMut() -> Result<Figures, Failure> + 'a,
    ) -> Self {
        Self { name: name.into(), measure: Box::new(measure) }
    }
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The figures of a workload: by subject and figure, one value a round.
#[derive(Debug, Default, Clone)]
pub(crate) struct Measured {
    /// The subjects in the order in which they were given.
    pub(crate) names: Vec<String>,
    /// By subject, in the order in which it told them: one value a round of each figure.
    values: BTreeMap<String, Vec<(&'static str, Vec<f64>)>>,
}

impl Measured {
    /// Measures every subject `rounds` times. An uncounted round comes first: it warms caches,
    /// starts threads, and grows what grows on first use.
    ///
    /// # Errors
    ///
    /// That of a subject, with its name.
    pub(crate) fn of(rounds: usize, mut subjects: Vec<Subject<'_>>) -> Result<Self, Failure> {
        let mut measured = Self {
            names: subjects.iter().map(|subject| subject.name.clone()).collect(),
            values: BTreeMap::new(),
        };
        let many = subjects.len();
        for round in 0..=rounds {
            for place in 0..many {
                let subject = &mut subjects[(place + round) % many];
                let figures =
                    (subject.measure)().map_err(|error| format!("{}: {error}", subject.name))?;
                if round > 0 {
                    measured.note(&subject.name, figures);
                }
            }
        }
        Ok(measured)
    }

    fn note(&mut self, subject: &str, figures: Figures) {
        let noted = self.values.entry(subject.to_owned()).or_default();
        for (figure, value) in figures {
            match noted.iter_mut().find(|(name, _)| *name == figure) {
                Some((_, values)) => values.push(value),
                None => noted.push((figure, vec![value])),
            }
        }
    }

    /// One value a round; empty if this subject has no such figure.
    pub(crate) fn values(&self, subject: &str, figure: &'static str) -> &[f64] {
        self.figures(subject).find(|(name, _)| *name == figure).map_or(&[], |(_, values)| values)
    }

    pub(crate) fn ratios(&self, of: &str, to: &str, figure: &'static str) -> Vec<f64> {
        ratios(self.values(of, figure), self.values(to, figure))
    }

    /// The figures that a subject has, by name.
    pub(crate) fn figures(&self, subject: &str) -> impl Iterator<Item = (&'static str, &[f64])> {
        let noted = self.values.get(subject).map_or(&[][..], Vec::as_slice);
        noted.iter().map(|(figure, values)| (*figure, values.as_slice()))
    }
}

/// The usual figures of a latency, in microseconds, from samples in nanoseconds.
pub(crate) fn latencies(samples: &[u64]) -> Figures {
    #[expect(clippy::cast_precision_loss, reason = "no sample is near 2^52 ns, which is 52 days")]
    let micros: Vec<f64> = samples.iter().map(|nanos| *nanos as f64 / 1e3).collect();
    let micros = sorted(&micros);
    #[expect(clippy::cast_precision_loss, reason = "a number of samples")]
    let samples = micros.len() as f64;
    vec![
        ("p50_us", percentile(&micros, 0.5)),
        ("p95_us", percentile(&micros, 0.95)),
        ("p99_us", percentile(&micros, 0.99)),
        ("p999_us", percentile(&micros, 0.999)),
        ("samples", samples),
    ]
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn each_round_measures_everybody_once_and_begins_with_another() {
        let order = RefCell::new(Vec::new());
        let subject = |name: &'static str| {
            let order = &order;
            Subject::new(name, move || {
                order.borrow_mut().push(name);
                Ok(vec![("calls", f64::from(u32::try_from(order.borrow().len())?))])
            })
        };
        let measured = Measured::of(2, vec![subject("a"), subject("b"), subject("c")]).unwrap();
        assert_eq!(*order.borrow(), ["a", "b", "c", "b", "c", "a", "c", "a", "b"]);
        // The first round is not counted.
        assert_eq!(measured.values("a", "calls"), [6.0, 8.0]);
        assert_eq!(measured.ratios("b", "a", "calls"), [4.0 / 6.0, 9.0 / 8.0]);
        assert!(measured.values("a", "other").is_empty());
    }

    #[test]
    fn a_failure_names_whose_it_is() {
        let subject = Subject::new("lazy", || Err("did 3 of 4 jobs".into()));
        let error = Measured::of(1, vec![subject]).unwrap_err().to_string();
        assert_eq!(error, "lazy: did 3 of 4 jobs");
    }

    #[test]
    fn latencies_are_told_in_microseconds_with_their_number() {
        let samples: Vec<u64> = (1..=2_000).map(|n| n * 1_000).collect();
        let figures = latencies(&samples);
        assert_eq!(figures[0], ("p50_us", 1_000.0));
        assert_eq!(figures[2], ("p99_us", 1_980.0));
        assert_eq!(figures[4], ("samples", 2_000.0));
    }
}
