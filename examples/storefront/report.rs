//! How the figures and the verdict are told.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::figures::{Figures, Measured};
use crate::run::Mode;
use crate::targets::{Mark, Target, targets};
use crate::verdict::Verdict;

const TOO_NOISY: &str = "too_noisy: the load generator could not keep its schedule\n";

/// Both builds side by side.
#[derive(Debug)]
pub(crate) struct Report {
    measured: Measured,
    targets: Vec<Target>,
    pub(crate) verdict: Verdict,
}

impl Report {
    pub(crate) fn new(measured: &Measured, quick: bool) -> Self {
        let targets = targets(measured, quick);
        let verdict = Verdict::of(measured, &targets, quick);
        Self { measured: *measured, targets, verdict }
    }

    pub(crate) fn json(&self) -> Value {
        let Measured { setup, shared, watertight, full_after, recovered_after, .. } =
            &self.measured;
        let mut degraded = [figures(&shared[1]), figures(&watertight[1])];
        for (figures, after) in degraded.iter_mut().zip(recovered_after) {
            figures["recovered_after_s"] = json!(after.map(round));
        }
        degraded[0]["full_after_s"] = json!(full_after.map(round));
        let [shared_degraded, watertight_degraded] = degraded;
        json!({
            "database": setup.database.name(),
            "mode": setup.mode.name(),
            "shared": { "healthy": figures(&shared[0]), "degraded": shared_degraded },
            "watertight": { "healthy": figures(&watertight[0]), "degraded": watertight_degraded },
            "late_p99_ms": round(self.measured.late_p99_ms()),
            "verdict": self.verdict.name(),
        })
    }

    /// Why the exit code is not 0, for those who do not see the table; empty when it is.
    pub(crate) fn complaint(&self) -> String {
        let mut text = String::new();
        match self.verdict {
            Verdict::Met => {}
            Verdict::TooNoisy => text.push_str(TOO_NOISY),
            Verdict::Missed => {
                for target in self.targets.iter().filter(|target| target.mark == Mark::Missed) {
                    let _ = writeln!(text, "MISSED  {}", target.what);
                }
            }
        }
        text
    }

    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "                          pages/s    p50     p99   failed  without a   reviews\n\
             \x20                          served     ms      ms       /s    part /s  refused/s"
        );
        let degraded = format!("reviews {}", self.measured.setup.mode.name());
        let rows =
            [("shared pool", &self.measured.shared), ("watertight", &self.measured.watertight)];
        for (build, phases) in rows {
            for (phase, f) in ["healthy", degraded.as_str()].into_iter().zip(phases) {
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
        let trouble = match self.measured.setup.mode {
            Mode::Slow => "reviews went from 30 ms to 3 s",
            Mode::Hung => "the reviews database stopped answering",
        };
        format!(
            "When {trouble}, it {full}: of 150 pages a second {:.0} failed and \
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::database::Kind;
    use crate::figures::samples::all_well;
    use crate::run::Setup;

    const KEYS: [&str; 8] = [
        "ok_per_s",
        "partial_per_s",
        "failed_per_s",
        "p50_ms",
        "p99_ms",
        "reviews_refused_per_s",
        "health_failed",
        "health_p99_ms",
    ];

    fn keys(value: &Value) -> BTreeSet<&str> {
        value.as_object().expect("an object").keys().map(String::as_str).collect()
    }

    #[test]
    fn the_json_has_every_key_and_no_other() {
        // The pool that never filled has the key too.
        for full_after in [Some(1.4), None] {
            let json = Report::new(&Measured { full_after, ..all_well() }, false).json();
            let top = ["database", "mode", "late_p99_ms", "shared", "verdict", "watertight"];
            assert_eq!(keys(&json), top.into());
            assert_eq!((&json["database"], &json["mode"]), (&json!("sqlite"), &json!("slow")));
            for build in ["shared", "watertight"] {
                assert_eq!(keys(&json[build]), ["degraded", "healthy"].into());
                for phase in ["healthy", "degraded"] {
                    let mut wanted = BTreeSet::from(KEYS);
                    if phase == "degraded" {
                        wanted.insert("recovered_after_s");
                        assert_eq!(json[build][phase]["recovered_after_s"], Value::Null);
                    }
                    if (build, phase) == ("shared", "degraded") {
                        wanted.insert("full_after_s");
                    }
                    assert_eq!(keys(&json[build][phase]), wanted, "{build}, {phase}");
                    assert!(KEYS.iter().all(|key| json[build][phase][key].is_number()));
                }
            }
            assert_eq!(json["shared"]["degraded"]["full_after_s"], json!(full_after));
            assert_eq!(json["verdict"], "met");
        }
    }

    #[test]
    fn a_run_against_a_hung_database_tells_when_each_build_recovered() {
        let mut measured = all_well();
        measured.setup = Setup { database: Kind::Postgres, mode: Mode::Hung };
        measured.watertight[1].reviews_refused_per_s = 1.0;
        measured.recovered_after = [None, Some(0.25)];
        let report = Report::new(&measured, false);
        let json = report.json();
        assert_eq!((&json["database"], &json["mode"]), (&json!("postgres"), &json!("hung")));
        assert_eq!(json["shared"]["degraded"]["recovered_after_s"], Value::Null);
        assert_eq!(json["watertight"]["degraded"]["recovered_after_s"], json!(0.25));
        let table = report.table();
        assert!(table.contains("watertight   reviews hung"), "{table}");
        assert!(table.contains("When the reviews database stopped answering, it took"), "{table}");
        assert!(table.contains("return (0.25 s; shared pool: never)"), "{table}");
        assert_eq!(report.verdict.exit_code(), 0, "{table}");
    }

    #[test]
    fn a_missed_target_is_told_in_the_table_and_beside_the_json() {
        let mut measured = all_well();
        measured.watertight[1].p99_ms = 84.0;
        let report = Report::new(&measured, false);
        let line = "MISSED  watertight: degraded p99 within 1.5 times healthy (2.00)\n";
        assert_eq!(report.complaint(), line);
        assert!(report.table().contains(line), "{}", report.table());
        assert_eq!(report.json()["verdict"], "missed");
        assert!(!Report::new(&measured, true).table().contains("MISSED"));
    }

    #[test]
    fn a_run_spoilt_by_lateness_says_too_noisy() {
        let mut measured = all_well();
        measured.shared[0].late_p99_ms = 11.0;
        let report = Report::new(&measured, false);
        assert!(report.complaint().starts_with("too_noisy"));
        assert!(report.table().contains("\ntoo_noisy: "), "{}", report.table());
        assert_eq!(report.json()["verdict"], "too_noisy");
    }

    #[test]
    fn a_good_run_complains_of_nothing() {
        let report = Report::new(&all_well(), false);
        assert_eq!(report.complaint(), "");
        assert!(!report.table().contains("MISSED") && !report.table().contains("too_noisy"));
    }
}
