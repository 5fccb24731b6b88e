//! `threadpool`. It has no results, so the answer comes back by `oneshot`.

use super::{Job, Pool};
use crate::common::Failure;

pub(crate) struct ThreadPool(threadpool::ThreadPool);

impl Pool for ThreadPool {
    const NAME: &'static str = "threadpool";
    type Handle = oneshot::Receiver<u64>;

    fn start(workers: usize, _queue: usize) -> Result<Self, Failure> {
        Ok(Self(threadpool::ThreadPool::new(workers)))
    }

    fn submit(&self, job: impl Job) -> Result<Self::Handle, Failure> {
        let (sender, receiver) = oneshot::channel();
        self.0.execute(move || {
            // Nobody may be waiting any more.
            let _ = sender.send(job());
        });
        Ok(receiver)
    }

    fn join(handle: Self::Handle) -> Result<u64, Failure> {
        Ok(handle.recv()?)
    }

    fn fire(&self, job: impl Job) -> Result<(), Failure> {
        self.0.execute(move || {
            job();
        });
        Ok(())
    }

    fn stop(self) -> Result<bool, Failure> {
        // It waits for jobs; threads go when the last handle does, and nobody can wait for them.
        self.0.join();
        Ok(false)
    }
}
