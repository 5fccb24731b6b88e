//! Which pool's connection the job on this thread holds: asking for a second one is refused.

use std::cell::Cell;

use crate::sync::thread_local;

thread_local! {
    // A thread runs one job at a time, and a job gets one connection.
    static HELD: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Marks that this thread holds a connection of `pool` until the guard goes.
pub(super) fn hold(pool: u64) -> Holding {
    HELD.with(|held| held.set(Some(pool)));
    Holding(())
}

/// Whether this thread holds a connection of `pool`. One that is being torn down holds none.
pub(super) fn is_held_here(pool: u64) -> bool {
    HELD.try_with(Cell::get).is_ok_and(|held| held == Some(pool))
}

pub(super) struct Holding(());

impl Drop for Holding {
    fn drop(&mut self) {
        let _ = HELD.try_with(|held| held.set(None));
    }
}
