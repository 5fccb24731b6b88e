//! The jobs, which count themselves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Failure;

static DONE: AtomicU64 = AtomicU64::new(0);

/// The empty job: it only says that it has run.
pub(crate) fn empty() -> u64 {
    DONE.fetch_add(1, Ordering::Relaxed) | 1
}

/// Does `work`, which claims to have run that many jobs, and fails if it has not.
///
/// Jobs that nobody waits for are given ten seconds.
pub(crate) fn checked<T>(
    claimed: u64,
    work: impl FnOnce(&dyn Fn() -> u64) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let before = DONE.load(Ordering::Relaxed);
    let done = move || DONE.load(Ordering::Relaxed) - before;
    let result = work(&done)?;
    let until = Instant::now() + Duration::from_secs(10);
    while done() < claimed && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    match done() {
        ran if ran == claimed => Ok(result),
        ran => Err(format!("claims to have run {claimed} jobs and has run {ran}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since the count is the process's.
    #[test]
    fn whoever_does_less_or_more_than_it_claims_is_found_out() {
        let three = |_: &dyn Fn() -> u64| {
            (0..3).for_each(|_| assert!(empty() > 0));
            Ok(())
        };
        assert!(checked(3, three).is_ok());
        let error = checked(2, three).unwrap_err().to_string();
        assert_eq!(error, "claims to have run 2 jobs and has run 3");
        // Nine are late, not lost.
        let late = checked(9, |_| {
            Ok(thread::spawn(|| {
                thread::sleep(Duration::from_millis(20));
                (0..9).for_each(|_| assert!(empty() > 0));
            }))
        });
        assert!(late.is_ok());
    }
}
