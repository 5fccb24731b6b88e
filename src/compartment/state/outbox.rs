//! [`Outbox`]: what a decision leaves to be done once the lock is free.

use std::time::Duration;

use smallvec::SmallVec;

use crate::error::Rejection;

/// Whom to tell, once the lock is free. In the order in which it is delivered.
#[derive(Debug)]
pub(crate) struct Outbox<J> {
    /// How many sleeping workers to wake.
    pub(crate) wake_workers: usize,
    /// The timekeeper sleeps too long, or has something to do.
    pub(crate) wake_timekeeper: bool,
    /// Waiting submitters whose job has a place now.
    pub(crate) granted: SmallVec<[J; 1]>,
    /// Waiting submitters sent away; their closures go back to them.
    pub(crate) refused: SmallVec<[(J, Rejection); 1]>,
    /// Accepted jobs that ended unstarted, and how long they had waited.
    pub(crate) ended: SmallVec<[(J, Rejection, Duration); 1]>,
    /// Running jobs whose call's time has passed.
    pub(crate) overdue: SmallVec<[J; 1]>,
    pub(crate) saturation: Option<Saturation>,
}

impl<J> Outbox<J> {
    pub(crate) fn new() -> Self {
        Self {
            wake_workers: 0,
            wake_timekeeper: false,
            granted: SmallVec::new(),
            refused: SmallVec::new(),
            ended: SmallVec::new(),
            overdue: SmallVec::new(),
            saturation: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wake_workers == 0
            && !self.wake_timekeeper
            && self.granted.is_empty()
            && self.refused.is_empty()
            && self.ended.is_empty()
            && self.overdue.is_empty()
            && self.saturation.is_none()
    }
}

/// The bulkhead became full, or stopped being full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saturation {
    Begun,
    Over(Duration),
}
