//! Where the healthy dependency and its neighbour live: a bulkhead each, or one pool for both.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, TrySendError, bounded};
use watertight::{Bulkhead, BulkheadBuilder, Pinning, Runtime, Scheduling};

use crate::common::Failure;

pub(crate) const THREADS: usize = 8;
pub(crate) const QUEUE: usize = 64;

/// Which of the two a job is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Healthy,
    Neighbour,
}

/// What keeps a neighbour's computing from the healthy one's cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lever {
    None,
    /// The neighbour's threads are as nice as can be.
    Nice,
    /// The neighbour's threads run when nobody else wants to.
    #[cfg(feature = "background")]
    Background,
    /// The neighbour has the last core, the healthy one the others.
    Cores,
    /// The neighbour has the last core, and is nice there to whoever else is on it.
    CoresAndNice,
    #[cfg(feature = "background")]
    CoresAndBackground,
}

impl Lever {
    fn divides_cores(self) -> bool {
        match self {
            Self::Cores | Self::CoresAndNice => true,
            #[cfg(feature = "background")]
            Self::CoresAndBackground => true,
            _ => false,
        }
    }

    /// Sets how the neighbour's threads are scheduled.
    fn schedule(self, neighbour: BulkheadBuilder) -> BulkheadBuilder {
        match self {
            Self::Nice | Self::CoresAndNice => neighbour.niceness(19),
            #[cfg(feature = "background")]
            Self::Background | Self::CoresAndBackground => neighbour.background(),
            _ => neighbour,
        }
    }
}

/// Takes jobs for both sides.
pub(crate) trait Site: Send + Sync {
    /// Hands a job over without waiting; `false` says that it was refused.
    fn submit(&self, side: Side, job: Box<dyn FnOnce() + Send>) -> bool;
}

/// A bulkhead for each.
pub(crate) struct Apart {
    healthy: Bulkhead,
    neighbour: Bulkhead,
    _runtime: Runtime,
}

impl Apart {
    pub(crate) fn build(lever: Lever) -> Result<Self, Failure> {
        let describe = |name: &str| Bulkhead::builder(name).threads(THREADS).queue(QUEUE);
        let (mut healthy, mut neighbour) =
            (describe("healthy"), lever.schedule(describe("neighbour")));
        if lever.divides_cores() {
            let cores = thread::available_parallelism()?.get();
            let last = cores.checked_sub(1).filter(|last| *last > 0).ok_or("there is one core")?;
            healthy = healthy.cores(0..last);
            neighbour = neighbour.cores([last]);
        }
        let runtime = Runtime::builder().bulkhead(healthy).bulkhead(neighbour).build()?;
        for bulkhead in &runtime.plan().bulkheads {
            let pinned = |how: &Pinning| matches!(how, Pinning::NotAsked | Pinning::Applied(_));
            let scheduled =
                |how: &Scheduling| matches!(how, Scheduling::NotAsked | Scheduling::Applied);
            let all =
                bulkhead.pinning.iter().all(pinned) && bulkhead.scheduling.iter().all(scheduled);
            if !all {
                return Err(format!("{lever:?} has no effect here: {bulkhead:?}").into());
            }
        }
        Ok(Self {
            healthy: runtime.bulkhead("healthy")?,
            neighbour: runtime.bulkhead("neighbour")?,
            _runtime: runtime,
        })
    }
}

impl Site for Apart {
    fn submit(&self, side: Side, job: Box<dyn FnOnce() + Send>) -> bool {
        let bulkhead = match side {
            Side::Healthy => &self.healthy,
            Side::Neighbour => &self.neighbour,
        };
        bulkhead.try_submit(|_| job()).is_ok()
    }
}

/// As many threads, and a queue as long, for both together.
pub(crate) struct Shared {
    jobs: Sender<Box<dyn FnOnce() + Send>>,
}

impl Shared {
    pub(crate) fn build() -> Result<Self, Failure> {
        let (jobs, queue) = bounded::<Box<dyn FnOnce() + Send>>(2 * QUEUE);
        for number in 0..2 * THREADS {
            let queue = queue.clone();
            thread::Builder::new().name(format!("shared-{number}")).spawn(move || {
                for job in queue {
                    // A pool whose threads died of panics would be another story.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                }
            })?;
        }
        Ok(Self { jobs })
    }
}

impl Site for Shared {
    fn submit(&self, _: Side, job: Box<dyn FnOnce() + Send>) -> bool {
        match self.jobs.try_send(job) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }
}

/// Sleeps until `due`, or not at all if that has passed.
pub(crate) fn sleep_until(due: Instant) {
    let ahead = due.saturating_duration_since(Instant::now());
    if ahead > Duration::ZERO {
        thread::sleep(ahead);
    }
}
