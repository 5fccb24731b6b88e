//! The jobs, which count themselves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Failure;

static DONE: AtomicU64 = AtomicU64::new(0);

/// Says that a job has run.
pub(crate) fn done() {
    DONE.fetch_add(1, Ordering::Relaxed);
}

/// The empty job: it says that it has run, and returns what it was given.
///
/// It carries a word, since a closure that carries nothing takes no memory when it is boxed, and in
/// real use there is none.
pub(crate) fn empty(word: u64) -> impl FnOnce() -> u64 + Send + 'static {
    move || {
        done();
        word
    }
}

/// What a caller does with the value of an empty job.
pub(crate) fn expect(word: u64, value: u64) -> Result<(), Failure> {
    if value == word {
        Ok(())
    } else {
        Err(format!("a job that was to return {word} has returned {value}").into())
    }
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
        let four = |_: &dyn Fn() -> u64| {
            (0..3).for_each(|word| expect(word, empty(word)()).unwrap());
            assert!(expect(1, empty(2)()).is_err());
            Ok(())
        };
        assert!(checked(4, four).is_ok());
        let error = checked(3, four).unwrap_err().to_string();
        assert_eq!(error, "claims to have run 3 jobs and has run 4");
        // Nine are late, not lost.
        let late = checked(9, |_| {
            Ok(thread::spawn(|| {
                thread::sleep(Duration::from_millis(20));
                (0..9).for_each(|_| done());
            }))
        });
        assert!(late.is_ok());
    }
}
