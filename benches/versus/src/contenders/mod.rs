//! Everybody who runs jobs here, behind one trait and without boxing that is not their own.

mod blocking;
mod channel;
mod rayon;
mod rusty_pool;
mod threadpool;
mod tokio;
mod watertight;

pub(crate) use self::blocking::Blocking;
pub(crate) use self::channel::{Channel, Parked, Replied};
pub(crate) use self::rayon::Rayon;
pub(crate) use self::rusty_pool::RustyPool;
pub(crate) use self::threadpool::ThreadPool;
pub(crate) use self::tokio::SpawnBlocking;
pub(crate) use self::watertight::{Again, Bare, BareAgain, Full, Kind, Observed, Watertight};

use crate::common::Failure;

/// A job as everybody gets it. What it returns is checked.
pub(crate) trait Job: FnOnce() -> u64 + Send + 'static {}
impl<F: FnOnce() -> u64 + Send + 'static> Job for F {}

/// Threads that run jobs.
pub(crate) trait Pool: Sized + Send + Sync {
    const NAME: &'static str;

    /// What an accepted job is waited for by.
    type Handle: Send;

    /// Starts `workers` threads with, where there are bounds, room for `queue` jobs.
    ///
    /// # Errors
    ///
    /// What the pool says.
    fn start(workers: usize, queue: usize) -> Result<Self, Failure>;

    fn submit(&self, job: impl Job) -> Result<Self::Handle, Failure>;

    /// Waits for the value.
    fn join(handle: Self::Handle) -> Result<u64, Failure>;

    /// Runs a job and waits for its value, in the way that the pool recommends for just that.
    fn call(&self, job: impl Job) -> Result<u64, Failure> {
        Self::join(self.submit(job)?)
    }

    /// Submits a job that nobody waits for.
    fn fire(&self, job: impl Job) -> Result<(), Failure>;

    /// Ends the threads and waits for them; `false` where there is no way to.
    fn stop(self) -> Result<bool, Failure>;
}

/// Does something with every contender's type, under one name; collects what comes out.
macro_rules! each_contender {
    ($pool:ident => $body:expr) => {
        $crate::contenders::each!(
            $pool => $body;
            $crate::contenders::Channel<$crate::contenders::Replied>,
            $crate::contenders::Channel<$crate::contenders::Parked>,
            $crate::contenders::ThreadPool,
            $crate::contenders::RustyPool,
            $crate::contenders::Rayon,
            $crate::contenders::SpawnBlocking,
            $crate::contenders::Blocking
        )
    };
}

/// The same with every kind of ours; the twin of each stands beside it.
macro_rules! each_of_ours {
    ($pool:ident => $body:expr) => {
        $crate::contenders::each!(
            $pool => $body;
            $crate::contenders::Watertight<$crate::contenders::Full>,
            $crate::contenders::Watertight<$crate::contenders::Again>,
            $crate::contenders::Watertight<$crate::contenders::Bare>,
            $crate::contenders::Watertight<$crate::contenders::BareAgain>
        )
    };
}

macro_rules! each {
    ($pool:ident => $body:expr; $($type:ty),+) => {
        [$({ type $pool = $type; $body }),+]
    };
}

pub(crate) use {each, each_contender, each_of_ours};

/// The names of all contenders: with whom the rows compare.
pub(crate) fn names() -> Vec<String> {
    each_contender!(P => P::NAME.to_owned()).into()
}
