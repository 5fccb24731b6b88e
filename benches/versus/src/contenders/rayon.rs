//! `rayon`: `install` for a call, since that is what it has for callers from outside; `spawn` and a
//! `oneshot` for what is joined later.

use super::{Job, Pool};
use crate::common::Failure;

pub(crate) struct Rayon(rayon::ThreadPool);

impl Pool for Rayon {
    const NAME: &'static str = "rayon";
    type Handle = oneshot::Receiver<u64>;

    fn start(workers: usize, _queue: usize) -> Result<Self, Failure> {
        Ok(Self(rayon::ThreadPoolBuilder::new().num_threads(workers).build()?))
    }

    fn submit(&self, job: impl Job) -> Result<Self::Handle, Failure> {
        let (sender, receiver) = oneshot::channel();
        self.0.spawn(move || {
            // Nobody may be waiting any more.
            let _ = sender.send(job());
        });
        Ok(receiver)
    }

    fn join(handle: Self::Handle) -> Result<u64, Failure> {
        Ok(handle.recv()?)
    }

    fn call(&self, job: impl Job) -> Result<u64, Failure> {
        Ok(self.0.install(job))
    }

    fn fire(&self, job: impl Job) -> Result<(), Failure> {
        self.0.spawn(move || {
            job();
        });
        Ok(())
    }

    fn stop(self) -> Result<bool, Failure> {
        // Dropped, it tells its threads to go, and nobody can wait for them.
        drop(self);
        Ok(false)
    }
}
