//! How long from nothing to the first job's value on 16 threads, and how long to be gone again?

use std::time::Instant;

use crate::common::Failure;
use crate::common::plan::{Against, Row, Workload};
use crate::common::rounds::{Figures, Measured, Subject};
use crate::common::statistics::median;
use crate::contenders::{Channel, Full, Kind, Pool, Replied, each_contender, each_of_ours};
use crate::work;

use super::twins;

const WORKERS: usize = 16;
const TIMES: usize = 10;

pub(super) fn workload() -> Workload<'static> {
    Workload {
        name: "start and stop of 16 threads".into(),
        in_quick: true,
        // Several of the others start their threads when they are needed, so the best is not the
        // one to compare with: the threads written by hand are.
        rows: ["start_us", "stop_us"]
            .map(|figure| Row {
                figure,
                of: Full::NAME.into(),
                against: Against::One(<Channel<Replied> as Pool>::NAME.into()),
                target: None,
                margin: 0.25,
                twins: twins(Full::NAME),
            })
            .into(),
        measure: Box::new(|options| measure(options.pick(5, 11))),
    }
}

fn measure(rounds: usize) -> Result<Measured, Failure> {
    let mut subjects = Vec::new();
    subjects.extend(each_contender!(P => Subject::new(P::NAME, start_and_stop::<P>)));
    subjects.extend(each_of_ours!(P => Subject::new(P::NAME, start_and_stop::<P>)));
    Measured::of(rounds, subjects)
}

fn start_and_stop<P: Pool>() -> Result<Figures, Failure> {
    work::checked(TIMES as u64, |_| {
        let (mut starts, mut stops) = (Vec::new(), Vec::new());
        for _ in 0..TIMES {
            let start = Instant::now();
            let pool = P::start(WORKERS, WORKERS)?;
            pool.call(work::empty)?;
            let stop = Instant::now();
            starts.push(stop.duration_since(start).as_secs_f64() * 1e6);
            if pool.stop()? {
                stops.push(stop.elapsed().as_secs_f64() * 1e6);
            }
        }
        let mut figures = vec![("start_us", median(&starts))];
        if !stops.is_empty() {
            figures.push(("stop_us", median(&stops)));
        }
        Ok(figures)
    })
}
