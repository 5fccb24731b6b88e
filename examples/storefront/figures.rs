//! Figures from the records: what was measured, before anybody judges it.

use std::time::Duration;

use crate::load::{Outcome, Sample};
use crate::run::{Ledger, Mode, Phase, Record, Setup, Window};

/// All that the verdict and the report are made from. The pairs are healthy and degraded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) setup: Setup,
    pub(crate) shared: [Figures; 2],
    pub(crate) watertight: [Figures; 2],
    /// Seconds from a slowdown until every thread of the shared pool was taken, if it came to that.
    pub(crate) full_after: Option<f64>,
    /// Seconds from the return of a database that hung to the first page with reviews, in the worst
    /// round: of the shared pool and of the service with bulkheads. `None` where there was none, and
    /// of a database that was slow.
    pub(crate) recovered_after: [Option<f64>; 2],
    /// Pages that were asked of the service with bulkheads, in windows and between them.
    pub(crate) asked: u64,
    /// What these pages did to the dependencies.
    pub(crate) ledger: Ledger,
}

impl Measured {
    pub(crate) fn of(shared: &Record, watertight: &Record) -> Self {
        let figures = |record| [Phase::Healthy, Phase::Degraded].map(|p| Figures::of(record, p));
        Self {
            setup: watertight.setup,
            shared: figures(shared),
            watertight: figures(watertight),
            full_after: (!shared.full_after.is_empty())
                .then(|| median(shared.full_after.iter().map(Duration::as_secs_f64))),
            recovered_after: [shared, watertight].map(recovered_after),
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

fn recovered_after(record: &Record) -> Option<f64> {
    if record.setup.mode != Mode::Hung {
        return None;
    }
    let first_page = |back: Duration| {
        let whole = record.seen.pages.iter().filter(|page| page.outcome == Outcome::Whole);
        whole.filter_map(|page| (page.due + page.took).checked_sub(back)).min()
    };
    let rounds: Option<Vec<_>> = record.slow.iter().map(|(_, back)| first_page(*back)).collect();
    rounds?.into_iter().max().map(|worst| worst.as_secs_f64())
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
    use crate::database::{Kind, Reached};
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
            setup: Setup { database: Kind::Sqlite, mode: Mode::Slow },
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
            recovered_after: [None; 2],
            asked: 4500,
            ledger: Ledger {
                reviews: Calls { asked: 4500, refused: 1700, unstarted: 10 },
                database: Reached { statements: 2790, taken: 2790, opened: 15 },
                sockets: [12, 15],
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{Kind, Reached};
    use crate::load::Seen;
    use crate::page::Calls;
    use crate::run::Build;

    /// Three pages: whole, partial and whole, that end at these milliseconds.
    fn record(mode: Mode, ends: [u64; 3], hung: &[(u64, u64)]) -> Record {
        let outcomes = [Outcome::Whole, Outcome::Partial, Outcome::Whole];
        let pages = ends.into_iter().zip(outcomes).map(|(end, outcome)| Sample {
            due: Duration::from_millis(end - 40),
            late: Duration::ZERO,
            took: Duration::from_millis(40),
            outcome,
        });
        let time =
            |(from, to): &(u64, u64)| (Duration::from_millis(*from), Duration::from_millis(*to));
        Record {
            build: Build::Watertight,
            setup: Setup { database: Kind::Sqlite, mode },
            seen: Seen { pages: pages.collect(), probes: Vec::new() },
            windows: Vec::new(),
            slow: hung.iter().map(time).collect(),
            full_after: Vec::new(),
            ledger: Ledger {
                reviews: Calls::default(),
                database: Reached { statements: 0, taken: 0, opened: 0 },
                sockets: [0; 2],
            },
        }
    }

    #[test]
    fn recovery_is_the_first_whole_page_after_the_return_in_the_worst_round() {
        let once = record(Mode::Hung, [900, 1_100, 1_250], &[(500, 1_000)]);
        assert_eq!(recovered_after(&once), Some(0.25));
        let twice = record(Mode::Hung, [1_100, 1_300, 2_500], &[(500, 1_000), (1_500, 2_000)]);
        assert_eq!(recovered_after(&twice), Some(0.5));
    }

    #[test]
    fn without_a_whole_page_after_each_return_there_was_no_recovery() {
        let last = record(Mode::Hung, [1_100, 1_300, 1_400], &[(500, 1_000), (1_500, 2_000)]);
        assert_eq!(recovered_after(&last), None);
    }

    #[test]
    fn what_was_slow_and_not_hung_has_no_return() {
        let slow = record(Mode::Slow, [900, 1_100, 1_250], &[(500, 1_000)]);
        assert_eq!(recovered_after(&slow), None);
    }
}
