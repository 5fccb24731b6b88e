//! [`check`]: before traffic, whether the servers have connections enough for all bulkheads.

use std::error;
use std::fmt;
use std::time::Duration;

use ::postgres::{Client, Error};

use super::database::Database;
use crate::error::CallError;
use crate::integrations::r2d2::ConnectionError;
use crate::time::Deadline;

/// How long one database may take to answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Says which server has answered, by what no other has, and how many connections it accepts.
const ASK: &str = "\
    select pg_postmaster_start_time()::text || ' ' || current_setting('port'), \
           current_setting('max_connections')::int8, \
           current_setting('superuser_reserved_connections')::int8 \
               + coalesce(current_setting('reserved_connections', true), '0')::int8, \
           (select count(*) from pg_stat_activity where backend_type = 'client backend')";

/// Asks each server how many connections it accepts, and compares that with the sum of what the
/// databases on it may open: one for each thread of their bulkheads.
///
/// Call it after everything is built and before there is traffic: a server that is short of connections
/// refuses them at the worst time, when all bulkheads are busy. Two databases are on one server if the
/// server says so, whatever they call it. What `superuser_reserved_connections` and
/// `reserved_connections` set aside does not count.
///
/// It takes one call to each database, of at most five seconds, one after the other. Connections of
/// other processes, such as a second instance of the service, are not in the sum;
/// [`in_use`](ServerPlan::in_use) tells how many there are. A connection that a deadline has cut off is
/// closed after the next one is opened, so leave some room.
///
/// ```no_run
/// # use watertight::postgres::{self, Database};
/// # fn start(orders: &Database, reports: &Database) -> Result<(), Box<dyn std::error::Error>> {
/// for plan in postgres::check([orders, reports])? {
///     println!("{plan}");
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`CheckError`], for the first server that accepts fewer than are planned, with all bulkheads that
/// share it; or for the first database that did not answer.
pub fn check<'a>(
    databases: impl IntoIterator<Item = &'a Database>,
) -> Result<Vec<ServerPlan>, CheckError> {
    let mut plans: Vec<ServerPlan> = Vec::new();
    let mut seen = Vec::new();
    for database in databases {
        if seen.contains(&database.id()) {
            continue;
        }
        seen.push(database.id());
        let plan = ServerPlan::ask(database)?;
        match plans.iter_mut().find(|other| other.who == plan.who) {
            Some(other) => other.bulkheads.extend(plan.bulkheads),
            None => plans.push(plan),
        }
    }
    for plan in &plans {
        plan.fits()?;
    }
    Ok(plans)
}

/// What the bulkheads of this process want of one server, and what it has.
#[derive(Debug, Clone)]
pub struct ServerPlan {
    who: String,
    address: String,
    bulkheads: Vec<(String, usize)>,
    limit: usize,
    in_use: usize,
}

impl ServerPlan {
    /// The plan for one database alone, if the server has room for it.
    pub(super) fn of(database: &Database) -> Result<Self, CheckError> {
        let plan = Self::ask(database)?;
        plan.fits()?;
        Ok(plan)
    }

    fn ask(database: &Database) -> Result<Self, CheckError> {
        let name = database.bulkhead().name();
        let failed = |cause| CheckError(CheckErrorKind::NoAnswer(name.to_owned(), cause));
        let asked = database.call_until(Deadline::after(LIMIT), |client, _| ask(client));
        let (who, most, reserved, in_use) = asked
            .map_err(|error| failed(Cause::Call(error)))?
            .map_err(|error| failed(Cause::Server(error)))?;
        let number = |number: i64| usize::try_from(number).unwrap_or(0);
        Ok(Self {
            who,
            address: database.server().to_owned(),
            bulkheads: vec![(name.to_owned(), database.bulkhead().snapshot().threads)],
            limit: number(most - reserved),
            in_use: number(in_use),
        })
    }

    fn fits(&self) -> Result<(), CheckError> {
        if self.planned() > self.limit {
            return Err(CheckError(CheckErrorKind::TooMany(self.clone())));
        }
        Ok(())
    }

    /// The server's address, as the first database on it has it.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The bulkheads on it, and how many connections each may open.
    #[must_use]
    pub fn bulkheads(&self) -> &[(String, usize)] {
        &self.bulkheads
    }

    /// The sum of these.
    #[must_use]
    pub fn planned(&self) -> usize {
        self.bulkheads.iter().map(|(_, connections)| connections).sum()
    }

    /// How many connections the server accepts: its `max_connections`, less those that it reserves.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// How many connections it had when it was asked, those of this process and of others.
    #[must_use]
    pub const fn in_use(&self) -> usize {
        self.in_use
    }
}

fn ask(client: &mut Client) -> Result<(String, i64, i64, i64), Error> {
    let row = client.query_one(ASK, &[])?;
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?))
}

impl fmt::Display for ServerPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who: _, address, bulkheads, limit, in_use } = self;
        let names: Vec<_> = bulkheads.iter().map(|(name, n)| format!("`{name}` ({n})")).collect();
        let (names, planned) = (names.join(", "), self.planned());
        write!(
            f,
            "{planned} connections to the server at {address} are planned, by {names}; it accepts \
             {limit}, and has {in_use} now"
        )
    }
}

/// Why traffic should not begin. From [`check`].
#[derive(Debug)]
pub struct CheckError(CheckErrorKind);

#[derive(Debug)]
enum CheckErrorKind {
    TooMany(ServerPlan),
    NoAnswer(String, Cause),
}

#[derive(Debug)]
enum Cause {
    Call(CallError<ConnectionError>),
    Server(Error),
}

impl CheckError {
    /// The plan of the server that has too few connections; `None` if a database did not answer.
    #[must_use]
    pub const fn plan(&self) -> Option<&ServerPlan> {
        match &self.0 {
            CheckErrorKind::TooMany(plan) => Some(plan),
            CheckErrorKind::NoAnswer(..) => None,
        }
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            CheckErrorKind::TooMany(plan) => write!(
                f,
                "{plan}: give a bulkhead fewer `threads`, or the server more `max_connections`"
            ),
            CheckErrorKind::NoAnswer(bulkhead, _) => write!(
                f,
                "bulkhead `{bulkhead}` could not ask its database how many connections it accepts"
            ),
        }
    }
}

impl error::Error for CheckError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.0 {
            CheckErrorKind::TooMany(_) => None,
            CheckErrorKind::NoAnswer(_, Cause::Call(error)) => Some(error),
            CheckErrorKind::NoAnswer(_, Cause::Server(error)) => Some(error),
        }
    }
}
