//! Numbers and flags that leave the crate, and that nothing inside it decides by.
//!
//! They are the standard library's atomics in every build: a model gains nothing from exploring the
//! interleavings of a number that no branch reads.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// A number for export.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    pub(crate) const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    pub(crate) fn add(&self, more: u64) {
        // ORDERING: Relaxed is enough, as for every access of this type: nothing is decided by it.
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A flag that is raised once and stays up.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    pub(crate) fn raise(&self) {
        // ORDERING: Release, so that whoever sees the flag also sees what its raiser wrote before.
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_up(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

const STRIPES: usize = 8;

thread_local! {
    /// Which stripe this thread counts on: dealt in turn, so that few threads share one.
    static STRIPE: Cell<Option<usize>> = const { Cell::new(None) };
}

#[inline]
fn stripe() -> usize {
    STRIPE
        .try_with(|cell| {
            cell.get().unwrap_or_else(|| {
                let dealt = usize::try_from(next_id()).unwrap_or(0) % STRIPES;
                cell.set(Some(dealt));
                dealt
            })
        })
        // A thread that is being torn down has lost its stripe; any will do.
        .unwrap_or(0)
}

/// `N` counters that many threads bump at once without sharing a cache line, summed when read.
#[derive(Debug)]
pub(crate) struct Stripes<const N: usize>(Box<[CachePadded<[Tally; N]>; STRIPES]>);

impl<const N: usize> Stripes<N> {
    pub(crate) fn new() -> Self {
        Self(Box::new(std::array::from_fn(|_| {
            CachePadded::new(std::array::from_fn(|_| Tally::new(0)))
        })))
    }

    #[inline]
    pub(crate) fn bump(&self, index: usize) {
        self.0[stripe()][index].add(1);
    }

    pub(crate) fn sum(&self, index: usize) -> u64 {
        self.0.iter().map(|stripe| stripe[index].get()).sum()
    }
}

/// Makes a value `Sync` by never lending it: boxed errors are expected to be `Sync`, and a panic's
/// payload is not.
#[derive(Debug)]
pub(crate) struct Exclusive<T>(std::sync::Mutex<T>);

impl<T> Exclusive<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        // It is never locked, so it cannot be poisoned.
        self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A number that no other call in this process has returned.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // ORDERING: Relaxed is enough: the numbers only have to differ.
    NEXT.fetch_add(1, Ordering::Relaxed)
}
