//! Transactions that lose to another one: run again, within their attempts and their time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use watertight::postgres::client::NoTls;
use watertight::postgres::{Config, Database, Error, IsolationLevel, TransactionOptions};
use watertight::{CallError, Deadline};

use super::{Table, backend, build, postgres};
use crate::support::{WATCHDOG, eventually, within};

const SERIALIZABLE: TransactionOptions =
    TransactionOptions::new().isolation(IsolationLevel::Serializable);

/// A transaction reads the sum of the table and adds a row, and so does another one that commits
/// meanwhile, in as many of its attempts as told: they cannot be put in an order.
fn add_a_row(
    config: &Config,
    table: &Table,
    conflicts: usize,
) -> (
    Arc<AtomicUsize>,
    impl FnMut(
        &mut watertight::postgres::Transaction<'_>,
        &watertight::Context<'_>,
    ) -> Result<i64, Error>
    + Send
    + 'static,
) {
    let mut other = config.connect(NoTls).unwrap();
    let (sum, add) = (
        format!("select coalesce(sum(n), 0)::int8 from {table}"),
        format!("insert into {table} values (1)"),
    );
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let job = move |tx: &mut watertight::postgres::Transaction<'_>, _: &watertight::Context<'_>| {
        let before: i64 = tx.query_one(&*sum, &[])?.get(0);
        if counted.fetch_add(1, Ordering::SeqCst) < conflicts {
            let serializable = "begin isolation level serializable";
            other.batch_execute(&format!("{serializable}; {sum}; {add}; commit")).unwrap();
        }
        tx.execute(&*add, &[])?;
        Ok(before)
    };
    (attempts, job)
}

#[test]
fn a_transaction_that_loses_is_run_again_on_its_connection_and_sees_what_the_winner_did() {
    let Some(config) = postgres() else { return };
    let (_runtime, _, database) = build(1, config.clone());
    let table = Table::new(&config, "n int4");
    let before = backend(&database);
    let (attempts, job) = add_a_row(&config, &table, 2);
    let seen = database.transaction_with(SERIALIZABLE.attempts(3), job).unwrap().unwrap();
    assert_eq!(seen, 2, "the last attempt saw both rows of the other");
    assert_eq!((attempts.load(Ordering::SeqCst), database.retries()), (3, 2));
    assert_eq!(backend(&database), before);
}

#[test]
fn a_transaction_that_loses_too_often_says_how_often() {
    let Some(config) = postgres() else { return };
    let (_runtime, _, database) = build(1, config.clone());
    let table = Table::new(&config, "n int4");
    for most in [1, 3] {
        let (attempts, job) = add_a_row(&config, &table, usize::MAX);
        let options = SERIALIZABLE.attempts(most);
        let error = database.transaction_with(options, job).unwrap().unwrap_err();
        assert_eq!((error.attempts(), error.is_conflict()), (most, true));
        assert_eq!(error.cause().code().map(|code| code.code()), Some("40001"));
        assert_eq!(attempts.load(Ordering::SeqCst), most as usize);
        assert!(std::error::Error::source(&error).is_some());
    }
    assert_eq!(database.retries(), 2);
    assert_eq!(database.call(|client, _| client.batch_execute("")).unwrap().ok(), Some(()));
}

#[test]
fn attempts_end_with_the_call() {
    let Some(config) = postgres() else { return };
    let (_runtime, bulkhead, database) = build(1, config.clone());
    let table = Table::new(&config, "n int4");
    backend(&database);
    let (attempts, job) = add_a_row(&config, &table, usize::MAX);
    let options = SERIALIZABLE.attempts(u32::MAX);
    let caller = database.clone();
    let start = Instant::now();
    let ended = within("the caller", move || {
        caller.transaction_with_until(Deadline::after(Duration::from_millis(300)), options, job)
    });
    assert!(!matches!(ended, Ok(Ok(_))), "{ended:?}");
    eventually("the thread is free", || bulkhead.snapshot().running == 0);
    assert!(start.elapsed() < WATCHDOG && attempts.load(Ordering::SeqCst) > 1);
}

#[test]
fn no_other_error_is_tried_again() {
    let Some(config) = postgres() else { return };
    let (_runtime, _, database) = build(1, config);
    let raise = |code: &'static str| {
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&attempts);
        let options = TransactionOptions::new().attempts(4);
        let ended = database.transaction_with(options, move |tx, _| -> Result<(), Error> {
            counted.fetch_add(1, Ordering::SeqCst);
            let raise = format!("do $$ begin raise exception using errcode = '{code}'; end $$");
            // What comes after the first error is 25P02, and hides nothing.
            let first = tx.batch_execute(&raise);
            let _ = tx.batch_execute("select 1");
            first
        });
        let error = ended.unwrap().unwrap_err();
        (error.attempts(), error.is_conflict(), attempts.load(Ordering::SeqCst))
    };
    assert_eq!(raise("40001"), (4, true, 4));
    assert_eq!(raise("40P01"), (4, true, 4));
    assert_eq!(raise("23505"), (1, false, 1));
}

#[test]
fn an_error_that_the_job_passes_over_is_no_success() {
    let Some(config) = postgres() else { return };
    let (_runtime, _, database) = build(1, config.clone());
    let table = Table::new(&config, "n int4");
    let before = backend(&database);
    let (insert, wrong) = (format!("insert into {table} values (1)"), "select 1 / 0");
    let passed = database.transaction(move |tx, _| -> Result<(), Error> {
        tx.batch_execute(&insert)?;
        let _ = tx.batch_execute(wrong);
        Ok(())
    });
    let error = passed.unwrap().unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("25P02"));
    assert_eq!(backend(&database), before, "the connection is good");
    // A conflict that is passed over is one all the same.
    let (attempts, mut job) = add_a_row(&config, &table, 1);
    let mut job = move |tx: &mut watertight::postgres::Transaction<'_>,
                        context: &watertight::Context<'_>| {
        Ok::<_, Error>(job(tx, context).unwrap_or(-1))
    };
    let seen =
        database.transaction_with(SERIALIZABLE.attempts(2), move |tx, context| job(tx, context));
    assert_eq!(seen.unwrap().unwrap(), 1);
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
}

#[test]
fn two_bulkheads_that_count_in_one_row_lose_no_count() {
    const EACH: usize = 25;
    let Some(config) = postgres() else { return };
    let table = Table::new(&config, "n int4");
    let mut look = config.connect(NoTls).unwrap();
    look.batch_execute(&format!("insert into {table} values (0)")).unwrap();
    let count = |database: Database| {
        let (read, write) =
            (format!("select n from {table}"), format!("update {table} set n = $1"));
        thread::spawn(move || {
            for _ in 0..EACH {
                let (read, write) = (read.clone(), write.clone());
                let options = SERIALIZABLE.attempts(1_000);
                let counted = database.transaction_with(options, move |tx, _| {
                    let n: i32 = tx.query_one(&*read, &[])?.get(0);
                    tx.execute(&*write, &[&(n + 1)])
                });
                assert_eq!(counted.unwrap().unwrap(), 1);
            }
        })
    };
    let (one, two) = (build(1, config.clone()), build(1, config.clone()));
    let (first, second) = (count(one.2.clone()), count(two.2.clone()));
    within("both", move || [first.join(), second.join()].map(|ended| ended.unwrap()));
    let n: i32 = look.query_one(&format!("select n from {table}"), &[]).unwrap().get(0);
    assert_eq!(usize::try_from(n).unwrap(), 2 * EACH);
}

#[test]
fn a_transaction_may_only_read_where_its_options_say_so() {
    let Some(config) = postgres() else { return };
    let (_runtime, _, database) = build(1, config.clone());
    let table = Table::new(&config, "n int4");
    let insert = format!("insert into {table} values (1)");
    let options = TransactionOptions::new().read_only();
    let refused = database.transaction_with(options, move |tx, _| tx.execute(&*insert, &[]));
    let error = refused.unwrap().unwrap_err();
    assert_eq!(error.into_cause().code().map(|code| code.code()), Some("25006"));
    let panicked = database.transaction_with(options, |_, _| -> Result<(), Error> {
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(matches!(panicked, Err(CallError::Panicked(_))));
}
