//! [`Holdings`]: the numbers of a bulkhead's connections and name look-ups, for export.

use std::time::Duration;

/// Why a connection left its bulkhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// The job that held it panicked.
    Panicked,
    /// The job that held it was cancelled or aborted, or its deadline had passed.
    Unwanted,
    /// It could not be made clean for the next job.
    Unclean,
    /// Its manager said that it is broken.
    Broken,
    /// It did not pass the test after a time of idleness.
    FailedTest,
    /// It was idle or alive for too long, or its pool was closed.
    Retired,
    /// The server closed it, or the HTTP client did: which one it does not say.
    Closed,
}

impl Parting {
    pub(crate) const COUNT: usize = 7;

    pub(crate) const ALL: [Self; Self::COUNT] = [
        Self::Panicked,
        Self::Unwanted,
        Self::Unclean,
        Self::Broken,
        Self::FailedTest,
        Self::Retired,
        Self::Closed,
    ];

    /// One lower-case word, for the metric's label.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Panicked => "panicked",
            Self::Unwanted => "unwanted",
            Self::Unclean => "unclean",
            Self::Broken => "broken",
            Self::FailedTest => "failed_test",
            Self::Retired => "retired",
            Self::Closed => "closed",
        }
    }
}

/// How a look-up of a name ended for the job that asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookUpEnd {
    Answered,
    Failed,
    /// The job had no time left for it, or was cancelled.
    TimedOut,
    /// Every thread that looks names up was busy.
    Refused,
}

impl LookUpEnd {
    pub(crate) const COUNT: usize = 4;

    pub(crate) const ALL: [Self; Self::COUNT] =
        [Self::Answered, Self::Failed, Self::TimedOut, Self::Refused];

    /// One lower-case word, for the metric's label.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Refused => "refused",
        }
    }
}

/// What one resource, or all resources of a bulkhead, have and had.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holdings {
    /// Connections that a running job holds, or that are being tested for one.
    pub(crate) in_use: usize,
    /// Open connections that no job holds.
    pub(crate) idle: usize,
    /// Running jobs that wait for a connection.
    pub(crate) waiting: usize,
    /// Connections that are given up and not closed yet.
    pub(crate) unclosed: usize,
    pub(crate) opened: u64,
    /// Attempts to connect that failed.
    pub(crate) failed: u64,
    /// By [`Parting`].
    pub(crate) parted: [u64; Parting::COUNT],
    /// Of those that look names up.
    pub(crate) look_ups: Option<LookUps>,
}

/// Look-ups of names, those that were answered from memory left out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LookUps {
    /// By [`LookUpEnd`].
    pub(crate) ended: [u64; LookUpEnd::COUNT],
    /// The time that jobs have waited for them.
    pub(crate) waited: Duration,
}

impl Holdings {
    /// Adds another resource's, or what is left of it.
    pub(crate) fn add(&mut self, other: &Self) {
        self.in_use += other.in_use;
        self.idle += other.idle;
        self.waiting += other.waiting;
        self.unclosed += other.unclosed;
        self.opened += other.opened;
        self.failed += other.failed;
        add_each(&mut self.parted, &other.parted);
        if let Some(theirs) = &other.look_ups {
            let ours = self.look_ups.get_or_insert_with(LookUps::default);
            add_each(&mut ours.ended, &theirs.ended);
            ours.waited = ours.waited.saturating_add(theirs.waited);
        }
    }
}

fn add_each<const N: usize>(ours: &mut [u64; N], theirs: &[u64; N]) {
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        *ours += theirs;
    }
}
