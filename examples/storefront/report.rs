//! Figures from the records, the targets that they have to meet, and how both are told.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::load::{Outcome, Sample};
use crate::run::{Phase, Record, Window};

/// Sent later than this, one request in a hundred, the figures say more about the machine that the
/// generator runs on than about the service.
const LATE_MS: f64 = 10.0;

/// The figures of one build in one phase: medians of its windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Pages served, whole or partial.
    ok_per_s: f64,
    partial_per_s: f64,
    failed_per_s: f64,
    /// Of all requests, failed ones included.
    p50_ms: f64,
    p99_ms: f64,
    reviews_refused_per_s: f64,
    /// In all windows together, as is the next.
    failed: usize,
    health_failed: usize,
    health_p99_ms: f64,
    late_p99_ms: f64,
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

    fn json(&self) -> Value {
        json!({
            "ok_per_s": round(self.ok_per_s),
            "partial_per_s": round(self.partial_per_s),
            "failed_per_s": round(self.failed_per_s),
            "p50_ms": round(self.p50_ms),
            "p99_ms": round(self.p99_ms),
            "reviews_refused_per_s": round(self.reviews_refused_per_s),
            "health_failed": self.health_failed,
            "health_p99_ms": round(self.health_p99_ms),
        })
    }
}

/// What the run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    TooNoisy,
}

impl Verdict {
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Met => 0,
            Self::Missed => 1,
            Self::TooNoisy => 2,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::TooNoisy => "too_noisy",
        }
    }
}

/// Something that the run has to show.
#[derive(Debug)]
struct Target {
    met: bool,
    /// So far off that even a short run on a busy machine does not explain it.
    clearly_missed: bool,
    what: String,
}

/// Both builds side by side.
#[derive(Debug)]
pub(crate) struct Report {
    shared: [Figures; 2],
    watertight: [Figures; 2],
    full_after: Option<f64>,
    targets: Vec<Target>,
    pub(crate) verdict: Verdict,
}

impl Report {
    pub(crate) fn new(shared: &Record, watertight: &Record, quick: bool) -> Self {
        let figures = |record| [Phase::Healthy, Phase::Degraded].map(|p| Figures::of(record, p));
        let full_after = (!shared.full_after.is_empty())
            .then(|| median(shared.full_after.iter().map(Duration::as_secs_f64)));
        let mut report = Self {
            shared: figures(shared),
            watertight: figures(watertight),
            full_after,
            targets: Vec::new(),
            verdict: Verdict::Met,
        };
        report.targets = report.targets(watertight);
        let limit = if quick { 5.0 * LATE_MS } else { LATE_MS };
        let missed = |t: &Target| if quick { t.clearly_missed } else { !t.met };
        if report.late_p99_ms() > limit {
            report.verdict = Verdict::TooNoisy;
        } else if report.targets.iter().any(missed) {
            report.verdict = Verdict::Missed;
        }
        report
    }

    /// Of the four combinations, the one where the generator kept its schedule worst.
    fn late_p99_ms(&self) -> f64 {
        self.shared.iter().chain(&self.watertight).map(|f| f.late_p99_ms).fold(0.0, f64::max)
    }

    fn targets(&self, record: &Record) -> Vec<Target> {
        let [before, after] = &self.shared;
        let slower = after.p99_ms / before.p99_ms;
        let shared_fails = after.failed > 0 || slower >= 10.0;
        let [healthy, degraded] = &self.watertight;
        let factor = degraded.p99_ms / healthy.p99_ms;
        let share = 100.0 * healthy.partial_per_s / (healthy.ok_per_s + healthy.failed_per_s);
        let refused = degraded.reviews_refused_per_s;
        let failed = healthy.failed + degraded.failed;
        let probes = healthy.health_failed + degraded.health_failed;

        let books = &record.ledger;
        let calls = books.reviews;
        let asked = u64::try_from(record.seen.pages.len()).unwrap_or(u64::MAX);
        let balanced = calls.asked == asked
            && calls.started() == books.statements
            && books.statements == books.taken
            && books.opened <= 15
            && books.sockets.iter().all(|sockets| *sockets <= 20);

        vec![
            Target {
                met: shared_fails,
                clearly_missed: !shared_fails,
                what: format!(
                    "shared pool, degraded: pages fail ({}) or p99 is at least 10 times healthy \
                     ({slower:.0} times)",
                    after.failed
                ),
            },
            Target {
                met: failed == 0,
                clearly_missed: failed > 0,
                what: format!("watertight: no page fails ({failed})"),
            },
            Target {
                met: factor <= 1.5,
                clearly_missed: factor > 4.0,
                what: format!("watertight: degraded p99 within 1.5 times healthy ({factor:.2})"),
            },
            Target {
                met: share <= 1.0,
                clearly_missed: share > 20.0,
                what: format!("watertight: at most 1 % partial pages when healthy ({share:.1} %)"),
            },
            Target {
                met: (120.0..=150.0).contains(&refused),
                clearly_missed: !(60.0..=160.0).contains(&refused),
                what: format!(
                    "watertight: 120 to 150 reviews refused a second when degraded ({refused:.0})"
                ),
            },
            Target {
                met: probes == 0,
                clearly_missed: probes > 0,
                what: format!("watertight: no health check fails ({probes})"),
            },
            Target {
                met: balanced,
                clearly_missed: !balanced,
                what: format!(
                    "watertight: a refused call touches nothing: {} pages, {} calls of reviews = \
                     {} refused + {} not started + {} started; {} statements run, connections \
                     taken {} times; ever opened: {} of 15 connections, {} and {} of 20 sockets",
                    asked,
                    calls.asked,
                    calls.refused,
                    calls.unstarted,
                    calls.started(),
                    books.statements,
                    books.taken,
                    books.opened,
                    books.sockets[0],
                    books.sockets[1],
                ),
            },
        ]
    }

    pub(crate) fn json(&self) -> Value {
        let mut degraded = self.shared[1].json();
        degraded["full_after_s"] = json!(self.full_after.map(round));
        json!({
            "shared": { "healthy": self.shared[0].json(), "degraded": degraded },
            "watertight": {
                "healthy": self.watertight[0].json(),
                "degraded": self.watertight[1].json(),
            },
            "late_p99_ms": round(self.late_p99_ms()),
            "verdict": self.verdict.name(),
        })
    }

    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "                          pages/s    p50     p99   failed  without a   reviews\n\
             \x20                          served     ms      ms       /s    part /s  refused/s"
        );
        let rows = [("shared pool", &self.shared), ("watertight", &self.watertight)];
        for (build, phases) in rows {
            for (phase, f) in ["healthy", "reviews slow"].into_iter().zip(phases) {
                let _ = writeln!(
                    text,
                    "{build:<12} {phase:<12} {:>7.0} {:>6.0} {:>7.0} {:>8.0} {:>10.1} {:>10.0}",
                    f.ok_per_s,
                    f.p50_ms,
                    f.p99_ms,
                    f.failed_per_s,
                    f.partial_per_s,
                    f.reviews_refused_per_s
                );
            }
        }
        let _ = writeln!(text, "\n{}\n", self.sentence());
        for target in &self.targets {
            let mark = if target.met { "met   " } else { "MISSED" };
            let _ = writeln!(text, "{mark}  {}", target.what);
        }
        let late = self.late_p99_ms();
        let _ =
            writeln!(text, "        99 % of requests were sent within {late:.1} ms of their time");
        if self.verdict == Verdict::TooNoisy {
            text.push_str("too_noisy: the load generator could not keep its schedule\n");
        }
        text
    }

    fn sentence(&self) -> String {
        let [_, shared] = &self.shared;
        let [healthy, degraded] = &self.watertight;
        let full = match self.full_after {
            Some(after) => format!("took all 200 threads of the shared pool within {after:.1} s"),
            None => "never took all threads of the shared pool".to_owned(),
        };
        format!(
            "When reviews went from 30 ms to 3 s, it {full}: of 150 pages a second {:.0} failed and \
             p99 went from {:.0} to {:.0} ms;\nbehind bulkheads {:.0} failed, {:.0} a second came \
             without a part, and p99 went from {:.0} to {:.0} ms.",
            shared.failed_per_s,
            self.shared[0].p99_ms,
            shared.p99_ms,
            degraded.failed_per_s,
            degraded.partial_per_s,
            healthy.p99_ms,
            degraded.p99_ms
        )
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

/// To a hundredth: the rest is noise.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
