//! `blocking`: one pool for the whole process, which grows and shrinks by itself.

use std::num::NonZeroUsize;

use futures_lite::future::block_on;

use super::{Job, Pool};
use crate::common::Failure;

pub(crate) struct Blocking;

impl Pool for Blocking {
    const NAME: &'static str = "blocking";
    type Handle = blocking::Task<u64>;

    fn start(workers: usize, _queue: usize) -> Result<Self, Failure> {
        // Threads beyond it that are idle leave after half a second.
        blocking::set_max_blocking_threads(NonZeroUsize::new(workers).ok_or("no workers")?);
        Ok(Self)
    }

    fn submit(&self, job: impl Job) -> Result<Self::Handle, Failure> {
        Ok(blocking::unblock(job))
    }

    fn join(handle: Self::Handle) -> Result<u64, Failure> {
        Ok(block_on(handle))
    }

    fn fire(&self, job: impl Job) -> Result<(), Failure> {
        blocking::unblock(job).detach();
        Ok(())
    }

    fn stop(self) -> Result<bool, Failure> {
        Ok(false)
    }
}
