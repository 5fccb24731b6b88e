//! Shows two bulkheads on one PostgreSQL database: people who wait, and a batch that has all night. The
//! batch is flooded, and the people do not notice.
//!
//! Run it: `cargo run --example postgres_pool --features postgres`. It uses the database of the variable
//! `DATABASE_URL`, or else starts a throwaway server of its own, from the programs that are installed.
//! You will see how long the people's queries take while the batch is idle and while it is flooded, what
//! became of the batch's jobs, and whose connections the server has. It takes about five seconds.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use watertight::postgres::{self, Config, Database, Error};
use watertight::{Bulkhead, Rejected, Runtime};

#[path = "../tests/it/server.rs"]
mod server;

use server::{MISSING, Server};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<ExitCode, Failure> {
    // The server lives as long as it is needed.
    let Some((_server, config)) = database()? else {
        eprintln!("\n**** {MISSING}, or name a database with DATABASE_URL.\n");
        let in_ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty());
        return Ok(if in_ci { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    };
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("people").threads(4))
        .bulkhead(Bulkhead::builder("batch").threads(2).queue(40).no_deadline())
        .build()?;
    let people = Database::builder(config.clone()).build(&runtime.bulkhead("people")?)?;
    let batch = Database::builder(config).build(&runtime.bulkhead("batch")?)?;
    for plan in postgres::check([&people, &batch])? {
        println!("{plan}.\n");
    }

    println!("{:<28}{}", "people, the batch idle:", Latency::of(&people)?);
    // 300 jobs of 100 ms come at once for two threads.
    let flood: Vec<_> = (0..300)
        .map(|_| batch.submit(|client, _| client.batch_execute("select pg_sleep(0.1)")))
        .collect();
    println!("{:<28}{}", "people, the batch flooded:", Latency::of(&people)?);

    println!("\n{}", runtime.bulkhead("people")?.snapshot());
    println!("{}", runtime.bulkhead("batch")?.snapshot());
    // The server knows them apart, since each connection bears its bulkhead's name.
    let connections = people.call(|client, _| -> Result<Vec<(String, i64)>, Error> {
        let query = "select application_name, count(*) from pg_stat_activity \
                     where application_name = any($1) group by 1 order by 1";
        let rows = client.query(query, &[&&["people", "batch"][..]])?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    })??;
    println!("\nconnections, as the server counts them: {connections:?}");
    let refused = flood.into_iter().filter_map(Result::err).map(Rejected::forget).next();
    if let Some(refused) = refused {
        println!("the batch was told: {refused}");
    }
    println!("\n{}", runtime.shutdown(Duration::from_secs(2))?);
    Ok(ExitCode::SUCCESS)
}

fn database() -> Result<Option<(Option<Server>, Config)>, Failure> {
    match std::env::var("DATABASE_URL") {
        Ok(url) if !url.is_empty() => Ok(Some((None, url.parse()?))),
        _ => Ok(Server::start(&[], &[]).map(|server| {
            let config = server.config();
            (Some(server), config)
        })),
    }
}

/// How long the people's queries took.
struct Latency(Vec<Duration>);

impl Latency {
    /// One query every 5 ms, from one thread, for about a second and a half.
    fn of(database: &Database) -> Result<Self, Failure> {
        let mut took = Vec::new();
        for number in 0..300_i32 {
            let start = Instant::now();
            let doubled = database.call(move |client, _| -> Result<i32, Error> {
                client.query_one("select 2 * $1::int4", &[&number])?.try_get(0)
            })??;
            took.push(start.elapsed());
            assert_eq!(doubled, 2 * number);
            thread::sleep(Duration::from_millis(5).saturating_sub(start.elapsed()));
        }
        took.sort();
        Ok(Self(took))
    }
}

impl std::fmt::Display for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |percent: usize| self.0[self.0.len() * percent / 100];
        write!(f, "p50 {:>8.1?}   p99 {:>8.1?}", at(50), at(99))
    }
}
