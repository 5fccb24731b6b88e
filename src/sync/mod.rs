//! Threads, locks and atomics: the only door to them for the rest of the crate.
//!
//! Floor 0. It imports nothing of ours. Ordinary builds get [`real`], the loom models get `model`,
//! the random schedules `random`; all offer the same names, so that the code that ships is the code
//! that is checked.
//!
//! Two kinds of `Arc` leave this module on purpose. [`Arc`] is always the standard library's: job
//! cells and user-supplied trait objects live in it, because loom's cannot hold a trait object.
//! [`OwnerArc`] is the one that loom watches: it holds what is shared for the life of a runtime, so
//! that a model reports it when it leaks.

mod count;
mod kept;
#[cfg(all(test, watertight_loom))]
mod model;
#[cfg(all(test, watertight_shuttle))]
mod random;
#[cfg(not(all(test, any(watertight_loom, watertight_shuttle))))]
mod real;

#[cfg(all(test, watertight_loom))]
use self::model as platform;
#[cfg(all(test, watertight_shuttle))]
use self::random as platform;
#[cfg(not(all(test, any(watertight_loom, watertight_shuttle))))]
use self::real as platform;

pub(crate) use self::count::{Exclusive, Flag, Stripes, Tally, next_id};
pub(crate) use self::kept::Kept;
#[cfg(all(test, watertight_loom))]
pub(crate) use self::model::{Time, set_time};
#[cfg(all(feature = "r2d2", not(watertight_loom)))]
pub(crate) use self::platform::when_thread_ends;
pub(crate) use self::platform::{
    AtomicU64, Condvar, Mutex, MutexGuard, OwnerArc, ThreadHandle, ThreadSpec, current_tid, spawn,
    spin_until, thread_local,
};
pub(crate) use std::sync::atomic::Ordering;
pub(crate) use std::sync::{Arc, Weak};
