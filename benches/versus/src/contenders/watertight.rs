//! Ours: with everything on, which is what is used, and bare, which is what the others have.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use watertight::{
    Bulkhead, BulkheadBuilder, Deadline, FinishedEvent, JobHandle, Observer, Rejected,
    RejectionPolicy, Runtime,
};

use super::{Job, Pool};
use crate::common::Failure;

/// A runtime of one bulkhead, set up as `K` says.
pub(crate) struct Watertight<K> {
    runtime: Runtime,
    bulkhead: Bulkhead,
    kind: PhantomData<fn() -> K>,
}

/// How the bulkhead is set up.
pub(crate) trait Kind: 'static {
    const NAME: &'static str;
    /// Whether jobs have limits: in the queue, at the door, and as a whole.
    const LIMITED: bool;
    const OBSERVED: bool = false;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($name:literal, $limited:literal, $observed:literal);)+) => {
        $($(#[$doc])* pub(crate) struct $kind;
        impl Kind for $kind {
            const NAME: &'static str = $name;
            const LIMITED: bool = $limited;
            const OBSERVED: bool = $observed;
        })+
    };
}

kinds! {
    /// Bounded queue and line, queue limit, deadline, counters.
    Full("watertight", true, false);
    /// The same code once more.
    Again("watertight again", true, false);
    /// Without limits in time. The bounds and the counters are always on.
    Bare("watertight bare", false, false);
    /// The same code once more.
    BareAgain("watertight bare again", false, false);
    /// Everything on, and an observer that counts what has finished.
    Observed("watertight observed", true, true);
}

/// Longer than any measurement, so that it never fires.
const LIMIT: Duration = Duration::from_secs(30);

/// As many as ever submit at once.
const SUBMITTERS: usize = 64;

struct Counting(AtomicU64);

impl Observer for Counting {
    fn on_finished(&self, _: &FinishedEvent<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl<K: Kind> Watertight<K> {
    fn bulkhead(workers: usize, queue: usize) -> BulkheadBuilder {
        let at_most = if K::LIMITED { LIMIT } else { Duration::MAX };
        let builder = Bulkhead::builder("versus")
            .threads(workers)
            .queue(queue)
            .rejection(RejectionPolicy::Wait { at_most, submitters: SUBMITTERS });
        if K::LIMITED {
            builder.queue_limit(LIMIT).call_limit(LIMIT)
        } else {
            builder.no_deadline()
        }
    }
}

impl<K: Kind> Pool for Watertight<K> {
    const NAME: &'static str = K::NAME;
    type Handle = JobHandle<u64>;

    fn start(workers: usize, queue: usize) -> Result<Self, Failure> {
        let mut builder = Runtime::builder().bulkhead(Self::bulkhead(workers, queue));
        if K::OBSERVED {
            builder = builder.observer(Counting(AtomicU64::new(0)));
        }
        let runtime = builder.build()?;
        let bulkhead = runtime.bulkhead("versus")?;
        Ok(Self { runtime, bulkhead, kind: PhantomData })
    }

    fn submit(&self, job: impl Job) -> Result<Self::Handle, Failure> {
        let deadline = if K::LIMITED { Deadline::after(LIMIT) } else { Deadline::never() };
        Ok(self.bulkhead.submit_until(deadline, |_| job()).map_err(Rejected::forget)?)
    }

    fn join(handle: Self::Handle) -> Result<u64, Failure> {
        Ok(handle.join()?)
    }

    fn call(&self, job: impl Job) -> Result<u64, Failure> {
        Ok(self.bulkhead.call(|_| job())?)
    }

    fn fire(&self, job: impl Job) -> Result<(), Failure> {
        drop(self.submit(job)?);
        Ok(())
    }

    fn stop(self) -> Result<bool, Failure> {
        let report = self.runtime.shutdown(LIMIT)?;
        if report.is_clean() { Ok(true) } else { Err("a job was still there at the end".into()) }
    }
}
