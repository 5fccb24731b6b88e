//! [`Outbox`]: what a decision leaves to be done once the lock is free.

use std::time::Duration;

use smallvec::SmallVec;

use crate::error::Rejection;

/// Whom to tell, once the lock is free.
#[derive(Debug)]
pub(crate) struct Outbox<J> {
    /// How many sleeping workers to wake.
    pub(crate) wake_workers: usize,
    /// The timekeeper sleeps too long, or has something to do.
    pub(crate) wake_timekeeper: bool,
    /// What became of jobs, in the order of the decisions. Most operations have nothing to say.
    pub(crate) news: SmallVec<[News<J>; 1]>,
    pub(crate) saturation: Option<Saturation>,
}

/// What became of a job, that somebody waits to hear.
#[derive(Debug)]
pub(crate) enum News<J> {
    /// Its submitter waited for a place, and it has one now.
    Granted(J),
    /// Its submitter waited for a place, and is sent away; the closure goes back to it.
    Refused(J, Rejection),
    /// It had been accepted and ended unstarted, after having waited so long.
    Ended(J, Rejection, Duration),
    /// It is running, and its call's time has passed.
    Overdue(J),
}

impl<J> Outbox<J> {
    pub(crate) fn new() -> Self {
        Self { wake_workers: 0, wake_timekeeper: false, news: SmallVec::new(), saturation: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wake_workers == 0
            && !self.wake_timekeeper
            && self.news.is_empty()
            && self.saturation.is_none()
    }

    /// The jobs that ended unstarted, why, and after which wait.
    pub(crate) fn ended(&self) -> impl Iterator<Item = (&J, Rejection, Duration)> {
        self.news.iter().filter_map(|news| match news {
            News::Ended(job, why, waited) => Some((job, *why, *waited)),
            _ => None,
        })
    }
}

/// The bulkhead became full, or stopped being full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saturation {
    Begun,
    Over(Duration),
}
