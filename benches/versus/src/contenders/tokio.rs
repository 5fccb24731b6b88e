//! tokio's `spawn_blocking`, called from threads: the handle is waited for without entering the
//! runtime, which is faster than its own `block_on`.

use futures_lite::future::block_on;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::{Job, Pool};
use crate::common::Failure;

pub(crate) struct SpawnBlocking(Runtime);

impl Pool for SpawnBlocking {
    const NAME: &'static str = "tokio spawn_blocking";
    type Handle = JoinHandle<u64>;

    fn start(workers: usize, _queue: usize) -> Result<Self, Failure> {
        Ok(Self(Builder::new_current_thread().max_blocking_threads(workers).build()?))
    }

    fn submit(&self, job: impl Job) -> Result<Self::Handle, Failure> {
        Ok(self.0.spawn_blocking(job))
    }

    fn join(handle: Self::Handle) -> Result<u64, Failure> {
        Ok(block_on(handle)?)
    }

    fn fire(&self, job: impl Job) -> Result<(), Failure> {
        drop(self.0.spawn_blocking(job));
        Ok(())
    }

    fn stop(self) -> Result<bool, Failure> {
        drop(self.0);
        Ok(true)
    }
}
