//! [`Transaction`]: what a job may do between `BEGIN` and `COMMIT`.

use std::fmt;

use ::postgres::error::SqlState;
use ::postgres::types::ToSql;
use ::postgres::{Client, Error, Row, Statement, ToStatement};

use super::conflict::{TransactionOptions, is_conflict};
use crate::compartment::Context;

/// An open transaction. Ended by [`Database::transaction`](super::Database::transaction), not by the
/// job: so it has no `commit`.
pub struct Transaction<'a> {
    client: &'a mut Client,
    state: State,
    /// A statement has failed at some time. That it was taken back is for the server to say: it also
    /// takes an empty statement in a transaction that has failed.
    in_doubt: bool,
}

/// What the server has said about the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Sound,
    /// A statement has failed: everything but a rollback is refused.
    Failed,
    /// Because of another transaction.
    Lost,
}

/// How an attempt at a transaction failed.
pub(super) struct Failed<E> {
    pub(super) cause: E,
    /// It was another transaction's doing, and nothing is left of this one.
    pub(super) conflict: bool,
}

impl Transaction<'_> {
    /// Makes one attempt. A panic of `job` passes by: the pool closes the connection, and the server
    /// rolls back.
    pub(super) fn run<F, T, E>(
        client: &mut Client,
        context: &Context<'_>,
        options: TransactionOptions,
        job: F,
    ) -> Result<T, Failed<E>>
    where
        F: FnOnce(&mut Transaction<'_>, &Context<'_>) -> Result<T, E>,
        E: From<Error>,
    {
        let begun = client.batch_execute(&options.begin(context.remaining()));
        begun.map_err(|error| Failed { cause: error.into(), conflict: false })?;
        let mut transaction = Transaction { client, state: State::Sound, in_doubt: false };
        let value = job(&mut transaction, context);
        let Transaction { client, state, in_doubt } = transaction;
        let lost = state == State::Lost;
        let failed = match value {
            Ok(value) => {
                // If the job has passed over an error of the server's, that would answer `COMMIT` with
                // a rollback and call it a success. To anything else it says that all is lost.
                let sound = if in_doubt { client.batch_execute("SELECT 1") } else { Ok(()) };
                match sound.and_then(|()| client.batch_execute("COMMIT")) {
                    Ok(()) => return Ok(value),
                    Err(error) => {
                        Failed { conflict: lost || is_conflict(&error), cause: error.into() }
                    }
                }
            }
            Err(cause) => Failed { cause, conflict: lost },
        };
        // If this fails too the connection is spoilt and gets closed, which also rolls back.
        let _ = client.batch_execute("ROLLBACK");
        Err(failed)
    }

    /// Follows what the server thinks of the transaction.
    fn notice<T>(&mut self, answer: Result<T, Error>) -> Result<T, Error> {
        self.state = match &answer {
            // Next to nothing but a return to a savepoint succeeds in a failed transaction, and that
            // makes it sound.
            Ok(_) => State::Sound,
            Err(error) if is_conflict(error) => State::Lost,
            // That it has failed before.
            Err(error) if error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION) => self.state,
            Err(error) if error.code().is_some() => State::Failed,
            // The client's own, such as of a row that is not there: to the server all is well.
            Err(_) => self.state,
        };
        self.in_doubt |= self.state != State::Sound;
        answer
    }

    /// See [`Client::execute`].
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn execute<S>(&mut self, query: &S, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error>
    where
        S: ?Sized + ToStatement,
    {
        let answer = self.client.execute(query, params);
        self.notice(answer)
    }

    /// See [`Client::query`].
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn query<S>(&mut self, query: &S, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error>
    where
        S: ?Sized + ToStatement,
    {
        let answer = self.client.query(query, params);
        self.notice(answer)
    }

    /// See [`Client::query_one`].
    ///
    /// # Errors
    ///
    /// What the server says, or that there was not exactly one row.
    pub fn query_one<S>(&mut self, query: &S, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Error>
    where
        S: ?Sized + ToStatement,
    {
        let answer = self.client.query_one(query, params);
        self.notice(answer)
    }

    /// See [`Client::query_opt`].
    ///
    /// # Errors
    ///
    /// What the server says, or that there was more than one row.
    pub fn query_opt<S>(
        &mut self,
        query: &S,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error>
    where
        S: ?Sized + ToStatement,
    {
        let answer = self.client.query_opt(query, params);
        self.notice(answer)
    }

    /// See [`Client::prepare`].
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn prepare(&mut self, query: &str) -> Result<Statement, Error> {
        let answer = self.client.prepare(query);
        self.notice(answer)
    }

    /// See [`Client::batch_execute`].
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn batch_execute(&mut self, query: &str) -> Result<(), Error> {
        let answer = self.client.batch_execute(query);
        self.notice(answer)
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}
