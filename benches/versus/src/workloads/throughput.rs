//! Several producers, several workers, a queue of 1,024: how many empty jobs a second?

use std::collections::VecDeque;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Failure;
use crate::common::plan::Workload;
use crate::common::rounds::{Figures, Measured, Subject};
use crate::common::verdict::Target;
use crate::contenders::{Bare, Full, Kind, Pool, each_contender, each_of_ours};
use crate::work;

use super::beside_the_best;

const QUEUE: usize = 1_024;

/// As many of a producer's jobs are under way at once; sixteen producers fill the queue.
const WINDOW: usize = QUEUE / 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Every job's value is waited for.
    Awaited,
    /// Nobody waits for a job; those who have no bounds take everything at once.
    Forgotten,
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    producers: usize,
    workers: usize,
    manner: Manner,
    jobs: u64,
}

pub(super) fn workloads() -> Vec<Workload<'static>> {
    let mut all = Vec::new();
    for (manner, word) in [(Manner::Awaited, "awaited"), (Manner::Forgotten, "forgotten")] {
        for producers in [1, 4, 16] {
            for workers in [1, 2, 8] {
                let judged = producers < 16;
                let target = judged.then_some(Target::AtLeast(1.0));
                all.push(Workload {
                    name: format!("throughput {word}, {producers} to {workers}"),
                    in_quick: workers == 2 && judged && manner == Manner::Awaited,
                    rows: vec![
                        beside_the_best("jobs_per_s", Bare::NAME, target),
                        beside_the_best("jobs_per_s", Full::NAME, target),
                    ],
                    measure: Box::new(move |options| {
                        let jobs = options.pick(64_000, 256_000);
                        measure(options.pick(7, 9), Shape { producers, workers, manner, jobs })
                    }),
                });
            }
        }
    }
    all
}

fn measure(rounds: usize, shape: Shape) -> Result<Measured, Failure> {
    let mut subjects = Vec::new();
    subjects.extend(each_contender!(P => subject(P::start(shape.workers, QUEUE)?, shape)));
    subjects.extend(each_of_ours!(P => subject(P::start(shape.workers, QUEUE)?, shape)));
    Measured::of(rounds, subjects)
}

fn subject<P: Pool + 'static>(pool: P, shape: Shape) -> Subject<'static> {
    Subject::new(P::NAME, move || work::checked(shape.jobs, |done| produce(&pool, shape, done)))
}

fn produce<P: Pool>(pool: &P, shape: Shape, done: &dyn Fn() -> u64) -> Result<Figures, Failure> {
    let ready = Barrier::new(shape.producers + 1);
    let each = shape.jobs / shape.producers as u64;
    let seconds = thread::scope(|scope| {
        let producers: Vec<_> = (0..shape.producers)
            .map(|_| {
                scope.spawn(|| {
                    ready.wait();
                    match shape.manner {
                        Manner::Awaited => await_each(pool, each),
                        Manner::Forgotten => {
                            (0..each).try_for_each(|word| pool.fire(work::empty(word)))
                        }
                    }
                })
            })
            .collect();
        ready.wait();
        let start = Instant::now();
        for producer in producers {
            producer.join().map_err(|_| "a producer panicked")??;
        }
        while shape.manner == Manner::Forgotten && done() < shape.jobs {
            if start.elapsed() > Duration::from_secs(60) {
                return Err("after a minute, jobs have not run".into());
            }
            thread::sleep(Duration::from_micros(20));
        }
        Ok::<_, Failure>(start.elapsed().as_secs_f64())
    })?;
    #[expect(clippy::cast_precision_loss, reason = "some thousands of jobs")]
    let jobs = shape.jobs as f64;
    Ok(vec![("jobs_per_s", jobs / seconds)])
}

fn await_each<P: Pool>(pool: &P, jobs: u64) -> Result<(), Failure> {
    let mut under_way = VecDeque::with_capacity(WINDOW);
    let collect = |(word, handle)| work::expect(word, P::join(handle)?);
    for word in 0..jobs {
        if under_way.len() == WINDOW {
            under_way.pop_front().map_or(Ok(()), collect)?;
        }
        under_way.push_back((word, pool.submit(work::empty(word))?));
    }
    under_way.into_iter().try_for_each(collect)
}
