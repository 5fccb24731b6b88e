//! [`Kept`]: values that stay for as long as the process does.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A set that only grows. What it holds can be pointed at from everywhere, for nothing.
///
/// It uses the standard library's lock in every build: nothing waits for anything but the lock itself,
/// and a model cannot have a value that outlives it.
#[derive(Debug)]
pub(crate) struct Kept<T: 'static>(Mutex<BTreeSet<&'static T>>);

impl<T: Ord + Send + Sync> Kept<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    /// `value`, or its equal that is there already.
    pub(crate) fn keep(&self, value: T) -> &'static T {
        // Poison means that a comparison panicked, which leaves a set that is whole.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(equal) = kept.get(&value) {
            return equal;
        }
        let value: &'static T = Box::leak(Box::new(value));
        kept.insert(value);
        value
    }
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_kept_once() {
        static KEPT: Kept<String> = Kept::new();
        let first = KEPT.keep("db".into());
        assert!(std::ptr::eq(first, KEPT.keep("db".into())));
        assert_eq!(KEPT.keep("http".into()), "http");
    }
}
