//! [`Transaction`]: what a job may do between `BEGIN` and `COMMIT`.

use std::fmt;

use ::postgres::types::ToSql;
use ::postgres::{Client, Error, Row, Statement, ToStatement};

use crate::compartment::Context;

/// An open transaction. Ended by [`Database::transaction`](super::Database::transaction), not by the
/// job: so it has no `commit`.
pub struct Transaction<'a>(&'a mut Client);

impl Transaction<'_> {
    pub(super) fn run<F, T, E>(client: &mut Client, context: &Context<'_>, job: F) -> Result<T, E>
    where
        F: FnOnce(&mut Transaction<'_>, &Context<'_>) -> Result<T, E>,
        E: From<Error>,
    {
        let begin = match context.remaining() {
            // Zero would mean none.
            Some(left) => {
                let millis = left.as_millis().clamp(1, i32::MAX as u128);
                format!("BEGIN; SET LOCAL statement_timeout = {millis}")
            }
            None => "BEGIN".to_owned(),
        };
        client.batch_execute(&begin)?;
        // A panic passes by: the pool closes the connection, and the server rolls back.
        let value = job(&mut Transaction(client), context);
        if value.is_err() {
            // If this fails too the connection is spoilt and gets closed, which also rolls back.
            let _ = client.batch_execute("ROLLBACK");
            return value;
        }
        client.batch_execute("COMMIT")?;
        value
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
        self.0.execute(query, params)
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
        self.0.query(query, params)
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
        self.0.query_one(query, params)
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
        self.0.query_opt(query, params)
    }

    /// See [`Client::prepare`].
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn prepare(&mut self, query: &str) -> Result<Statement, Error> {
        self.0.prepare(query)
    }

    /// See [`Client::batch_execute`].
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn batch_execute(&mut self, query: &str) -> Result<(), Error> {
        self.0.batch_execute(query)
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}
