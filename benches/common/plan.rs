//! What a bench intends to show: its workloads, and the rows that come of each.

use super::Failure;
use super::options::Options;
use super::rounds::Measured;
use super::statistics::{median, ratios, spread};
use super::verdict::{Target, Verdict};

/// With whom a row compares.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Against {
    /// The one of these that does best, beside which the row looks worst.
    Best(Vec<String>),
    One(String),
    /// Nobody: the value itself is looked at.
    Nothing,
}

/// One line of the report, before it is measured.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) figure: &'static str,
    pub(crate) of: String,
    pub(crate) against: Against,
    /// Without a target the row is shown and not judged.
    pub(crate) target: Option<Target>,
    /// How far identical code may differ before the row shows nothing.
    pub(crate) margin: f64,
    /// The two that are identical code.
    pub(crate) twins: (String, String),
}

/// How a workload is measured.
type Measure<'a> = Box<dyn Fn(&Options) -> Result<Measured, Failure> + 'a>;

/// Something that is measured, and what it is to show.
pub(crate) struct Workload<'a> {
    pub(crate) name: String,
    pub(crate) in_quick: bool,
    pub(crate) rows: Vec<Row>,
    pub(crate) measure: Measure<'a>,
}

impl std::fmt::Debug for Workload<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workload").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a row came to.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) row: Row,
    /// The one that the row was compared with.
    pub(crate) against: Option<String>,
    /// The ratio, or the value itself where there is nobody to compare with.
    pub(crate) value: f64,
    /// The median ratio of the twins, and how far it may be off.
    pub(crate) twins: f64,
    pub(crate) spread: f64,
    /// `None` for a row without a target.
    pub(crate) verdict: Option<Verdict>,
}

/// A workload's rows and figures.
#[derive(Debug, Clone)]
pub(crate) struct Results {
    pub(crate) workload: String,
    pub(crate) outcomes: Vec<Outcome>,
    /// `None` if the workload was skipped.
    pub(crate) measured: Option<Measured>,
}

impl Row {
    /// Compares with whoever does best in this.
    fn compare(&self, measured: &Measured) -> (Option<String>, f64) {
        let higher_is_better = matches!(self.target, Some(Target::AtLeast(_)));
        let of = measured.values(&self.of, self.figure);
        let with = |name: &String| {
            let ratio = median(&ratios(of, measured.values(name, self.figure)));
            (Some(name.clone()), ratio)
        };
        match &self.against {
            Against::Nothing => (None, median(of)),
            Against::One(name) => with(name),
            Against::Best(names) => {
                let all = names.iter().map(with).filter(|(_, ratio)| !ratio.is_nan());
                let worst = if higher_is_better {
                    all.min_by(|a, b| a.1.total_cmp(&b.1))
                } else {
                    all.max_by(|a, b| a.1.total_cmp(&b.1))
                };
                worst.unwrap_or((None, f64::NAN))
            }
        }
    }

    /// Of a value that stands for itself, which may be zero, the difference counts as a share of the
    /// target.
    fn twin_ratios(&self, measured: &Measured) -> Vec<f64> {
        let (one, other) = &self.twins;
        match (&self.against, self.target) {
            (Against::Nothing, Some(Target::AtMost(limit) | Target::AtLeast(limit))) => {
                let values = |name: &str| measured.values(name, self.figure).to_vec();
                values(other).iter().zip(values(one)).map(|(b, a)| 1.0 + (b - a) / limit).collect()
            }
            _ => measured.ratios(other, one, self.figure),
        }
    }

    pub(crate) fn judge(&self, measured: &Measured) -> Outcome {
        let (against, value) = self.compare(measured);
        let twins = self.twin_ratios(measured);
        let off = spread(&twins);
        Outcome {
            row: self.clone(),
            against,
            value,
            twins: median(&twins),
            spread: off,
            verdict: self.target.map(|target| Verdict::of(target, value, off, self.margin)),
        }
    }

    fn skip(&self) -> Outcome {
        Outcome {
            row: self.clone(),
            against: None,
            value: f64::NAN,
            twins: f64::NAN,
            spread: f64::NAN,
            verdict: Some(Verdict::Skipped),
        }
    }
}

/// Runs the workloads that the options ask for; says on standard error how far it is.
///
/// # Errors
///
/// The first of a workload, with its name.
pub(crate) fn run(plan: &[Workload<'_>], options: &Options) -> Result<Vec<Results>, Failure> {
    let mut results = Vec::new();
    for workload in plan {
        let wanted = options.wants(&workload.name, workload.in_quick);
        let measured = if wanted {
            eprintln!("measuring: {}", workload.name);
            let measured = (workload.measure)(options);
            Some(measured.map_err(|error| format!("{}: {error}", workload.name))?)
        } else {
            None
        };
        let outcomes = workload.rows.iter().map(|row| match &measured {
            Some(measured) => row.judge(measured),
            None => row.skip(),
        });
        results.push(Results {
            workload: workload.name.clone(),
            outcomes: outcomes.collect(),
            measured,
        });
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::super::rounds::Subject;
    use super::*;

    /// Each subject has the same value in every round.
    fn measured(values: &[(&str, f64)]) -> Measured {
        let subjects = values.iter().map(|&(name, value)| {
            Subject::new(name, move || Ok(vec![("cost", value), ("speed", 1.0 / value)]))
        });
        Measured::of(5, subjects.collect()).unwrap()
    }

    fn row(figure: &'static str, target: Target) -> Row {
        Row {
            figure,
            of: "ours".into(),
            against: Against::Best(vec!["slow".into(), "fast".into(), "absent".into()]),
            target: Some(target),
            margin: 0.05,
            twins: ("ours".into(), "ours again".into()),
        }
    }

    #[test]
    fn a_row_is_compared_with_the_best_of_the_others() {
        let measured =
            measured(&[("ours", 2.0), ("ours again", 2.0), ("slow", 4.0), ("fast", 1.6)]);
        let cost = row("cost", Target::AtMost(1.3)).judge(&measured);
        assert_eq!(cost.against.as_deref(), Some("fast"));
        assert!((cost.value - 1.25).abs() < 1e-9 && cost.verdict == Some(Verdict::Met));

        let speed = row("speed", Target::AtLeast(1.0)).judge(&measured);
        assert_eq!(speed.against.as_deref(), Some("fast"));
        assert!((speed.value - 0.8).abs() < 1e-9 && speed.verdict == Some(Verdict::Missed));
    }

    #[test]
    fn twins_that_differ_beyond_the_margin_leave_the_row_undecided() {
        let measured = measured(&[("ours", 2.0), ("ours again", 2.2), ("fast", 4.0)]);
        let outcome = row("cost", Target::AtMost(1.0)).judge(&measured);
        assert_eq!(outcome.verdict, Some(Verdict::TooNoisy));
        assert!((outcome.twins - 1.1).abs() < 1e-9);
    }

    #[test]
    fn the_twins_of_a_value_may_both_be_zero() {
        let measured = measured(&[("ours", 0.0), ("ours again", 0.0)]);
        let row = Row { against: Against::Nothing, ..row("cost", Target::AtMost(0.1)) };
        let outcome = row.judge(&measured);
        assert_eq!((outcome.verdict, outcome.twins), (Some(Verdict::Met), 1.0));
    }

    #[test]
    fn a_row_without_anybody_to_compare_with_is_never_met() {
        let measured = measured(&[("ours", 2.0), ("ours again", 2.0)]);
        let outcome = row("cost", Target::AtMost(9.0)).judge(&measured);
        assert_eq!((outcome.against, outcome.verdict), (None, Some(Verdict::Missed)));
    }

    #[test]
    fn what_is_not_run_is_skipped_with_every_row() {
        let workload = |name: &str, in_quick| Workload {
            name: name.to_owned(),
            in_quick,
            rows: vec![row("cost", Target::AtMost(1.0)), row("speed", Target::AtLeast(1.0))],
            measure: Box::new(|_| {
                Ok(measured(&[("ours", 1.0), ("ours again", 1.0), ("fast", 1.0)]))
            }),
        };
        let options = Options { quick: true, ..Options::default() };
        let results = run(&[workload("short", true), workload("long", false)], &options).unwrap();
        let verdicts = |at: usize| {
            results[at].outcomes.iter().filter_map(|one| one.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(0), [Verdict::Met; 2]);
        assert_eq!(verdicts(1), [Verdict::Skipped; 2]);
    }
}
