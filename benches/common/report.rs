//! How the results are told: as tables for people, as JSON for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::machine::Machine;
use super::options::Options;
use super::plan::{Against, Outcome, Results};
use super::statistics::median;
use super::verdict::{Target, Verdict};

/// What was measured, on what, and by which versions.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) bench: &'static str,
    pub(crate) options: &'a Options,
    pub(crate) machine: Machine,
    /// Those who were measured, each with its version.
    pub(crate) versions: Vec<(String, String)>,
    pub(crate) results: Vec<Results>,
    /// Results of a shape of their own, for the JSON alone.
    pub(crate) extra: Value,
}

impl Report<'_> {
    /// Prints it as the options ask.
    pub(crate) fn print(&self) {
        if self.options.json {
            println!("{:#}", self.json());
        } else {
            print!("{}", self.tables());
        }
    }

    pub(crate) fn json(&self) -> Value {
        let rows = self
            .results
            .iter()
            .flat_map(|one| one.outcomes.iter().map(|outcome| row_json(&one.workload, outcome)));
        let mut figures = Map::new();
        for one in &self.results {
            if let Some(measured) = &one.measured {
                let subjects = measured.names.iter().map(|name| {
                    let of: Map<String, Value> = measured
                        .figures(name)
                        .map(|(figure, values)| (figure.to_owned(), number(median(values))))
                        .collect();
                    (name.clone(), Value::Object(of))
                });
                figures.insert(one.workload.clone(), Value::Object(subjects.collect()));
            }
        }
        json!({
            "bench": self.bench,
            "quick": self.options.quick,
            "machine": self.machine.json(),
            "load_average_at_the_end": Machine::now().json()["load_average"],
            "versions": self.versions.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "rows": rows.collect::<Vec<_>>(),
            "figures": figures,
            "extra": self.extra,
        })
    }

    pub(crate) fn tables(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{}: {}", self.bench, self.machine.line());
        for (name, version) in &self.versions {
            let _ = writeln!(text, "  {name} {version}");
        }
        for one in self.results.iter().filter(|one| one.measured.is_some()) {
            figures_table(&mut text, one);
        }
        let _ =
            writeln!(text, "\nmedian ratios; A/A is identical code, with how far it may be off\n");
        for one in &self.results {
            for outcome in &one.outcomes {
                let _ = writeln!(text, "{}", row_line(&one.workload, outcome));
            }
        }
        text
    }
}

/// Subjects down, figures across, each the median of the rounds.
fn figures_table(text: &mut String, of: &Results) {
    let Some(measured) = &of.measured else { return };
    let mut columns: Vec<&str> = Vec::new();
    for name in &measured.names {
        for (figure, _) in measured.figures(name) {
            if !columns.contains(&figure) {
                columns.push(figure);
            }
        }
    }
    let _ = write!(text, "\n{:<38}", of.workload);
    for column in &columns {
        let _ = write!(text, " {column:>13}");
    }
    text.push('\n');
    for name in &measured.names {
        let _ = write!(text, "  {name:<36}");
        for column in &columns {
            let value = measured.figures(name).find(|(figure, _)| figure == column);
            let cell = value.map_or_else(|| "-".to_owned(), |(_, values)| short(median(values)));
            let _ = write!(text, " {cell:>13}");
        }
        text.push('\n');
    }
}

fn row_line(workload: &str, outcome: &Outcome) -> String {
    let row = &outcome.row;
    let verdict = outcome.verdict.map_or("-", Verdict::as_str);
    let target = row.target.map_or_else(|| "no target".to_owned(), |target| target.to_string());
    let what = format!("{workload}, {}, {}", row.of, row.figure);
    if outcome.verdict == Some(Verdict::Skipped) {
        return format!("{verdict:<9} {:>9}  {target:<9}  {what}", "");
    }
    let against = outcome.against.as_ref().map_or_else(String::new, |name| format!(" / {name}"));
    let (value, twins, off) = (outcome.value, outcome.twins, outcome.spread * 100.0);
    format!("{verdict:<9} {value:>9.3}  {target:<9}  {what}{against}  (A/A {twins:.3}, {off:.1} %)")
}

fn row_json(workload: &str, outcome: &Outcome) -> Value {
    let row = &outcome.row;
    let kind = match row.against {
        Against::Nothing => "value",
        Against::Best(_) | Against::One(_) => "ratio",
    };
    json!({
        "workload": workload,
        "figure": row.figure,
        "of": row.of,
        "against": outcome.against,
        kind: number(outcome.value),
        "target": row.target.map(|target| target.to_string()),
        "limit": row.target.map(Target::limit),
        "aa": number(outcome.twins),
        "aa_spread": number(outcome.spread),
        "margin": row.margin,
        "verdict": outcome.verdict.map(Verdict::as_str),
    })
}

/// Four digits are more than the noise leaves. JSON has no word for what is not a number.
fn number(value: f64) -> Value {
    if value.is_finite() { json!((value * 1e4).round() / 1e4) } else { Value::Null }
}

fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Row;
    use super::super::rounds::{Measured, Subject};
    use super::*;

    fn report(options: &Options) -> Report<'_> {
        let subject = |name: &'static str, cost: f64| {
            Subject::new(name, move || Ok(vec![("cost", cost), ("samples", 2_000.0)]))
        };
        let measured = Measured::of(
            3,
            vec![subject("ours", 3.0), subject("twin", 3.0), subject("other", 2.0)],
        )
        .unwrap();
        let row = Row {
            figure: "cost",
            of: "ours".into(),
            against: Against::One("other".into()),
            target: Some(Target::AtMost(1.25)),
            margin: 0.25,
            twins: ("ours".into(), "twin".into()),
        };
        let outcomes = vec![row.judge(&measured)];
        let results =
            vec![Results { workload: "calls".into(), outcomes, measured: Some(measured) }];
        let versions = vec![("other".to_owned(), "1.2.3".to_owned())];
        let machine = Machine::now();
        Report { bench: "test", options, machine, versions, results, extra: Value::Null }
    }

    #[test]
    fn the_json_has_each_ratio_with_its_target_and_verdict() {
        let json = report(&Options::default()).json();
        let row = &json["rows"][0];
        assert_eq!(row["ratio"], 1.5);
        assert_eq!(row["target"], "<= 1.25");
        assert_eq!(row["verdict"], "missed");
        assert_eq!((&row["aa"], &row["aa_spread"]), (&json!(1.0), &json!(0.0)));
        assert_eq!(json["figures"]["calls"]["other"]["samples"], 2_000.0);
        assert_eq!(json["versions"]["other"], "1.2.3");
        assert!(json["machine"]["cores"].as_u64().unwrap() > 0);
    }

    #[test]
    fn the_table_names_subjects_figures_and_verdicts() {
        let tables = report(&Options::default()).tables();
        for part in
            ["other 1.2.3", "cost", "missed", "1.500", "<= 1.25", "calls, ours, cost / other"]
        {
            assert!(tables.contains(part), "{part} is not in\n{tables}");
        }
    }

    #[test]
    fn what_is_not_a_number_is_null() {
        assert_eq!(number(f64::NAN), Value::Null);
        assert_eq!(number(f64::INFINITY), Value::Null);
    }
}
