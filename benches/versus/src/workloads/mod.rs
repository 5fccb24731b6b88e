//! What is measured, and what it is to show.

mod burst;
mod lifecycle;
mod load;
mod many;
mod memory;
mod refusal;
mod round_trip;
mod throughput;

use crate::common::plan::{Against, Row, Workload};
use crate::common::verdict::Target;
use crate::contenders::{self, Again, Bare, BareAgain, Full, Kind};

/// Every workload, in the order of the report.
pub(crate) fn plan() -> Vec<Workload<'static>> {
    let mut plan = round_trip::workloads();
    plan.extend(throughput::workloads());
    plan.push(burst::workload());
    plan.extend(refusal::workloads());
    plan.extend(load::workloads());
    plan.extend(memory::workloads());
    plan.extend(many::workloads());
    plan.push(lifecycle::workload());
    plan
}

/// A row that compares one of ours with the best of the contenders. The margin is what the target
/// leaves, and a twentieth where it leaves nothing.
fn beside_the_best(figure: &'static str, of: &str, target: Option<Target>) -> Row {
    Row {
        figure,
        of: of.to_owned(),
        against: Against::Best(contenders::names()),
        target,
        margin: margin(target),
        twins: twins(of),
    }
}

fn margin(target: Option<Target>) -> f64 {
    match target {
        Some(Target::AtMost(limit)) if limit > 1.0 => (limit - 1.0).min(0.25),
        _ => 0.05,
    }
}

/// The two of ours that are the same code as this one.
fn twins(of: &str) -> (String, String) {
    let (one, other) =
        if of == Bare::NAME { (Bare::NAME, BareAgain::NAME) } else { (Full::NAME, Again::NAME) };
    (one.to_owned(), other.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_workloads_have_one_name() {
        let plan = plan();
        let names: BTreeSet<_> = plan.iter().map(|workload| &workload.name).collect();
        assert_eq!(names.len(), plan.len());
    }

    #[test]
    fn a_margin_is_never_wider_than_what_the_target_leaves() {
        for row in plan().iter().flat_map(|workload| &workload.rows) {
            if let Some(Target::AtMost(limit)) = row.target {
                if row.against != Against::Nothing && limit > 1.0 {
                    assert!(row.margin <= limit - 1.0 + 1e-9, "{row:?}");
                }
            }
        }
    }
}
