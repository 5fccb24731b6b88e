//! The audit: every thread and connection of the process is some bulkhead's, or is named as foreign.
//!
//! The process is that of all tests, so each looks for names and addresses of its own.

use std::fs::File;
use std::process::Command;
use std::thread;

use watertight::{Audit, Bulkhead, Runtime, ThreadKind};

use crate::support::{Gate, child, ends, eventually, hold, part};

fn build(names: &[&str]) -> Runtime {
    let bulkhead = |name: &&str| Bulkhead::builder(*name).threads(2).no_deadline();
    let runtime = names.iter().map(bulkhead).fold(Runtime::builder(), |all, one| all.bulkhead(one));
    runtime.build().unwrap()
}

/// The kinds and names of the bulkhead's threads.
fn threads_of(audit: &Audit, bulkhead: &str) -> Vec<(ThreadKind, String)> {
    audit.threads_of(bulkhead).map(|one| (one.kind.unwrap(), one.name.clone())).collect()
}

fn foreign_named(audit: &Audit, name: &str) -> usize {
    audit.foreign_threads().filter(|one| one.name == name).count()
}

#[test]
fn the_threads_of_a_bulkhead_are_listed_with_their_numbers_as_soon_as_it_is_built() {
    for _ in 0..20 {
        let runtime = build(&["au-one", "au-two"]);
        let audit = runtime.audit();
        for bulkhead in ["au-one", "au-two"] {
            let wanted = [
                (ThreadKind::Worker(0), format!("wt-{bulkhead}-0")),
                (ThreadKind::Worker(1), format!("wt-{bulkhead}-1")),
                (ThreadKind::Timekeeper, format!("wt-{bulkhead}-t")),
            ];
            assert_eq!(threads_of(&audit, bulkhead), wanted);
            for thread in audit.threads_of(bulkhead) {
                let comm = format!("/proc/self/task/{}/comm", thread.tid.unwrap());
                assert_eq!(std::fs::read_to_string(comm).unwrap().trim_end(), thread.name);
            }
        }
        let ours = |name: &str| name.contains("au-one") || name.contains("au-two");
        assert_eq!(audit.foreign_threads().filter(|one| ours(&one.name)).count(), 0);
    }
}

#[test]
fn a_foreign_thread_is_listed_by_name_until_it_is_gone() {
    let (runtime, gate) = (build(&["au-home"]), Gate::new());
    let inside = gate.clone();
    let stranger = thread::Builder::new().name("au-stranger".into());
    let stranger = stranger.spawn(move || inside.pass()).unwrap();
    gate.wait_for(1);
    let audit = runtime.audit();
    let listed = audit.foreign_threads().find(|one| one.name == "au-stranger").unwrap();
    assert_eq!((&listed.bulkhead, listed.kind, &listed.started_by), (&None, None, &None));
    gate.open();
    stranger.join().unwrap();
    // Joined threads may be shown for a moment yet; the audit does not take them for living ones.
    assert_eq!(foreign_named(&runtime.audit(), "au-stranger"), 0);
}

#[test]
fn a_thread_that_a_job_starts_is_foreign_and_its_bulkhead_is_named() {
    let (runtime, gate) = (build(&["au-host"]), Gate::new());
    let host = runtime.bulkhead("au-host").unwrap();
    let inside = gate.clone();
    let started = host.call(move |_| thread::spawn(move || inside.pass())).unwrap();
    gate.wait_for(1);
    let audit = runtime.audit();
    let hidden = audit.foreign_threads().filter(|one| one.started_by.as_deref() == Some("au-host"));
    assert_eq!(hidden.count(), 1);
    assert_eq!(audit.threads_of("au-host").count(), 3);
    assert!(audit.to_string().contains("not its own: started by a thread of au-host"), "{audit}");
    gate.open();
    started.join().unwrap();
}

#[test]
fn without_a_runtime_everything_is_foreign() {
    let _runtime = build(&["au-other"]);
    let audit = Audit::of_process();
    assert!(audit.threads.iter().all(|one| one.bulkhead.is_none()));
    for name in ["wt-au-other-0", "wt-au-other-1", "wt-au-other-t"] {
        assert_eq!(foreign_named(&audit, name), 1, "{audit}");
    }
    let (open, limit) = (audit.descriptors.unwrap(), audit.descriptor_limit.unwrap());
    assert!(open >= 3 && open as u64 <= limit, "{open} of {limit}");
    assert!(audit.unseen.is_empty(), "{audit}");
}

#[test]
fn two_runtimes_are_seen_together_when_both_are_given() {
    let (one, two) = (build(&["au-left"]), build(&["au-right"]));
    let audit = Audit::of([&one, &two]);
    assert_eq!(threads_of(&audit, "au-left").len(), 3);
    assert_eq!(threads_of(&audit, "au-right").len(), 3);
    assert_eq!(foreign_named(&one.audit(), "wt-au-right-t"), 1);
}

#[test]
fn after_the_shutdown_no_thread_is_left_but_those_that_are_stuck() {
    for _ in 0..20 {
        let runtime = build(&["au-ends"]);
        let clean = runtime.shutdown(crate::support::WATCHDOG).unwrap().is_clean();
        assert!(clean);
        let audit = runtime.audit();
        assert_eq!(threads_of(&audit, "au-ends"), []);
        assert_eq!(audit.foreign_threads().filter(|one| one.name.contains("au-ends")).count(), 0);
    }
    let (runtime, gate) = (build(&["au-stuck"]), Gate::new());
    let job = hold(&runtime.bulkhead("au-stuck").unwrap(), &gate, 1);
    gate.wait_for(1);
    let report = runtime.shutdown(std::time::Duration::ZERO).unwrap();
    let stuck = &report.stuck[0].thread;
    eventually("only the stuck thread is left", || {
        let left = threads_of(&runtime.audit(), "au-stuck");
        left.iter().filter(|(_, name)| name == stuck).count() == 1 && left.len() <= 2
    });
    gate.open();
    drop(job);
    eventually("it is gone", || threads_of(&runtime.audit(), "au-stuck").is_empty());
}

/// Runs a test in a process of its own that may have so many file descriptors.
fn alone(test: &str, descriptors: u32) {
    let inner = child(test, "alone");
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -n {descriptors}; exec \"$0\" \"$@\""));
    command.arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = ends(test, command);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}

#[test]
fn an_audit_without_a_free_descriptor_says_what_it_could_not_see() {
    if part().is_none() {
        let this = "audit::an_audit_without_a_free_descriptor_says_what_it_could_not_see";
        return alone(this, 32);
    }
    let runtime = build(&["au-full"]);
    let taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let audit = runtime.audit();
    drop(taken);
    assert_eq!(audit.threads_of("au-full").count(), 3);
    assert_eq!(audit.foreign_threads().count(), 0);
    assert_eq!((audit.descriptors, audit.descriptor_limit), (None, Some(32)));
    assert_eq!(audit.unseen.len(), 2, "{audit}");
    assert!(audit.unseen.iter().all(|line| line.contains("Too many open files")), "{audit}");
}

#[cfg(feature = "r2d2")]
mod pools {
    use std::io;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::Duration;

    use watertight::r2d2::{ManageConnection, Pool};
    use watertight::{AuditedConnections, BuildErrorKind, RemoteAddress};

    use super::*;

    /// A client of a server that accepts and is silent.
    #[derive(Debug, Clone, Copy)]
    struct Connections(SocketAddr);

    impl ManageConnection for Connections {
        type Connection = TcpStream;
        type Error = io::Error;

        fn connect(&self) -> io::Result<TcpStream> {
            TcpStream::connect(self.0)
        }

        fn is_valid(&self, stream: &mut TcpStream) -> io::Result<()> {
            stream.peer_addr().map(drop)
        }

        fn has_broken(&self, _: &mut TcpStream) -> bool {
            false
        }
    }

    fn server() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// How many connections to `address` each has, and whether they are marked.
    pub(super) fn to(audit: &Audit, address: SocketAddr) -> Vec<(Option<&str>, usize, bool)> {
        let there =
            audit.connections.iter().filter(|one| one.remote == RemoteAddress::Tcp(address));
        there.map(|one| (one.bulkhead.as_deref(), one.count, one.shared)).collect()
    }

    #[test]
    fn helper_threads_are_their_bulkhead_s_from_the_pool_s_birth_to_its_end() {
        let (_listener, address) = server();
        for _ in 0..20 {
            let runtime = build(&["au-pool"]);
            let pool = Pool::builder(Connections(address));
            let pool = pool.build(&runtime.bulkhead("au-pool").unwrap()).unwrap();
            let helpers = |audit: &Audit| -> Vec<String> {
                let threads = threads_of(audit, "au-pool").into_iter();
                threads.filter(|one| one.0 == ThreadKind::Helper).map(|one| one.1).collect()
            };
            let audit = runtime.audit();
            assert_eq!(helpers(&audit), ["wt-au-pool-c", "wt-au-pool-k", "wt-au-pool-l"]);
            pool.call(|_, _| ()).unwrap();
            // C40: a stock pool's would be there for up to 30 seconds more.
            assert!(runtime.shutdown(crate::support::WATCHDOG).unwrap().is_clean());
            let audit = runtime.audit();
            assert_eq!(helpers(&audit), [""; 0]);
            let left = audit.foreign_threads().filter(|one| one.name.contains("au-pool"));
            assert_eq!(left.count(), 0, "{audit:#}");
        }
    }

    #[test]
    fn c40_the_threads_of_a_stock_pool_are_named_as_foreign_also_when_it_is_dropped() {
        let (_listener, address) = server();
        let stock = ::r2d2::Pool::builder();
        let scheduler = scheduled_thread_pool::ScheduledThreadPool::builder()
            .num_threads(3)
            .thread_name_pattern("au-stock-{}")
            .build();
        let stock = stock.thread_pool(std::sync::Arc::new(scheduler));
        let stock = stock.min_idle(Some(0)).build(Connections(address)).unwrap();
        drop(stock.get().unwrap());
        let named = |audit: &Audit| {
            audit.foreign_threads().filter(|one| one.name.starts_with("au-stock-")).count()
        };
        eventually("its threads are there", || named(&Audit::of_process()) == 3);
        drop(stock);
        assert!(named(&Audit::of_process()) > 0);
    }

    #[test]
    fn a_pool_s_connections_are_marked_where_strangers_use_its_address() {
        let (_listener, address) = server();
        let runtime = build(&["au-db", "au-batch"]);
        let pool = |name| {
            let pool = Pool::builder(Connections(address)).remote_address(address);
            pool.build(&runtime.bulkhead(name).unwrap()).unwrap()
        };
        let db = pool("au-db");
        db.call(|_, _| ()).unwrap();
        assert_eq!(to(&runtime.audit(), address), [(Some("au-db"), 1, false)]);

        let stranger = TcpStream::connect(address).unwrap();
        let wanted = [(Some("au-db"), 1, true), (None, 1, true)];
        assert_eq!(to(&runtime.audit(), address), wanted);
        drop(stranger);
        assert_eq!(to(&runtime.audit(), address), [(Some("au-db"), 1, false)]);

        let batch = pool("au-batch");
        batch.call(|_, _| ()).unwrap();
        let wanted = [(Some("au-db"), 1, true), (Some("au-batch"), 1, true)];
        assert_eq!(to(&runtime.audit(), address), wanted);

        assert!(runtime.shutdown(crate::support::WATCHDOG).unwrap().is_clean());
        assert_eq!(to(&runtime.audit(), address), []);
    }

    #[test]
    fn a_pool_whose_address_is_not_known_says_so_and_its_sockets_are_foreign() {
        let (_listener, address) = server();
        let runtime = build(&["au-mute"]);
        let pool = Pool::builder(Connections(address));
        let pool = pool.build(&runtime.bulkhead("au-mute").unwrap()).unwrap();
        pool.call(|_, _| ()).unwrap();
        let audit = runtime.audit();
        let own: Vec<&AuditedConnections> = audit.connections_of("au-mute").collect();
        assert_eq!(
            (own[0].remote, own[0].count, own[0].shared),
            (RemoteAddress::Unknown, 1, false)
        );
        assert_eq!(to(&audit, address), [(None, 1, false)]);
    }

    #[test]
    fn a_server_s_own_connections_are_counted_at_its_listener() {
        let (listener, address) = server();
        let client = TcpStream::connect(address).unwrap();
        let accepted = listener.accept().unwrap();
        let audit = Audit::of_process();
        let mine = audit.listeners.iter().find(|one| one.local == address).unwrap();
        assert_eq!(mine.accepted, 1);
        assert_eq!(to(&audit, address), [(None, 1, false)]);
        assert_eq!(to(&audit, client.local_addr().unwrap()), []);
        drop((client, accepted));
    }

    #[test]
    fn connections_past_the_limit_on_descriptors_are_refused_with_both_numbers() {
        if part().is_none() {
            let this = "connections_past_the_limit_on_descriptors_are_refused_with_both_numbers";
            return alone(&format!("audit::pools::{this}"), 64);
        }
        let (_listener, address) = server();
        let runtime = build(&["au-few", "au-more"]);
        let pool = |bulkhead, connections| {
            let pool = Pool::builder(Connections(address)).connections(connections);
            pool.build(&runtime.bulkhead(bulkhead).unwrap())
        };
        let refused = |bulkhead, connections, total: &str| {
            let error = pool(bulkhead, connections).unwrap_err();
            assert_eq!(error.kind(), BuildErrorKind::DescriptorLimit, "{error}");
            assert_eq!((error.bulkhead(), error.setting()), (Some(bulkhead), "connections"));
            let text = error.to_string();
            for part in [&format!("that is {total},"), "RLIMIT_NOFILE allows 64"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        };
        // 32 of the 64 are left to the rest of the process.
        refused("au-few", 33, "33");
        let few = pool("au-few", 30).unwrap();
        refused("au-more", 3, "33");
        let _more = pool("au-more", 2).unwrap();
        drop(few);
        // What a pool had planned for is free when it is closed.
        eventually("there is room again", || pool("au-few", 30).is_ok());
    }

    #[test]
    fn helpers_that_hang_are_listed_after_the_shutdown_that_reports_them() {
        /// A server that nobody reaches until the gate is open.
        struct Hanging(Gate);
        impl ManageConnection for Hanging {
            type Connection = ();
            type Error = io::Error;
            fn connect(&self) -> io::Result<()> {
                self.0.pass();
                Ok(())
            }
            fn is_valid(&self, (): &mut ()) -> io::Result<()> {
                Ok(())
            }
            fn has_broken(&self, (): &mut ()) -> bool {
                false
            }
        }
        let (runtime, gate) = (build(&["au-hung"]), Gate::new());
        let pool = Pool::builder(Hanging(gate.clone())).connect_limit(Duration::from_millis(20));
        let pool = pool.build(&runtime.bulkhead("au-hung").unwrap()).unwrap();
        pool.call(|(), _| ()).unwrap_err();
        gate.wait_for(1);
        let report = runtime.shutdown(Duration::from_millis(50)).unwrap();
        let reported: Vec<_> = report.helpers.into_iter().map(|one| one.thread).collect();
        assert!(reported.contains(&"wt-au-hung-c".to_owned()), "{reported:?}");
        let left = threads_of(&runtime.audit(), "au-hung");
        assert!(left.contains(&(ThreadKind::Helper, "wt-au-hung-c".to_owned())), "{left:?}");
        gate.open();
        eventually("they are gone", || threads_of(&runtime.audit(), "au-hung").is_empty());
    }
}

#[cfg(all(feature = "http", feature = "r2d2"))]
mod clients {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::Duration;

    use watertight::Flatten;
    use watertight::http::Client;

    use super::pools::to;
    use super::*;

    /// A server that keeps its connections open, and answers when the gate is.
    fn server(gate: Gate) -> SocketAddr {
        fn answer(stream: TcpStream, gate: &Gate) {
            let mut requests = BufReader::new(stream);
            let mut line = String::new();
            while requests.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                if line == "\r\n" {
                    gate.pass();
                    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n42";
                    let _ = requests.get_mut().write_all(response);
                }
                line.clear();
            }
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let gate = gate.clone();
                thread::spawn(move || answer(stream, &gate));
            }
        });
        address
    }

    #[test]
    fn a_client_s_connections_are_its_bulkhead_s_while_they_hang_and_while_they_are_idle() {
        let gate = Gate::new();
        let address = server(gate.clone());
        let runtime = build(&["au-http"]);
        let client = Client::builder().build(&runtime.bulkhead("au-http").unwrap()).unwrap();
        let helpers = threads_of(&runtime.audit(), "au-http").split_off(3);
        let names =
            ["wt-au-http-d", "wt-au-http-e"].map(|name| (ThreadKind::Helper, name.to_owned()));
        assert_eq!(helpers, names);

        let url = format!("http://{address}/");
        let jobs: Vec<_> = [url.clone(), url.clone()]
            .into_iter()
            .map(|url| {
                let read = move |agent: &ureq::Agent| -> Result<String, ureq::Error> {
                    agent.get(&url).call()?.body_mut().read_to_string()
                };
                client.submit(move |agent, _| read(agent)).map_err(|_| "full").unwrap()
            })
            .collect();
        gate.wait_for(2);
        assert_eq!(to(&runtime.audit(), address), [(Some("au-http"), 2, false)]);
        gate.open();
        for job in jobs {
            assert_eq!(job.join().flat().unwrap(), "42");
        }
        assert_eq!(to(&runtime.audit(), address), [(Some("au-http"), 2, false)]);

        // The service's old agent, still in use.
        let stock = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(20)));
        let stock = ureq::Agent::new_with_config(stock.build());
        assert_eq!(stock.get(&url).call().unwrap().body_mut().read_to_string().unwrap(), "42");
        let audit = runtime.audit();
        assert_eq!(to(&audit, address), [(Some("au-http"), 2, true), (None, 1, true)]);
        assert!(audit.to_string().contains("SHARED with au-http"), "{audit}");
        drop(stock);

        assert!(runtime.shutdown(crate::support::WATCHDOG).unwrap().is_clean());
        assert_eq!(to(&runtime.audit(), address), []);
    }
}

#[cfg(feature = "postgres")]
mod databases {
    use watertight::RemoteAddress;
    use watertight::postgres::{Database, Error};

    use super::*;
    use crate::postgres::throwaway;

    #[test]
    fn a_database_s_connections_are_its_bulkhead_s_and_marked_as_shared_with_another_s() {
        let Some(config) = throwaway() else { return };
        let runtime = build(&["au-orders", "au-reports"]);
        let port = config.get_ports()[0];
        let remote = RemoteAddress::Tcp(([127, 0, 0, 1], port).into());
        let database = |name| {
            let database = Database::builder(config.clone());
            database.build(&runtime.bulkhead(name).unwrap()).unwrap()
        };
        let own = |name: &str| -> Vec<(RemoteAddress, usize)> {
            let audit = runtime.audit();
            audit.connections_of(name).map(|one| (one.remote, one.count)).collect()
        };
        let orders = database("au-orders");
        assert_eq!(own("au-orders"), []);
        let one = orders.call(|client, _| -> Result<i32, Error> {
            Ok(client.query_one("select 1", &[])?.get(0))
        });
        assert_eq!(one.unwrap().unwrap(), 1);
        assert_eq!(own("au-orders"), [(remote, 1)]);

        let reports = database("au-reports");
        reports.call(|_, _| ()).unwrap();
        let audit = runtime.audit();
        let shared = |name| audit.connections_of(name).all(|one| one.shared && one.count == 1);
        assert!(shared("au-orders") && shared("au-reports"), "{audit}");

        assert!(runtime.shutdown(crate::support::WATCHDOG).unwrap().is_clean());
        assert_eq!(own("au-orders"), []);
    }

    #[test]
    fn a_database_plans_for_the_descriptors_that_its_connections_take() {
        if part().is_none() {
            let this = "a_database_plans_for_the_descriptors_that_its_connections_take";
            return alone(&format!("audit::databases::{this}"), 256);
        }
        let Some(config) = throwaway() else { return };
        let bulkhead = |name: &str, threads| Bulkhead::builder(name).threads(threads).no_deadline();
        let runtime = Runtime::builder()
            .bulkhead(bulkhead("au-fits", 1))
            .bulkhead(bulkhead("au-56", 56))
            .build()
            .unwrap();
        let database =
            |name| Database::builder(config.clone()).build(&runtime.bulkhead(name).unwrap());
        let fits = database("au-fits").unwrap();
        let before = runtime.audit().descriptors.unwrap();
        fits.call(|_, _| ()).unwrap();
        let each = runtime.audit().descriptors.unwrap() - before;
        // With 32 for the rest there is room for 55 more: of four each, and of no more.
        let error = database("au-56").unwrap_err();
        assert!(error.to_string().contains(&format!("of {each} file descriptors each")), "{error}");
        assert!(error.to_string().contains("that is 228, and 32 more"), "{error}");
    }
}
