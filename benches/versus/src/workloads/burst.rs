//! A thousand jobs at once from rest: when is the last one done?

use std::time::Instant;

use crate::common::Failure;
use crate::common::plan::Workload;
use crate::common::rounds::{Measured, Subject};
use crate::common::statistics::median;
use crate::contenders::{Bare, Full, Kind, Pool, each_contender, each_of_ours};
use crate::work;

use super::beside_the_best;

const JOBS: usize = 1_000;
const WORKERS: usize = 4;
const BURSTS: usize = 20;

pub(super) fn workload() -> Workload<'static> {
    Workload {
        name: "burst of 1,000".into(),
        in_quick: true,
        rows: [Bare::NAME, Full::NAME].map(|of| beside_the_best("burst_us", of, None)).into(),
        measure: Box::new(|options| measure(options.pick(5, 15))),
    }
}

fn measure(rounds: usize) -> Result<Measured, Failure> {
    let mut subjects = Vec::new();
    subjects.extend(each_contender!(P => subject(P::start(WORKERS, 1_024)?)));
    subjects.extend(each_of_ours!(P => subject(P::start(WORKERS, 1_024)?)));
    Measured::of(rounds, subjects)
}

fn subject<P: Pool + 'static>(pool: P) -> Subject<'static> {
    Subject::new(P::NAME, move || {
        work::checked((JOBS * BURSTS) as u64, |_| {
            let bursts = (0..BURSTS).map(|_| burst(&pool)).collect::<Result<Vec<_>, _>>()?;
            Ok(vec![("burst_us", median(&bursts))])
        })
    })
}

fn burst<P: Pool>(pool: &P) -> Result<f64, Failure> {
    let mut handles = Vec::with_capacity(JOBS);
    let start = Instant::now();
    for _ in 0..JOBS {
        handles.push(pool.submit(work::empty)?);
    }
    handles.into_iter().try_for_each(|handle| P::join(handle).map(drop))?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}
