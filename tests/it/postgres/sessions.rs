//! What one job leaves behind in its session, and who sees it.

use std::io;
use std::net::SocketAddr;

use watertight::postgres::client::NoTls;
use watertight::postgres::{Database, Error};

use super::{Table, backend, build, build_with, postgres};

#[test]
fn a_statement_that_failed_is_no_success_whatever_succeeds_after_it() {
    let Some(config) = postgres() else { return };
    let (_runtime, _, database) = build(1, config.clone());
    let mut table = Table::new(&config, "n int4");
    let insert = format!("insert into {table} values (1)");
    // The server takes an empty statement even in a transaction that has failed.
    for harmless in ["", ";", "-- nothing"] {
        let insert = insert.clone();
        let lost = database.transaction(move |tx, _| -> Result<(), Error> {
            tx.execute(&*insert, &[])?;
            assert!(tx.execute("select 1 / 0", &[]).is_err());
            tx.batch_execute(harmless)
        });
        let error = lost.unwrap().expect_err("nothing was committed");
        assert_eq!(error.code().map(|code| code.code()), Some("25P02"), "after {harmless:?}");
    }
    let rows = format!("select count(*) from {table}");
    assert_eq!(table.client.query_one(&rows, &[]).unwrap().get::<_, i64>(0), 0);

    // A failure that was taken back is none.
    let kept = database.transaction(move |tx, _| -> Result<(), Error> {
        tx.batch_execute("savepoint before")?;
        assert!(tx.execute("select 1 / 0", &[]).is_err());
        tx.batch_execute("rollback to before")?;
        tx.execute(&*insert, &[]).map(drop)
    });
    kept.unwrap().unwrap();
    assert_eq!(table.client.query_one(&rows, &[]).unwrap().get::<_, i64>(0), 1);
}

#[test]
fn a_host_whose_name_is_unknown_does_not_keep_the_others_from_being_tried() {
    let Some(config) = postgres() else { return };
    if std::env::var_os("DATABASE_URL").is_some() {
        return; // its address is not ours to guess
    }
    let server = SocketAddr::from(([127, 0, 0, 1], config.get_ports()[0]));
    for hosts in [["gone.internal", "here.internal"], ["here.internal", "gone.internal"]] {
        let mut two = watertight::postgres::Config::new();
        two.user("postgres").dbname("postgres").port(server.port());
        two.host(hosts[0]).host(hosts[1]);
        let database = Database::builder(two).look_up(move |name, _| match name {
            "here.internal" => Ok(vec![server]),
            _ => Err(io::Error::other("no such name")),
        });
        let (_runtime, _, database) = build_with(1, database);
        let answer = database.call(|client, _| client.batch_execute("select 1"));
        answer.unwrap_or_else(|error| panic!("{hosts:?}: {error:?}")).unwrap();
    }
}

#[test]
fn a_session_that_still_listens_is_closed_when_something_has_come() {
    let Some(config) = postgres() else { return };
    let (_runtime, _, database) = build(1, config.clone());
    let first = backend(&database);
    let channel = format!("watertight_{first}");
    let listen = format!("listen {channel}");
    database.call(move |client, _| client.batch_execute(&listen)).unwrap().unwrap();
    let mut other = config.connect(NoTls).unwrap();
    other.execute("select pg_notify($1, 'for nobody')", &[&channel]).unwrap();
    // It comes to whoever has the connection then: once.
    assert_eq!(backend(&database), first);
    assert_ne!(backend(&database), first);
    let left = database.call(|client, _| client.notifications().len()).unwrap();
    assert_eq!(left, 0);
}

/// What of a session a job could find that the one before has left.
fn leftovers(database: &Database) -> Vec<String> {
    let left = database.call(|client, _| -> Result<Vec<String>, Error> {
        let rows = client.query(
            "select 'setting' where current_setting('work_mem') = '123kB'
             union all select 'table' where to_regclass('pg_temp.watertight_left') is not null
             union all select 'lock' from pg_locks
                 where locktype = 'advisory' and pid = pg_backend_pid()
             union all select 'channel' from pg_listening_channels()
             union all select 'cursor' from pg_cursors where is_holdable",
            &[],
        )?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    });
    left.unwrap().unwrap()
}

#[test]
fn a_session_is_reset_after_each_job_if_that_is_asked_for() {
    let Some(config) = postgres() else { return };
    let leave_all = "set work_mem = '123kB';
        create temp table watertight_left (n int4);
        select pg_advisory_lock(pg_backend_pid());
        listen watertight_left;
        begin; declare held cursor with hold for select 1; commit";
    for resets in [false, true] {
        let mut builder = Database::builder(config.clone());
        if resets {
            builder = builder.reset_sessions();
        }
        let (_runtime, bulkhead, database) = build_with(1, builder);
        let before = backend(&database);
        database.call(move |client, _| client.batch_execute(leave_all)).unwrap().unwrap();
        let left = leftovers(&database);
        assert_eq!(left.len(), if resets { 0 } else { 5 }, "{left:?}");
        // Also after a job that leaves a transaction open.
        database
            .call(|client, _| client.batch_execute("begin; set work_mem = '123kB'"))
            .unwrap()
            .unwrap();
        let again = leftovers(&database).iter().any(|left| left == "setting");
        assert_eq!(again, !resets, "as it was before the transaction");
        assert_eq!(backend(&database), before, "and the connection is kept");
        assert_eq!(database.status().opened, 1);
        // It is still the bulkhead's at the server.
        assert_eq!(super::seen(&config, "", &bulkhead), 1);
    }
}
