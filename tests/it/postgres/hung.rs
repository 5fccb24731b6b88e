//! PostgreSQL that hangs, behind a real network or by itself: callers have their errors, threads and
//! sockets come back, and so does the service when the server does.
//!
//! What is left behind is counted in a process of its own.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use watertight::postgres::client::NoTls;
use watertight::postgres::{Client, ConnectError, Database, Error};
use watertight::r2d2::{ConnectionError, ConnectionErrorKind};
use watertight::{Bulkhead, CallError, Deadline, Runtime};

use super::{Config, build, build_with, start, throwaway};
use crate::outage::{
    FAULTS, Fault, FullBacklog, Proxy, endure, holdings, nothing_is_left, recovers, signal,
};
use crate::server::Server;
use crate::support::{Gate, WATCHDOG, child, ends, eventually, part};

/// Runs `body` in a child process where there are programs for a server.
fn alone(test: &str, body: impl FnOnce()) {
    if part().is_some() {
        body();
    } else if throwaway().is_some() {
        let done = ends(test, child(&format!("postgres::hung::{test}"), "alone"));
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
        println!("{said}");
    }
}

fn address(server: &Config) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.get_ports()[0]))
}

fn at(address: SocketAddr) -> Config {
    let mut config = Config::new();
    config.host("127.0.0.1").port(address.port()).user("postgres").dbname("postgres");
    config
}

type Told = CallError<ConnectionError>;

/// A hundred rows, so that there is an answer to cut in halves.
fn ask(client: &mut Client) -> Result<usize, Error> {
    Ok(client.query("select n, repeat('x', 40) from generate_series(1, 100) n", &[])?.len())
}

fn query(
    database: &Database,
    deadline: Deadline,
) -> Result<usize, Box<dyn std::fmt::Debug + Send>> {
    match database.call_until(deadline, |client, _| ask(client)) {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(error)) => Err(Box::new(error)),
        Err(error) => Err(Box::new(error)),
    }
}

/// Through a fault and out of it again.
fn stands(what: &str, bulkhead: &Bulkhead, database: &Database) {
    let caller = database.clone();
    endure(what, bulkhead, move |deadline| query(&caller, deadline));
}

fn works_again(what: &str, database: &Database) {
    recovers(what, || query(database, Deadline::after(WATCHDOG)));
}

fn ends_clean(what: &str, runtime: &Runtime) {
    let report = runtime.shutdown(WATCHDOG).unwrap();
    assert!(report.is_clean(), "{what}: {report}");
}

#[test]
fn a_network_that_fails_in_any_way_costs_no_more_than_the_call_s_time() {
    alone("a_network_that_fails_in_any_way_costs_no_more_than_the_call_s_time", || {
        let Some(server) = throwaway() else { return };
        let proxy = Proxy::new(address(&server));
        let before = holdings();
        for fault in FAULTS {
            for warm in [false, true] {
                let what = format!("{fault:?}, {}", if warm { "in an answer" } else { "at first" });
                let (runtime, bulkhead, database) = build(2, at(proxy.address));
                if warm {
                    works_again(&what, &database);
                }
                proxy.set(fault);
                stands(&what, &bulkhead, &database);
                stands(&what, &bulkhead, &database);
                proxy.set(Fault::None);
                works_again(&what, &database);
                ends_clean(&what, &runtime);
                drop(database);
                nothing_is_left(&what, before);
            }
        }
        let full = FullBacklog::new();
        let (runtime, bulkhead, database) = build(2, at(full.address));
        stands("a full backlog", &bulkhead, &database);
        let _proxy = full.relieve(address(&server));
        works_again("a full backlog", &database);
        ends_clean("a full backlog", &runtime);
    });
}

/// The server's processes, each with those it has started.
fn processes(server: &Server) -> Vec<u32> {
    let parent = server.postmaster();
    let started = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        let (id, rest) = stat.split_once(' ')?;
        let of: u32 = rest.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        (of == parent).then(|| id.parse().ok())?
    });
    std::iter::once(parent).chain(started).collect()
}

#[test]
fn a_server_that_is_stopped_or_crashes_costs_no_more_than_the_call_s_time() {
    alone("a_server_that_is_stopped_or_crashes_costs_no_more_than_the_call_s_time", || {
        let Some(server) = start(&[], &[]) else { return };
        let before = holdings();
        for warm in [false, true] {
            let what = if warm { "stopped in between" } else { "stopped" };
            let (runtime, bulkhead, database) = build(2, server.config());
            if warm {
                works_again(what, &database);
            }
            let all = processes(&server);
            signal("-STOP", &all);
            stands(what, &bulkhead, &database);
            stands(what, &bulkhead, &database);
            signal("-CONT", &all);
            works_again(what, &database);
            ends_clean(what, &runtime);
        }
        nothing_is_left("stopped", before);

        // Killed the hard way: the server ends all other connections too, and starts anew.
        let (runtime, bulkhead, database) = build(2, server.config());
        let backend = super::backend(&database);
        let started = Gate::new();
        let inside = started.clone();
        started.open();
        let sleeping = database.submit(move |client, _| {
            inside.pass();
            client.batch_execute("select pg_sleep(60)")
        });
        let sleeping = sleeping.map_err(|refused| refused.reason()).unwrap();
        started.wait_for(1);
        signal("-KILL", &[u32::try_from(backend).unwrap()]);
        assert!(!matches!(sleeping.join(), Ok(Ok(Ok(())))));
        works_again("killed", &database);
        eventually("the thread is free", || bulkhead.snapshot().running == 0);
        ends_clean("killed", &runtime);
        drop(database);
        nothing_is_left("killed", before);
    });
}

/// What the server said to an attempt to connect, once one has come to its end in time.
fn refusal(database: &Database) -> Told {
    let start = Instant::now();
    loop {
        let error = database.call(|_, _| ()).unwrap_err();
        let CallError::Failed(failed) = &error else { panic!("{error:?}") };
        if failed.kind() == ConnectionErrorKind::CannotConnect || start.elapsed() > WATCHDOG {
            return error;
        }
    }
}

fn cause(error: &Told) -> &ConnectError {
    let CallError::Failed(error) = error else { panic!("{error:?}") };
    assert_eq!(error.kind(), ConnectionErrorKind::CannotConnect, "{error:?}");
    std::error::Error::source(error).unwrap().downcast_ref().unwrap()
}

#[test]
fn a_server_that_refuses_a_connection_is_told_from_one_that_is_silent() {
    let who = "host all locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    let settings =
        ["max_connections=6", "superuser_reserved_connections=2", "hba_file={folder}/who"];
    let Some(server) = start(&settings, &[("who", who)]) else { return };
    let mut outside = server.config().connect(NoTls).unwrap();
    let roles = "create role locked login password 'right'; create role plain login";
    outside.batch_execute(roles).unwrap();
    let call = |database: &Database| {
        let caller = database.clone();
        move |deadline| caller.call_until(deadline, |client, _| client.batch_execute("select 1"))
    };

    let mut config = server.config();
    config.user("locked").password("wrong");
    let short = Duration::from_millis(500);
    let build = |config| build_with(1, Database::builder(config).connect_limit(short));
    let (_runtime, bulkhead, database) = build(config.clone());
    endure("a wrong password", &bulkhead, call(&database));
    let error = refusal(&database);
    let ConnectError::Server(error) = cause(&error) else { panic!("{error:?}") };
    assert_eq!(error.code().map(|code| code.code()), Some("28P01"));
    config.password("right");
    let (_runtime, _, database) = build(config);
    recovers("the right password", || call(&database)(Deadline::after(WATCHDOG)));
    drop(database);

    // Those of the databases above are closed a moment after they are dropped.
    let mut others = || {
        let query = "select count(*) from pg_stat_activity where backend_type = 'client backend'";
        outside.query_one(query, &[]).unwrap().get::<_, i64>(0) - 1
    };
    let start = Instant::now();
    while others() > 0 {
        assert!(start.elapsed() < WATCHDOG, "the first connections are still there");
    }
    let mut config = server.config();
    config.user("plain");
    let mut taken = Vec::new();
    let refused = loop {
        match config.connect(NoTls) {
            Ok(client) => taken.push(client),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code().map(|code| code.code()), Some("53300"));
    let (_runtime, bulkhead, database) = build(config);
    endure("too many connections", &bulkhead, call(&database));
    let error = refusal(&database);
    assert!(matches!(cause(&error), ConnectError::TooManyConnections(_)), "{error:?}");
    assert!(cause(&error).to_string().contains("max_connections"));
    drop(taken);
    recovers("connections are free", || call(&database)(Deadline::after(WATCHDOG)));
}

#[test]
fn a_name_server_that_is_dead_holds_neither_callers_nor_workers_nor_a_second_thread() {
    let Some(server) = throwaway() else { return };
    let mut config = Config::new();
    config.host("db.internal").port(server.get_ports()[0]).user("postgres").dbname("postgres");
    let (gate, asked) = (Gate::new(), Arc::new(Mutex::new(0)));
    let (inside, count, to) = (gate.clone(), Arc::clone(&asked), address(&server));
    let builder = Database::builder(config).look_up(move |name, _| {
        assert_eq!(name, "db.internal");
        *count.lock().unwrap() += 1;
        inside.pass();
        Ok(vec![to])
    });
    let (runtime, bulkhead, database) = build_with(2, builder);
    for _ in 0..5 {
        stands("a dead name server", &bulkhead, &database);
    }
    assert_eq!(*asked.lock().unwrap(), 1, "one look-up hangs, and no other is begun");
    gate.open();
    works_again("a dead name server", &database);
    ends_clean("a dead name server", &runtime);
}

#[test]
fn a_second_host_is_connected_to_when_the_first_accepts_and_is_silent() {
    let Some(server) = throwaway() else { return };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = Config::new();
    config.host("127.0.0.1").port(silent.local_addr().unwrap().port());
    config.host("127.0.0.1").port(server.get_ports()[0]).user("postgres").dbname("postgres");
    let builder = Database::builder(config).connect_limit(Duration::from_secs(4));
    let (_runtime, _, database) = build_with(1, builder);
    let asked = database.call_until(Deadline::after(WATCHDOG), |client, _| ask(client));
    assert_eq!(asked.unwrap().unwrap(), 100);
}

/// Speaks as much of the protocol as a client needs to connect, and leaves the rest to `serve`. Counts
/// its connections.
fn pretending(
    serve: impl Fn(TcpStream) + Clone + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, connections) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&connections);
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            let serve = serve.clone();
            thread::spawn(move || {
                let _ = client.read(&mut [0; 4096]);
                // Come in; here is a key to cancel with; ready.
                let hello = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x01Z\0\0\0\x05I";
                let _ = client.write_all(hello);
                serve(client);
            });
        }
    });
    (address, connections)
}

#[test]
fn an_error_costs_no_connection_though_the_server_is_ready_only_a_while_after_it() {
    let (server, connections) = pretending(|mut client| {
        let mut request = [0; 4096];
        while let Ok(n @ 1..) = client.read(&mut request) {
            let is_empty = request[..n] == *b"Q\0\0\0\x05\0";
            let answer: &[u8] =
                if is_empty { b"I\0\0\0\x04" } else { b"E\0\0\0\x17SERROR\0C42601\0Mno\0\0" };
            let _ = client.write_all(answer);
            thread::sleep(Duration::from_millis(50));
            let _ = client.write_all(b"Z\0\0\0\x05I");
        }
    });
    let (_runtime, _, database) = build(1, at(server));
    for _ in 0..3 {
        let wrong = database.call(|client, _| client.batch_execute("selct")).unwrap();
        assert_eq!(wrong.unwrap_err().code().map(|code| code.code()), Some("42601"));
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

fn endless() -> SocketAddr {
    let (address, _) = pretending(|mut client| {
        let _ = client.read(&mut [0; 4096]);
        let row = b"D\0\0\0\x0b\0\x01\0\0\0\x01x".repeat(10_000);
        let columns = b"T\0\0\0\x1a\0\x01n\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";
        let _ = client.write_all(columns);
        while client.write_all(&row).is_ok() {}
    });
    address
}

#[test]
fn an_answer_without_end_ends_with_the_call() {
    let (_runtime, bulkhead, database) = build(1, at(endless()));
    let caller = database.clone();
    endure("an answer without end", &bulkhead, move |deadline| {
        let asked = caller.call_until(deadline, |client, _| client.batch_execute("select"));
        asked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    });
    endure("an answer without end, again", &bulkhead, move |deadline| {
        let asked = database.call_until(deadline, |client, _| client.batch_execute("select"));
        asked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    });
}
