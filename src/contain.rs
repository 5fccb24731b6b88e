//! Panics of user code, stopped where they would hurt a stranger.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs user code that nobody waits for: a destructor, a hook, a waker. Says whether it panicked.
///
/// `AssertUnwindSafe` is right for such code: after a panic nothing of ours has been half-changed,
/// because no lock is held and no borrowed state is shared with it.
pub(crate) fn contain(user_code: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(user_code)) {
        Ok(()) => false,
        Err(payload) => {
            drop_payload(payload);
            true
        }
    }
}

/// The payload of a panic is user data as well, whose destructor may panic in turn, with a payload.
fn drop_payload(mut payload: Box<dyn Any + Send>) {
    for _ in 0..MOST_PAYLOADS {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    // There would be no end to it; so this one is leaked.
    std::mem::forget(payload);
}

/// Far more than anybody nests who does not do it on purpose.
const MOST_PAYLOADS: usize = 8;

/// Drops user data whose owner is gone. Says whether the destructor panicked.
pub(crate) fn drop_contained<T>(value: T) -> bool {
    contain(|| drop(value))
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    struct Bomb(u32);

    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 > 0 {
                std::panic::resume_unwind(Box::new(Bomb(self.0 - 1)));
            }
        }
    }

    #[test]
    fn a_payload_that_panics_when_dropped_goes_no_further() {
        assert!(drop_contained(Bomb(3)));
        assert!(drop_contained(Bomb(30)), "and one without end is leaked");
        assert!(!drop_contained(Bomb(0)));
    }
}
