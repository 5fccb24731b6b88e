//! How the figures and the verdict are told.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::figures::{Figures, Measured};
use crate::verdict::{self, Mark, Target, Verdict};

const TOO_NOISY: &str = "too_noisy: the load generator could not keep its schedule\n";

/// Both builds side by side.
#[derive(Debug)]
pub(crate) struct Report {
    measured: Measured,
    targets: Vec<Target>,
    pub(crate) verdict: Verdict,
}

impl Report {
    pub(crate) fn new(measured: Measured, quick: bool) -> Self {
        let targets = verdict::targets(&measured, quick);
        let verdict = Verdict::of(&measured, &targets, quick);
        Self { measured, targets, verdict }
    }

    pub(crate) fn json(&self) -> Value {
        let Measured { shared, watertight, full_after, .. } = &self.measured;
        let mut degraded = figures(&shared[1]);
        degraded["full_after_s"] = json!(full_after.map(round));
        json!({
            "shared": { "healthy": figures(&shared[0]), "degraded": degraded },
            "watertight": {
                "healthy": figures(&watertight[0]),
                "degraded": figures(&watertight[1]),
            },
            "late_p99_ms": round(self.measured.late_p99_ms()),
            "verdict": self.verdict.name(),
        })
    }

    /// Why the exit code is not 0, for those who do not see the table; empty when it is.
    pub(crate) fn complaint(&self) -> String {
        match self.verdict {
            Verdict::Met => String::new(),
            Verdict::TooNoisy => TOO_NOISY.to_owned(),
            Verdict::Missed => {
                let missed = self.targets.iter().filter(|target| target.mark == Mark::Missed);
                missed.map(|target| format!("MISSED  {}\n", target.what)).collect()
            }
        }
    }

    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "                          pages/s    p50     p99   failed  without a   reviews\n\
             \x20                          served     ms      ms       /s    part /s  refused/s"
        );
        let rows =
            [("shared pool", &self.measured.shared), ("watertight", &self.measured.watertight)];
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
            let mark = match target.mark {
                Mark::Met => "met   ",
                Mark::Near => "near  ",
                Mark::Missed => "MISSED",
            };
            let _ = writeln!(text, "{mark}  {}", target.what);
        }
        let late = self.measured.late_p99_ms();
        let _ =
            writeln!(text, "        99 % of requests were sent within {late:.1} ms of their time");
        if self.targets.iter().any(|target| target.mark == Mark::Near) {
            text.push_str("near: missed by no more than a quick run may be off\n");
        }
        if self.verdict == Verdict::TooNoisy {
            text.push_str(TOO_NOISY);
        }
        text
    }

    fn sentence(&self) -> String {
        let [before, shared] = &self.measured.shared;
        let [healthy, degraded] = &self.measured.watertight;
        let full = match self.measured.full_after {
            Some(after) => format!("took all 200 threads of the shared pool within {after:.1} s"),
            None => "never took all threads of the shared pool".to_owned(),
        };
        format!(
            "When reviews went from 30 ms to 3 s, it {full}: of 150 pages a second {:.0} failed and \
             p99 went from {:.0} to {:.0} ms;\nbehind bulkheads {:.0} failed, {:.0} a second came \
             without a part, and p99 went from {:.0} to {:.0} ms.",
            shared.failed_per_s,
            before.p99_ms,
            shared.p99_ms,
            degraded.failed_per_s,
            degraded.partial_per_s,
            healthy.p99_ms,
            degraded.p99_ms
        )
    }
}

fn figures(of: &Figures) -> Value {
    json!({
        "ok_per_s": round(of.ok_per_s),
        "partial_per_s": round(of.partial_per_s),
        "failed_per_s": round(of.failed_per_s),
        "p50_ms": round(of.p50_ms),
        "p99_ms": round(of.p99_ms),
        "reviews_refused_per_s": round(of.reviews_refused_per_s),
        "health_failed": of.health_failed,
        "health_p99_ms": round(of.health_p99_ms),
    })
}

/// To a hundredth: the rest is noise.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
