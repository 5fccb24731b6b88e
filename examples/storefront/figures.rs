//! Figures from the records: what was measured, before anybody judges it.

use std::time::Duration;

use crate::load::{Outcome, Sample};
use crate::run::{Ledger, Phase, Record, Window};

/// All that the verdict and the report are made from. The pairs are healthy and degraded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) shared: [Figures; 2],
    pub(crate) watertight: [Figures; 2],
    /// Seconds from a slowdown until every thread of the shared pool was taken, if it came to that.
    pub(crate) full_after: Option<f64>,
    /// Pages that were asked of the service with bulkheads, in windows and between them.
    pub(crate) asked: u64,
    /// What these pages did to the dependencies.
    pub(crate) ledger: Ledger,
}

impl Measured {
    pub(crate) fn of(shared: &Record, watertight: &Record) -> Self {
        let figures = |record| [Phase::Healthy, Phase::Degraded].map(|p| Figures::of(record, p));
        Self {
            shared: figures(shared),
            watertight: figures(watertight),
            full_after: (!shared.full_after.is_empty())
                .then(|| median(shared.full_after.iter().map(Duration::as_secs_f64))),
            asked: u64::try_from(watertight.seen.pages.len()).unwrap_or(u64::MAX),
            ledger: watertight.ledger,
        }
    }

    /// Of the four combinations, the one where the generator kept its schedule worst.
    pub(crate) fn late_p99_ms(&self) -> f64 {
        self.shared.iter().chain(&self.watertight).map(|f| f.late_p99_ms).fold(0.0, f64::max)
    }
}

/// The figures of one build in one phase: medians of its windows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Pages served, whole or partial.
    pub(crate) ok_per_s: f64,
    pub(crate) partial_per_s: f64,
    pub(crate) failed_per_s: f64,
    /// Of all requests, failed ones included.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) reviews_refused_per_s: f64,
    /// In all windows together, as is the next.
    pub(crate) failed: usize,
    pub(crate) health_failed: usize,
    pub(crate) health_p99_ms: f64,
    pub(crate) late_p99_ms: f64,
}

impl Figures {
    fn of(record: &Record, phase: Phase) -> Self {
        let windows: Vec<_> =
            record.windows.iter().filter(|window| window.phase == phase).collect();
        let pages: Vec<_> = windows.iter().map(|w| within(&record.seen.pages, w)).collect();
        let probes: Vec<_> = windows.iter().map(|w| within(&record.seen.probes, w)).collect();
        let rate = |wanted: &[Outcome]| {
            median(windows.iter().zip(&pages).map(|(window, pages)| {
                let count = pages.iter().filter(|page| wanted.contains(&page.outcome)).count();
                number(count) / length(window)
            }))
        };
        let took = |samples: &[Vec<Sample>], permille| {
            median(samples.iter().map(|s| quantile(s.iter().map(|s| s.took), permille)))
        };
        let failures = |samples: &[Vec<Sample>]| {
            samples.iter().flatten().filter(|s| s.outcome == Outcome::Failed).count()
        };
        Self {
            ok_per_s: rate(&[Outcome::Whole, Outcome::Partial]),
            partial_per_s: rate(&[Outcome::Partial]),
            failed_per_s: rate(&[Outcome::Failed]),
            p50_ms: took(&pages, 500),
            p99_ms: took(&pages, 990),
            reviews_refused_per_s: median(windows.iter().map(|window| {
                number(usize::try_from(window.refused).unwrap_or(usize::MAX)) / length(window)
            })),
            failed: failures(&pages),
            health_failed: failures(&probes),
            health_p99_ms: took(&probes, 990),
            late_p99_ms: median(pages.iter().map(|s| quantile(s.iter().map(|s| s.late), 990))),
        }
    }
}

fn within(samples: &[Sample], window: &Window) -> Vec<Sample> {
    samples.iter().filter(|s| s.due >= window.from && s.due < window.to).copied().collect()
}

fn length(window: &Window) -> f64 {
    window.to.saturating_sub(window.from).as_secs_f64()
}

pub(crate) fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// In milliseconds, by nearest rank; 0 when there is nothing.
pub(crate) fn quantile(values: impl Iterator<Item = Duration>, permille: usize) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    let rank = (values.len() * permille).div_ceil(1000).max(1) - 1;
    values.get(rank).map_or(0.0, |value| value.as_secs_f64() * 1e3)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        even if even % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// Figures for the tests of what is made from them.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use crate::page::Calls;

    /// What a good run on an idle machine measures, in round numbers.
    pub(crate) fn all_well() -> Measured {
        let healthy = Figures {
            ok_per_s: 150.0,
            p50_ms: 41.0,
            p99_ms: 42.0,
            health_p99_ms: 0.5,
            late_p99_ms: 0.5,
            ..Figures::default()
        };
        Measured {
            shared: [
                healthy,
                Figures {
                    ok_per_s: 94.0,
                    partial_per_s: 60.0,
                    failed_per_s: 56.0,
                    p50_ms: 2000.0,
                    p99_ms: 2003.0,
                    failed: 672,
                    ..healthy
                },
            ],
            watertight: [
                healthy,
                Figures {
                    partial_per_s: 150.0,
                    p99_ms: 50.0,
                    reviews_refused_per_s: 145.0,
                    ..healthy
                },
            ],
            full_after: Some(1.4),
            asked: 4500,
            ledger: Ledger {
                reviews: Calls { asked: 4500, refused: 1700, unstarted: 10 },
                statements: 2790,
                taken: 2790,
                opened: 15,
                sockets: [12, 15],
            },
        }
    }
}
