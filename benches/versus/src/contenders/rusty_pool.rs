//! `rusty_pool`, with its own handles.

use std::time::Duration;

use super::{Job, Pool};
use crate::common::Failure;

pub(crate) struct RustyPool(rusty_pool::ThreadPool);

impl Pool for RustyPool {
    const NAME: &'static str = "rusty_pool";
    type Handle = rusty_pool::JoinHandle<u64>;

    fn start(workers: usize, _queue: usize) -> Result<Self, Failure> {
        let pool = rusty_pool::Builder::new()
            .core_size(workers)
            .max_size(workers)
            .keep_alive(Duration::from_secs(60))
            .build();
        pool.start_core_threads();
        Ok(Self(pool))
    }

    fn submit(&self, job: impl Job) -> Result<Self::Handle, Failure> {
        Ok(self.0.evaluate(job))
    }

    fn join(handle: Self::Handle) -> Result<u64, Failure> {
        handle.try_await_complete().map_err(|_| "the job was cancelled".into())
    }

    fn fire(&self, job: impl Job) -> Result<(), Failure> {
        self.0.execute(move || {
            job();
        });
        Ok(())
    }

    fn stop(self) -> Result<bool, Failure> {
        self.0.shutdown_join();
        Ok(true)
    }
}
