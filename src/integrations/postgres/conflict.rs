//! Transactions that lose to another one, and are run again.
//!
//! At once, and on the same connection: a pause would hold the worker, and the transaction that won has
//! ended by then, so that a fresh snapshot sees it.

use std::error;
use std::fmt;
use std::time::Duration;

use ::postgres::error::SqlState;
use ::postgres::{Client, Error, IsolationLevel};

use super::transaction::{Failed, Transaction};
use crate::compartment::Context;
use crate::sync::Tally;

/// How much before the call's deadline the server ends a statement, if that is long away: so that its
/// word arrives in time, and the connection need not be cut off. A server that is slow would otherwise
/// have to open a new one for each late call.
const EARLIER: Duration = Duration::from_millis(25);

/// How a transaction is begun, and how often. For
/// [`Database::transaction_with`](super::Database::transaction_with).
///
/// ```
/// use watertight::postgres::{IsolationLevel, TransactionOptions};
///
/// let careful = TransactionOptions::new().isolation(IsolationLevel::Serializable).attempts(5);
/// # let _ = careful;
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use = "options do nothing until a transaction is begun with them"]
pub struct TransactionOptions {
    isolation: Option<IsolationLevel>,
    read_only: bool,
    attempts: u32,
}

impl TransactionOptions {
    /// The server's own defaults, and one attempt.
    pub const fn new() -> Self {
        Self { isolation: None, read_only: false, attempts: 1 }
    }

    /// How far the transaction is kept apart from others. Defaults to what the server is set to, which
    /// is `READ COMMITTED` unless somebody has changed it.
    pub const fn isolation(mut self, level: IsolationLevel) -> Self {
        self.isolation = Some(level);
        self
    }

    /// Lets the server refuse every change. Defaults to what the server is set to.
    pub const fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// How often the transaction is attempted at most, if it loses to another one each time
    /// (SQLSTATE 40001, a serialization failure, or 40P01, a deadlock). No other error is tried again.
    ///
    /// The next attempt comes at once, on the same connection and within the call's deadline: a pause
    /// would hold the worker, and the transaction that has won is over. Defaults to 1, since the job is
    /// run again from its start: it must do nothing but the transaction, or what may be done twice. 0
    /// is the same as 1.
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The first statements, in one round trip.
    pub(super) fn begin(self, remaining: Option<Duration>) -> String {
        let isolation = match self.isolation {
            None => "",
            Some(IsolationLevel::ReadUncommitted) => " ISOLATION LEVEL READ UNCOMMITTED",
            Some(IsolationLevel::ReadCommitted) => " ISOLATION LEVEL READ COMMITTED",
            Some(IsolationLevel::RepeatableRead) => " ISOLATION LEVEL REPEATABLE READ",
            // The strictest, also for one that the client may come to know later.
            Some(_) => " ISOLATION LEVEL SERIALIZABLE",
        };
        let access = if self.read_only { " READ ONLY" } else { "" };
        match remaining {
            Some(left) => {
                let left = left.saturating_sub(EARLIER.min(left / 8));
                // Zero would mean none.
                let millis = left.as_millis().clamp(1, i32::MAX as u128);
                format!("BEGIN{isolation}{access}; SET LOCAL statement_timeout = {millis}")
            }
            None => format!("BEGIN{isolation}{access}"),
        }
    }

    /// Runs the transaction until it is through, fails otherwise, or has lost often enough.
    pub(super) fn run<F, T, E>(
        self,
        client: &mut Client,
        context: &Context<'_>,
        retries: &Tally,
        mut job: F,
    ) -> Result<T, TransactionError<E>>
    where
        F: FnMut(&mut Transaction<'_>, &Context<'_>) -> Result<T, E>,
        E: From<Error>,
    {
        let mut attempts = 1;
        loop {
            let Failed { cause, conflict } = match Transaction::run(client, context, self, &mut job)
            {
                Ok(value) => return Ok(value),
                Err(failed) => failed,
            };
            if !conflict || attempts >= self.attempts || context.is_unwanted() {
                return Err(TransactionError { attempts, conflict, cause });
            }
            attempts += 1;
            retries.add(1);
        }
    }
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether the server has ended a transaction in favour of another one.
pub(super) fn is_conflict(error: &Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
        || code == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}

/// A transaction that [`Database::transaction_with`](super::Database::transaction_with) has given up.
/// Nothing of it was committed, unless the connection broke during `COMMIT`.
#[derive(Debug)]
pub struct TransactionError<E> {
    attempts: u32,
    conflict: bool,
    cause: E,
}

impl<E> TransactionError<E> {
    /// How often the job was run, or was to be run: at least 1.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether the last attempt lost to another transaction. Then it may be tried again later.
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        self.conflict
    }

    /// The error of the last attempt: the job's own, or the server's about `BEGIN` and `COMMIT`.
    #[must_use]
    pub const fn cause(&self) -> &E {
        &self.cause
    }

    /// The error of the last attempt.
    #[must_use]
    pub fn into_cause(self) -> E {
        self.cause
    }
}

impl<E> fmt::Display for TransactionError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts, conflict, cause: _ } = self;
        let how = if *conflict { ", each of which lost to another transaction" } else { "" };
        match attempts {
            1 if *conflict => {
                f.write_str("the transaction lost to another one in its only attempt")
            }
            1 => f.write_str("the transaction failed in its first attempt"),
            _ => write!(f, "the transaction failed after {attempts} attempts{how}"),
        }
    }
}

impl<E: error::Error + 'static> error::Error for TransactionError<E> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.cause)
    }
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_begins_as_its_options_say() {
        let options = TransactionOptions::new();
        assert_eq!(options.begin(None), "BEGIN");
        let careful = options.isolation(IsolationLevel::Serializable).read_only();
        assert_eq!(careful.begin(None), "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY");
        let late = options.begin(Some(Duration::ZERO));
        assert_eq!(late, "BEGIN; SET LOCAL statement_timeout = 1");
        let usual = options.begin(Some(Duration::from_secs(1)));
        assert_eq!(usual, "BEGIN; SET LOCAL statement_timeout = 975");
        let ages = options.begin(Some(Duration::MAX));
        assert_eq!(ages, "BEGIN; SET LOCAL statement_timeout = 2147483647");
    }
}
