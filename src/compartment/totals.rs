//! [`Totals`]: what has happened since the bulkhead was built.

use std::time::Duration;

use super::peaks::Peaks;
use crate::error::Rejection;
use crate::event::Outcome;

/// Counts kept under the compartment's lock, so that they agree with each other at every instant:
/// `accepted = returned + panicked + not started + running + queued`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Jobs that were let in.
    pub accepted: u64,
    /// Jobs whose closure returned.
    pub returned: u64,
    /// Jobs whose closure panicked.
    pub panicked: u64,
    not_started: [u64; Rejection::COUNT],
    /// Callers whose call's limit passed while their closure was running.
    pub call_limit_running: u64,
    /// Thread-seconds spent on jobs, including those that are running now.
    pub busy: Duration,
    /// How long the bulkhead has been full, all in all.
    pub full: Duration,
    /// The highest values since the bulkhead was built.
    pub peaks: Peaks,
}

impl Totals {
    pub(crate) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Returned => self.returned += 1,
            Outcome::Panicked => self.panicked += 1,
            Outcome::NotStarted(why) => self.not_started[why.index()] += 1,
        }
    }

    /// Accepted jobs that ended unstarted for this reason.
    #[must_use]
    pub const fn not_started(&self, why: Rejection) -> u64 {
        self.not_started[why.index()]
    }

    /// Accepted jobs that have ended, in whichever way.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.returned + self.panicked + self.not_started.iter().sum::<u64>()
    }
}
