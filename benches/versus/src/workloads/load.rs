//! The real case: jobs of 100 µs and of 1 ms that come at random and keep the threads busy for 80 %
//! of the time. How long does a job wait before it starts?

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Failure;
use crate::common::plan::Workload;
use crate::common::rounds::{Figures, Measured, Subject, latencies};
use crate::contenders::{Bare, Full, Kind, Pool, each_contender, each_of_ours};
use crate::work;

use super::beside_the_best;

#[derive(Debug, Clone, Copy)]
struct Load {
    workers: usize,
    /// What a job takes, and whether it computes or blocks meanwhile.
    job: Duration,
    computes: bool,
    /// The mean time between two jobs.
    gap: Duration,
    jobs: usize,
}

/// One worker is busy for 100 of 125 µs; eight workers for 1.06 of 1.32 ms, since a sleep of 1 ms
/// takes 0.06 ms more.
const SHORT: Load = Load {
    workers: 1,
    job: Duration::from_micros(100),
    computes: true,
    gap: Duration::from_micros(125),
    jobs: 2_500,
};
const LONG: Load = Load {
    workers: 8,
    job: Duration::from_millis(1),
    computes: false,
    gap: Duration::from_micros(165),
    jobs: 6_000,
};

pub(super) fn workloads() -> Vec<Workload<'static>> {
    let workload = |name: &str, load: Load, in_quick| Workload {
        name: name.to_owned(),
        in_quick,
        rows: [Bare::NAME, Full::NAME]
            .iter()
            .flat_map(|of| ["p50_us", "p99_us"].map(|figure| beside_the_best(figure, of, None)))
            .collect(),
        measure: Box::new(move |options| measure(options.pick(3, 9), load)),
    };
    vec![
        workload("80 % load, 100 us of computing", SHORT, true),
        workload("80 % load, 1 ms of blocking", LONG, false),
    ]
}

fn measure(rounds: usize, load: Load) -> Result<Measured, Failure> {
    let mut subjects = Vec::new();
    subjects.extend(each_contender!(P => subject(P::start(load.workers, 1_024)?, load)));
    subjects.extend(each_of_ours!(P => subject(P::start(load.workers, 1_024)?, load)));
    Measured::of(rounds, subjects)
}

fn subject<P: Pool + 'static>(pool: P, load: Load) -> Subject<'static> {
    Subject::new(P::NAME, move || work::checked(load.jobs as u64, |_| arrivals(&pool, load)))
}

fn arrivals<P: Pool>(pool: &P, load: Load) -> Result<Figures, Failure> {
    let waits: Arc<[AtomicU64]> = (0..load.jobs).map(|_| AtomicU64::new(0)).collect();
    let mut handles = Vec::with_capacity(load.jobs);
    let mut random = Exponential(0x9E37_79B9_7F4A_7C15);
    let mut due = Instant::now();
    for number in 0..load.jobs {
        due += load.gap.mul_f64(random.next());
        while Instant::now() < due {
            spin_loop();
        }
        let waits = Arc::clone(&waits);
        // A wait counts from when the job was due, so that a submitter that is held up shows.
        handles.push(pool.submit(move || {
            let started = Instant::now();
            let waited = started.duration_since(due).as_nanos();
            waits[number].store(u64::try_from(waited).unwrap_or(u64::MAX), Ordering::Relaxed);
            if load.computes {
                while started.elapsed() < load.job {
                    spin_loop();
                }
            } else {
                thread::sleep(load.job);
            }
            work::empty()
        })?);
    }
    handles.into_iter().try_for_each(|handle| P::join(handle).map(drop))?;
    let samples: Vec<u64> = waits.iter().map(|wait| wait.load(Ordering::Relaxed)).collect();
    Ok(latencies(&samples))
}

/// Gaps between arrivals that know nothing of each other, with a mean of 1: the same for everybody.
struct Exponential(u64);

impl Exponential {
    fn next(&mut self) -> f64 {
        // Marsaglia's xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        #[expect(clippy::cast_precision_loss, reason = "53 bits are kept")]
        let uniform = ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -uniform.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gaps_have_a_mean_of_one_and_their_own_tail() {
        let mut random = Exponential(1);
        let gaps: Vec<f64> = (0..100_000).map(|_| random.next()).collect();
        let mean = gaps.iter().sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        let long = gaps.iter().filter(|gap| **gap > 3.0).count();
        // e^-3 of them.
        assert!((4_600..5_400).contains(&long), "{long}");
    }
}
