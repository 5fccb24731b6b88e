//! PostgreSQL: a real server, and servers that only accept.

mod conflicts;
mod hung;
mod planning;
mod sessions;
mod tls;

use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use watertight::postgres::client::NoTls;
use watertight::postgres::{Client, Config, Database, DatabaseBuilder, Error, Fault, Transaction};
use watertight::r2d2::ConnectionErrorKind;
use watertight::{Bulkhead, CallError, Context, Deadline, Runtime};

use crate::server::{MISSING, Server};
use crate::support::{Gate, WATCHDOG, eventually, within};

/// A server of this process alone, that a test may do anything to. `None`, with a loud word, where there
/// are no programs for one; in CI that fails.
pub(crate) fn throwaway() -> Option<Config> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    SERVER.get_or_init(|| start(&[], &[])).as_ref().map(Server::config)
}

fn start(settings: &[&str], files: &[(&str, &str)]) -> Option<Server> {
    let server = Server::start(settings, files);
    if server.is_none() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{MISSING}");
        eprintln!("**** {MISSING}. This test is left out.");
    }
    server
}

/// The server of the variable `DATABASE_URL`, if it is set; otherwise a throwaway one. A test leaves
/// nothing there, and stops and ends nothing but its own connections.
fn postgres() -> Option<Config> {
    let Some(url) = std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty()) else {
        return throwaway();
    };
    Some(url.parse().unwrap_or_else(|error| panic!("DATABASE_URL is not understood: {error}")))
}

fn build(threads: usize, config: Config) -> (Runtime, Bulkhead, Database) {
    build_with(threads, Database::builder(config))
}

fn build_with(threads: usize, database: DatabaseBuilder) -> (Runtime, Bulkhead, Database) {
    // A name of its own, so that the server can tell whose connections it has.
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::SeqCst));
    let name = format!("pg{process}-{number}");
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder(&*name).threads(threads).no_deadline())
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead(&name).unwrap();
    let database = database.build(&bulkhead).unwrap();
    (runtime, bulkhead, database)
}

/// A table that nobody else has, gone after the test.
struct Table {
    name: String,
    client: Client,
}

impl Table {
    fn new(config: &Config, columns: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::SeqCst));
        let name = format!("watertight_test_{process}_{number}");
        let mut client = config.connect(NoTls).unwrap();
        client.batch_execute(&format!("create table {name} ({columns})")).unwrap();
        Self { name, client }
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let dropped = self.client.batch_execute(&format!("drop table {}", self.name));
        assert!(dropped.is_ok() || thread::panicking(), "{dropped:?}");
    }
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_millis(150))
}

/// What the server knows of this bulkhead's connections, by a look from outside.
fn seen(config: &Config, what: &str, bulkhead: &Bulkhead) -> i64 {
    let mut client = config.connect(NoTls).unwrap();
    let query = format!("select count(*) from pg_stat_activity where application_name = $1 {what}");
    client.query_one(&query, &[&bulkhead.name()]).unwrap().get(0)
}

fn backend(database: &Database) -> i32 {
    let pid = database.call(|client, _| -> Result<i32, Error> {
        Ok(client.query_one("select pg_backend_pid()", &[])?.get(0))
    });
    pid.unwrap().unwrap()
}

#[test]
fn a_job_receives_a_client_and_the_server_sees_the_bulkhead_s_name() {
    let Some(config) = postgres() else { return };
    let (runtime, bulkhead, database) = build(2, config.clone());
    for number in 0..20_i32 {
        let doubled = database.call(move |client, _| -> Result<i32, Error> {
            Ok(client.query_one("select 2 * $1::int4", &[&number])?.get(0))
        });
        assert_eq!(doubled.unwrap().unwrap(), 2 * number);
    }
    let connections = seen(&config, "", &bulkhead);
    assert!((1..=2).contains(&connections), "{connections} connections for two threads");
    assert!(runtime.shutdown(WATCHDOG).unwrap().is_clean());
    eventually("the server has none left", || seen(&config, "", &bulkhead) == 0);
}

#[test]
fn a_server_that_accepts_and_is_silent_costs_its_callers_their_deadline_and_no_thread() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = Config::new();
    config.host("127.0.0.1").port(silent.local_addr().unwrap().port()).user("nobody");
    let (runtime, bulkhead, database) = build(2, config);
    for _ in 0..4 {
        let caller = database.clone();
        let error = within("a caller", move || caller.call_until(soon(), |_, _| ()).unwrap_err());
        // At the deadline itself either side may be the first to say so.
        let late = matches!(error, CallError::TimedOut(_) | CallError::Failed(_));
        assert!(late || error.never_started(), "{error:?}");
        eventually("its thread is free", || bulkhead.snapshot().running == 0);
    }
    assert!(within("shutdown", move || runtime.shutdown(WATCHDOG).unwrap()).stuck.is_empty());
}

#[test]
fn a_deadline_ends_a_query_here_and_at_the_server() {
    let Some(config) = postgres() else { return };
    let (_runtime, bulkhead, database) = build(1, config.clone());
    backend(&database);
    let caller = database.clone();
    let late = within("the caller", move || {
        caller.call_until(soon(), |client, _| client.batch_execute("select pg_sleep(60)"))
    });
    assert!(!matches!(late, Ok(Ok(()))), "{late:?}");
    eventually("the thread is free", || bulkhead.snapshot().running == 0);
    backend(&database);
    let sleeping = "and state = 'active' and query like '%pg_sleep%'";
    eventually("the server has stopped too", || seen(&config, sleeping, &bulkhead) == 0);
}

#[test]
fn a_shutdown_s_limit_ends_a_query() {
    let Some(config) = postgres() else { return };
    let (runtime, bulkhead, database) = build(1, config);
    let started = Gate::new();
    let inside = started.clone();
    started.open();
    let caller = thread::spawn(move || {
        database.call(move |client, _| {
            inside.pass();
            client.batch_execute("select pg_sleep(60)")
        })
    });
    started.wait_for(1);
    let report = within("shutdown", move || runtime.shutdown(Duration::from_millis(20)).unwrap());
    let told = within("the caller", move || caller.join().unwrap());
    assert!(matches!(told, Ok(Err(_))), "{told:?}, {report}");
    eventually("the thread is free", || bulkhead.snapshot().running == 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_process_that_is_stopped_holds_neither_caller_nor_thread() {
    let Some(config) = throwaway() else { return };
    let (_runtime, bulkhead, database) = build(1, config);
    let stopped = backend(&database);
    let signal = |name: &str| {
        let sent = std::process::Command::new("kill").args([name, &stopped.to_string()]).status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    let caller = database.clone();
    let late = within("the caller", move || {
        caller.call_until(soon(), |client, _| client.batch_execute("select 1"))
    });
    assert!(!matches!(late, Ok(Ok(()))), "{late:?}");
    eventually("the thread is free", || bulkhead.snapshot().running == 0);
    assert_ne!(within("the next", move || backend(&database)), stopped, "a connection of its own");
    signal("-CONT");
}

#[derive(Debug)]
enum Failure {
    Database,
    Mind,
}

impl From<Error> for Failure {
    fn from(_: Error) -> Self {
        Self::Database
    }
}

#[test]
fn a_transaction_commits_on_ok_and_rolls_back_on_err_and_panic() {
    let Some(config) = postgres() else { return };
    let (_runtime, _bulkhead, database) = build(1, config.clone());
    let table = Table::new(&config, "cents int4");
    let (insert, count) =
        (format!("insert into {table} values (990)"), format!("select count(*) from {table}"));
    let pay = move |tx: &mut Transaction<'_>| tx.execute(&*insert, &[]);
    let count = || {
        let count = count.clone();
        let count = database.call(move |client, _| -> Result<i64, Error> {
            Ok(client.query_one(&*count, &[])?.get(0))
        });
        count.unwrap().unwrap()
    };
    let first = pay.clone();
    let paid = database.transaction(move |tx, _| -> Result<u64, Failure> { Ok(first(tx)?) });
    assert_eq!(paid.unwrap().unwrap(), 1);
    assert_eq!(count(), 1);
    let second = pay.clone();
    let changed = database.transaction(move |tx, _| -> Result<(), Failure> {
        second(tx)?;
        Err(Failure::Mind)
    });
    assert!(matches!(changed.unwrap(), Err(Failure::Mind)));
    assert_eq!(count(), 1);
    let panicked = database.transaction(move |tx, _: &Context<'_>| -> Result<(), Failure> {
        pay(tx)?;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(matches!(panicked, Err(CallError::Panicked(_))));
    assert_eq!(count(), 1);

    // C80: begun by hand and left open.
    let open = format!("begin; insert into {table} values (1)");
    database.call(move |client, _| client.batch_execute(&open)).unwrap().unwrap();
    assert_eq!(count(), 1, "the next job sees nothing of it");
}

#[test]
fn a_transaction_s_statements_have_the_call_s_time_as_their_limit_and_no_others() {
    let Some(config) = postgres() else { return };
    let (_runtime, _bulkhead, database) = build(1, config);
    let before = backend(&database);
    let show = "select setting::int8 from pg_settings where name = 'statement_timeout'";
    let inside = database.transaction_until(Deadline::after(WATCHDOG), move |tx, _| {
        Ok::<i64, Error>(tx.query_one(show, &[])?.get(0))
    });
    let inside = inside.unwrap().unwrap();
    assert!((1..=i64::try_from(WATCHDOG.as_millis()).unwrap()).contains(&inside), "{inside} ms");
    let after = database
        .call(move |client, _| -> Result<i64, Error> { Ok(client.query_one(show, &[])?.get(0)) });
    assert_eq!(after.unwrap().unwrap(), 0);
    // Ended by a limit of the server's, a connection is as good as ever.
    let late = database.transaction(|tx, _| {
        tx.batch_execute("set local statement_timeout = 20; select pg_sleep(60)")
    });
    let late = late.unwrap().unwrap_err();
    assert_eq!(late.code().map(|code| code.code()), Some("57014"));
    assert_eq!(watertight::postgres::fault(&late), Fault::Overload { retry_after: None });
    assert_eq!(backend(&database), before);
}

#[test]
fn a_statement_that_is_late_is_ended_by_the_server_and_its_connection_is_kept() {
    let Some(config) = postgres() else { return };
    let (_runtime, _bulkhead, database) = build(1, config);
    // The server is ahead by some milliseconds, which a busy machine may take away.
    eventually("the server is first", || {
        let before = backend(&database);
        let deadline = Deadline::after(Duration::from_millis(500));
        let late =
            database.transaction_until(deadline, |tx, _| tx.batch_execute("select pg_sleep(60)"));
        let ended = matches!(&late, Ok(Err(error)) if error.code().is_some_and(|code| code.code() == "57014"));
        ended && backend(&database) == before
    });
}

/// How many rounds of a race to run; the variable `WATERTIGHT_ROUNDS` asks for more than usual.
fn rounds(usual: usize) -> usize {
    std::env::var("WATERTIGHT_ROUNDS").map_or(usual, |rounds| rounds.parse().unwrap())
}

#[test]
fn a_late_cancel_never_hits_another_job() {
    const CALLERS: usize = 4;
    let Some(config) = postgres() else { return };
    let (_runtime, _bulkhead, database) = build(CALLERS, config);
    let race = || {
        let database = database.clone();
        move || {
            let (mut cut_off, mut limit) = (0, Duration::from_millis(2));
            for round in 0..rounds(2_000) / CALLERS {
                let raced = database.call_until(Deadline::after(limit), |client, _| {
                    client.batch_execute("select pg_sleep(0.001)")
                });
                // The deadline hunts the end of the answer, however busy the machine is.
                if matches!(&raced, Ok(Ok(()))) {
                    limit = limit.mul_f64(0.8);
                } else {
                    limit = limit.mul_f64(1.25);
                    cut_off += 1;
                }
                // In no answer, be it its own, may there be a cancel: those are sent for connections
                // that nobody has any more.
                let next =
                    database.call(|client, _| client.batch_execute("select pg_sleep(0.0005)"));
                for answer in [raced, next.map_err(|error| panic!("{round}: {error}"))] {
                    if let Ok(Err(error)) = answer {
                        assert!(error.code().is_none(), "{round}: {error:?}");
                    }
                }
            }
            cut_off
        }
    };
    let callers: Vec<_> = (0..CALLERS).map(|_| thread::spawn(race())).collect();
    let cut_off: usize = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
    println!("{cut_off} of {} were cut off", rounds(2_000));
    assert!(cut_off > 0 && cut_off < rounds(2_000), "the deadlines raced with the answers");
}

#[test]
fn an_answer_that_is_not_read_to_its_end_costs_the_connection() {
    let Some(config) = postgres() else { return };
    let (_runtime, _bulkhead, database) = build(1, config);
    let before = backend(&database);
    let half = database.call(|client, _| {
        use watertight::postgres::client::fallible_iterator::FallibleIterator;
        let none: [&(dyn watertight::postgres::types::ToSql + Sync); 0] = [];
        let mut rows = client.query_raw("select generate_series(1, 1000000)", none)?;
        rows.next().map(|row| row.is_some())
    });
    assert!(half.unwrap().unwrap());
    assert_ne!(backend(&database), before);
}

#[test]
fn a_killed_backend_is_an_error_once() {
    let Some(config) = postgres() else { return };
    let (_runtime, _bulkhead, database) = build(1, config.clone());
    let killed = backend(&database);
    let mut outside = config.connect(NoTls).unwrap();
    outside.execute("select pg_terminate_backend($1)", &[&killed]).unwrap();
    eventually("the next connection works", || {
        let again = database.call(|client, _| client.batch_execute("select 1"));
        again.is_ok_and(|answer| answer.is_ok())
    });
    assert_ne!(backend(&database), killed);
}

#[test]
fn a_server_that_says_no_is_named_as_the_cause() {
    let Some(mut config) = postgres() else { return };
    config.user("nobody_here");
    let (_runtime, _bulkhead, database) = build(1, config);
    let error = database.call(|_, _| ()).unwrap_err();
    let CallError::Failed(error) = error else { panic!("{error:?}") };
    assert_eq!(error.kind(), ConnectionErrorKind::CannotConnect);
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    let mut said = String::new();
    while let Some(one) = cause {
        said += &one.to_string();
        cause = one.source();
    }
    assert!(said.contains("nobody_here"), "{said}");
}

#[test]
fn a_unix_socket_is_refused_when_it_is_built() {
    let runtime =
        Runtime::builder().bulkhead(Bulkhead::builder("unix").threads(1)).build().unwrap();
    let mut config = Config::new();
    config.host_path("/run/postgresql");
    let error = Database::builder(config).build(&runtime.bulkhead("unix").unwrap()).unwrap_err();
    assert_eq!((error.bulkhead(), error.setting()), (Some("unix"), "host"));
}

#[test]
fn an_error_of_a_statement_costs_no_connection() {
    let Some(config) = postgres() else { return };
    let (_runtime, _bulkhead, database) = build(1, config);
    let before = backend(&database);
    for wrong in ["select 1 / 0", "selct", "begin; select 1 / 0"] {
        let simple = database.call(move |client, _| client.batch_execute(wrong));
        assert!(simple.unwrap().is_err());
        assert_eq!(backend(&database), before, "{wrong}");
    }
    let prepared = database.call(|client, _| client.query("select 1 / $1::int4", &[&0_i32]));
    assert!(prepared.unwrap().is_err());
    assert_eq!(backend(&database), before);
}
