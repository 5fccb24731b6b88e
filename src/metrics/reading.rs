//! [`Reading`]: the numbers of one bulkhead at one instant, from which one answer is written.

use super::cpu::{Ledger, Times, times_of};
use super::throttling::Throttling;
use crate::bulkhead::{Bulkhead, Snapshot};
use crate::compartment::{Holdings, Pinning, Thread, ThreadKind};
use crate::sync::Mutex;

/// Everything that is exported of one bulkhead.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) snapshot: Snapshot,
    /// How many callers may wait for a place.
    pub(super) waiting_limit: usize,
    /// Whether it lets anybody in.
    pub(super) is_open: bool,
    /// Of all its threads; `None` where the system does not say.
    pub(super) cpu: Option<Times>,
    /// How many of its workers there are in each state, by [`PINNING`].
    pub(super) pinning: [usize; PINNING.len()],
    /// `None` for a bulkhead that has never had connections of its own.
    pub(super) holdings: Option<Holdings>,
}

/// The states of a worker's pinning, as labels.
pub(super) const PINNING: [&str; 4] = ["not_asked", "applied", "denied", "unsupported"];

/// What is exported of the process as a whole.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) throttling: Option<Throttling>,
}

impl Process {
    pub(super) fn read() -> Self {
        Self { throttling: Throttling::read() }
    }
}

impl Reading {
    pub(super) fn of(bulkhead: &Bulkhead, ledger: &Mutex<Ledger>) -> Self {
        let compartment = bulkhead.compartment();
        let threads = compartment.threads();
        // The number of one that is gone may be a stranger's by now.
        let alive = threads.iter().filter(|thread| !thread.gone);
        let tids = alive.filter_map(|thread| thread.tid);
        Self {
            snapshot: bulkhead.snapshot(),
            waiting_limit: compartment.rules.submitters(),
            is_open: compartment.is_open(),
            cpu: ledger.lock().read(compartment.id, tids, times_of),
            pinning: pinning_of(&threads),
            holdings: compartment.holdings(),
        }
    }
}

fn pinning_of(threads: &[Thread]) -> [usize; PINNING.len()] {
    let mut states = [0; PINNING.len()];
    for thread in threads.iter().filter(|thread| matches!(thread.kind, ThreadKind::Worker(_))) {
        let state = match thread.pinning {
            Pinning::NotAsked => 0,
            Pinning::Applied(_) => 1,
            Pinning::Denied(_) => 2,
            Pinning::Unsupported => 3,
        };
        states[state] += 1;
    }
    states
}
