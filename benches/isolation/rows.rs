//! What the healthy side is to show beside each of the neighbour's troubles.

use std::cell::RefCell;
use std::sync::Arc;

use crate::common::Failure;
use crate::common::options::Options;
use crate::common::plan::{Against, Row, Workload};
use crate::common::rounds::{Measured, Subject};
use crate::common::verdict::Target;
use crate::healthy::{self, Work};
use crate::neighbour::{Kind, Trouble};
use crate::site::{Apart, Lever, Shared, Site};

const IDLE: &str = "bulkheads, idle";
const IDLE_AGAIN: &str = "bulkheads, idle again";
const SHARED_IDLE: &str = "shared pool, idle";
const OVERLOADED: &str = "bulkheads, overloaded";

/// The troubles that wait, which a bulkhead is to keep to its own threads.
const WAITING: [(Kind, &str); 5] = [
    (Kind::Slow, "bulkheads, 3 s late"),
    (Kind::Wedged, "bulkheads, wedged"),
    (Kind::Hung, "bulkheads, database hung"),
    (Kind::Panicking, "bulkheads, panicking"),
    (Kind::Overloaded, OVERLOADED),
];

/// The trouble that computes, by what is done about it; the last is the best that can be done.
const BURNING: &[(Lever, &str)] = &[
    (Lever::None, "bulkheads, burning"),
    (Lever::Nice, "bulkheads, burning, nice"),
    #[cfg(feature = "background")]
    (Lever::Background, "bulkheads, burning, idle class"),
    (Lever::Cores, "bulkheads, burning, pinned apart"),
    (Lever::CoresAndNice, "bulkheads, burning, pinned and nice"),
    #[cfg(feature = "background")]
    (Lever::CoresAndBackground, "bulkheads, burning, pinned and idle class"),
];

const IN_SHARED_POOL: [(Kind, &str, Option<f64>); 6] = [
    (Kind::Slow, "shared pool, 3 s late", Some(20.0)),
    (Kind::Wedged, "shared pool, wedged", Some(20.0)),
    (Kind::Hung, "shared pool, database hung", Some(20.0)),
    (Kind::Burning, "shared pool, burning", Some(100.0)),
    // Neither takes the threads away for long.
    (Kind::Panicking, "shared pool, panicking", None),
    (Kind::Overloaded, "shared pool, overloaded", None),
];

pub(crate) fn workloads() -> Vec<Workload<'static>> {
    type Make = fn() -> Result<Work, Failure>;
    let of: [(&str, Make); 2] =
        [("1 ms over HTTP", Work::http), ("20 us of computing", || Ok(Work::Light))];
    of.into_iter()
        .map(|(name, work)| Workload {
            name: name.to_owned(),
            in_quick: true,
            rows: rows(),
            measure: Box::new(move |options| measure(options, &work()?)),
        })
        .collect()
}

fn rows() -> Vec<Row> {
    let ratio = |of: &str, figure, target: Option<Target>, to: &str| Row {
        figure,
        of: of.to_owned(),
        against: Against::One(to.to_owned()),
        target,
        margin: match target {
            Some(Target::AtMost(limit)) => limit - 1.0,
            // Tens and hundreds are far enough away to be told at twice the latency.
            _ => 1.0,
        },
        twins: (IDLE.to_owned(), IDLE_AGAIN.to_owned()),
        doubt: None,
    };
    let at_most = |limit| Some(Target::AtMost(limit));
    let mut rows = Vec::new();
    for (_, of) in WAITING {
        rows.push(ratio(of, "p50_us", at_most(1.05), IDLE));
        rows.push(ratio(of, "p95_us", at_most(1.05), IDLE));
        rows.push(ratio(of, "p99_us", at_most(1.2), IDLE));
    }
    for &(lever, of) in BURNING {
        let best = BURNING.last().is_some_and(|(best, _)| *best == lever);
        rows.push(ratio(of, "p50_us", None, IDLE));
        rows.push(ratio(of, "p99_us", if best { at_most(1.3) } else { None }, IDLE));
    }
    for (_, of, target) in IN_SHARED_POOL {
        rows.push(ratio(of, "p99_us", target.map(Target::AtLeast), SHARED_IDLE));
    }
    let share = |figure, target| Row {
        against: Against::Nothing,
        // A share is counted, and no noise of the machine is in it.
        twins: (OVERLOADED.to_owned(), OVERLOADED.to_owned()),
        ..ratio(OVERLOADED, figure, Some(target), IDLE)
    };
    rows.push(Row { margin: 0.05, ..share("refused_percent", Target::AtMost(1.0)) });
    // Forty, less what the calls that were queued in the beginning make up for.
    rows.push(share("neighbour_refused_percent", Target::AtLeast(35.0)));
    rows
}

fn measure(options: &Options, work: &Work) -> Result<Measured, Failure> {
    let subjects = RefCell::new(Vec::new());
    let add = |name: &'static str, kind: Kind, site: Arc<dyn Site>| {
        healthy::warm(&site, work)?;
        let mut trouble = Trouble::new(kind)?;
        let measure = move || healthy::measure(&site, &mut trouble, work);
        subjects.borrow_mut().push(Subject::new(name, measure));
        Ok::<_, Failure>(())
    };
    let apart = |lever| Ok::<_, Failure>(Arc::new(Apart::build(lever)?));

    add(IDLE, Kind::Idle, apart(Lever::None)?)?;
    add(IDLE_AGAIN, Kind::Idle, apart(Lever::None)?)?;
    for (kind, name) in WAITING {
        add(name, kind, apart(Lever::None)?)?;
    }
    for &(lever, name) in BURNING {
        match apart(lever) {
            Ok(site) => add(name, Kind::Burning, site)?,
            // One core, or a system that refuses: the row then has no figure.
            Err(error) => eprintln!("left out: {name}: {error}"),
        }
    }
    add(SHARED_IDLE, Kind::Idle, Arc::new(Shared::build()?))?;
    for (kind, name, _) in IN_SHARED_POOL {
        add(name, kind, Arc::new(Shared::build()?))?;
    }
    Measured::of_warm(options.pick(4, 11), subjects.into_inner())
}
