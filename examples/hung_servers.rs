//! Shows what a server that hangs costs: when its caller has an error, when the thread is back, and what
//! the neighbour notices, here and with the plain clients.
//!
//! Run it: `cargo run --release --example hung_servers --features postgres,http`, with `-- --json` for
//! one JSON object instead of the table. You will see, for servers that hang in different ways, how long
//! after a deadline of 200 ms the caller had its error and the thread ran the next job, at the worst of
//! five times; and how long a bulkhead beside it took meanwhile for a request to a server that is well.
//! "Never" is more than 2 s. It runs offline, in two or three minutes; `-- --quick` leaves the plain
//! clients out and has each server hang once. Where PostgreSQL's programs are installed it also stops a
//! real server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use watertight::postgres::client::NoTls;
use watertight::postgres::{Client, Config, Database, Error};
use watertight::{Bulkhead, Deadline, Runtime, http};

#[path = "../tests/it/server.rs"]
mod server;

use server::{MISSING, Server};

const LIMIT: Duration = Duration::from_millis(200);
/// How long a plain client is watched before its thread counts as lost.
const WATCH: Duration = Duration::from_secs(2);
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How long after the deadline the caller had its error, and the thread was free.
#[derive(Clone, Copy)]
struct Late {
    caller: Option<Duration>,
    thread: Option<Duration>,
}

struct Row {
    server: &'static str,
    client: &'static str,
    late: Late,
    /// What a bulkhead beside it took for 99 of 100 requests. A plain client has no such thing.
    neighbour: Option<Duration>,
}

fn main() -> Result<(), Failure> {
    let asked = |option: &str| std::env::args().any(|arg| arg == option);
    let (json, quick) = (asked("--json"), asked("--quick"));
    let timer = lateness_of_a_timer();
    let beside = Neighbour::new(if quick { 1 } else { 5 })?;
    let alone = beside.during(|| thread::sleep(LIMIT * 5))?.1;
    let mut rows = Vec::new();
    for (server, address) in hung_http_servers()? {
        rows.push(guarded_http(server, address, &beside)?);
        if quick {
            continue;
        }
        for (client, limited) in
            [("plain ureq, all limits", true), ("plain ureq, as it comes", false)]
        {
            rows.push(Row { server, client, late: plain_ureq(address, limited), neighbour: None });
        }
    }
    for (server, address) in hung_postgres_servers()? {
        let database = at("127.0.0.1", address.port(), "nobody");
        rows.push(guarded_postgres(server, database, &beside)?);
        if quick {
            continue;
        }
        let client = "postgres, connect_timeout";
        rows.push(Row { server, client, late: plain_postgres(address), neighbour: None });
        let client = "r2d2 + postgres";
        rows.push(Row { server, client, late: pooled_postgres(address), neighbour: None });
    }
    rows.extend(stopped_postgres(&beside)?);
    if json {
        let millis = |late: Option<Duration>| late.map(|late| late.as_secs_f64() * 1e3);
        let rows: Vec<_> = rows
            .iter()
            .map(|Row { server, client, late, neighbour }| {
                serde_json::json!({
                    "server": server,
                    "client": client,
                    "caller_ms_after_deadline": millis(late.caller),
                    "thread_ms_after_deadline": millis(late.thread),
                    "neighbour_p99_ms": millis(*neighbour),
                })
            })
            .collect();
        let (timer, alone) = (millis(Some(timer)), millis(Some(alone)));
        let all = serde_json::json!({
            "timer_late_ms": timer, "idle_neighbour_p99_ms": alone, "rows": rows
        });
        println!("{all}");
        return Ok(());
    }
    println!("| server | client | caller's error | thread free | neighbour's p99 |");
    println!("|---|---|---|---|---|");
    for Row { server, client, late, neighbour } in rows {
        let (caller, thread) = (say(late.caller), say(late.thread));
        let neighbour = neighbour.map_or_else(String::new, |p99| format!("{p99:.1?}"));
        println!("| {server} | {client} | {caller} | {thread} | {neighbour} |");
    }
    println!(
        "\nAfter the deadline of {LIMIT:?}. In this run a plain timer was {timer:.1?} late, and the \
         neighbour's p99 beside an idle bulkhead was {alone:.1?}."
    );
    Ok(())
}

fn say(late: Option<Duration>) -> String {
    match late {
        None => format!("never (watched {WATCH:?})"),
        Some(Duration::ZERO) => "before it".to_owned(),
        Some(late) => format!("+{late:.1?}"),
    }
}

/// The machine's share in what follows.
fn lateness_of_a_timer() -> Duration {
    let late = (0..20).map(|_| {
        let start = Instant::now();
        thread::sleep(Duration::from_millis(20));
        start.elapsed().saturating_sub(Duration::from_millis(20))
    });
    late.max().unwrap_or_default()
}

/// A bulkhead whose server is well, beside one that has something to hang on.
struct Neighbour {
    runtime: Runtime,
    client: http::Client,
    url: String,
    /// How often a server hangs. The worst is shown.
    times: usize,
}

impl Neighbour {
    fn new(times: usize) -> Result<Self, Failure> {
        let address = serve(|mut stream| {
            let mut request = [0; 4096];
            while stream.read(&mut request).is_ok_and(|n| n > 0) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
            }
        })?;
        let runtime = Runtime::builder()
            .bulkhead(Bulkhead::builder("hung").threads(1))
            .bulkhead(Bulkhead::builder("well").threads(1))
            .build()?;
        let client = http::Client::builder().build(&runtime.bulkhead("well")?)?;
        Ok(Self { runtime, client, url: format!("http://{address}/"), times })
    }

    /// The bulkhead that hangs.
    fn hung(&self) -> Result<Bulkhead, Failure> {
        Ok(self.runtime.bulkhead("hung")?)
    }

    /// What `act` comes to, and the neighbour's p99 while it acts: a request each millisecond.
    fn during<T>(&self, act: impl FnOnce() -> T) -> Result<(T, Duration), Failure> {
        let over = Arc::new(AtomicBool::new(false));
        let (stop, client, url) = (Arc::clone(&over), self.client.clone(), self.url.clone());
        let requests = thread::spawn(move || {
            let mut took = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let (start, url) = (Instant::now(), url.clone());
                let answer =
                    client.call(move |agent, _| agent.get(url).call()?.body_mut().read_to_string());
                took.push(start.elapsed());
                assert!(matches!(answer, Ok(Ok(_))), "the neighbour: {answer:?}");
                thread::sleep(Duration::from_millis(1));
            }
            took.sort();
            took[took.len() * 99 / 100]
        });
        let value = act();
        over.store(true, Ordering::Relaxed);
        Ok((value, requests.join().map_err(|_| "the neighbour failed")?))
    }

    /// Calls through the bulkhead again and again, and watches its caller and its thread.
    fn watch(
        &self,
        server: &'static str,
        client: &'static str,
        call: impl Fn(Deadline),
    ) -> Result<Row, Failure> {
        self.watch_between(server, client, || (), call, |()| ())
    }

    /// The same, with something to do before and after each call.
    fn watch_between<T>(
        &self,
        server: &'static str,
        client: &'static str,
        before: impl Fn() -> T,
        call: impl Fn(Deadline),
        after: impl Fn(T),
    ) -> Result<Row, Failure> {
        let hung = self.hung()?;
        let worst = || {
            let round = |_| {
                let state = before();
                let late = once(&hung, &call);
                after(state);
                late
            };
            let rounds: Vec<_> = (0..self.times).map(round).collect();
            let worst = |late: fn(&Late) -> Option<Duration>| {
                // One that never came back is the worst of all.
                rounds.iter().map(late).try_fold(Duration::ZERO, |most, one| Some(most.max(one?)))
            };
            Late { caller: worst(|late| late.caller), thread: worst(|late| late.thread) }
        };
        let (late, p99) = self.during(worst)?;
        Ok(Row { server, client, late, neighbour: Some(p99) })
    }
}

fn once(bulkhead: &Bulkhead, call: impl Fn(Deadline)) -> Late {
    let start = Instant::now();
    call(Deadline::after(LIMIT));
    let caller = start.elapsed().saturating_sub(LIMIT);
    // That it does the next job is what makes a thread free.
    let next = bulkhead.submit(|_| ()).ok();
    let ran = next.is_some_and(|job| matches!(job.join_timeout(WATCH), Ok(Ok(()))));
    let thread = ran.then(|| start.elapsed().saturating_sub(LIMIT));
    Late { caller: Some(caller), thread }
}

// ---- The servers ---------------------------------------------------------------------------------

fn serve(serve: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    Ok(address)
}

fn silent(mut stream: TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Nobody is taken in: the system answers no request to connect.
fn full_backlog() -> Result<SocketAddr, Failure> {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
    listener.listen(0)?;
    let address = listener.local_addr()?;
    let mut sockets = vec![listener];
    for _ in 0..3 {
        let filler = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        let _ = filler.connect_timeout(&address, Duration::from_millis(100));
        sockets.push(filler);
    }
    // Until the end of the process.
    std::mem::forget(sockets);
    Ok(address.as_socket().ok_or("no address")?)
}

fn hung_http_servers() -> Result<Vec<(&'static str, SocketAddr)>, Failure> {
    let after = |start: &'static str| {
        serve(move |mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(start.as_bytes());
            let _ = stream.read(&mut [0]);
        })
    };
    let trickle = |start: &'static str| {
        serve(move |mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(start.as_bytes());
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        })
    };
    Ok(vec![
        ("HTTP, a full backlog", full_backlog()?),
        ("HTTP, accepts and says nothing", after("")?),
        ("HTTP, silent in the body", after("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhe")?),
        ("HTTP, a head without end", trickle("HTTP/1.1 200 OK\r\nX-Slow: ")?),
        ("HTTP, a body without end", trickle("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?),
    ])
}

fn hung_postgres_servers() -> Result<Vec<(&'static str, SocketAddr)>, Failure> {
    // Come in; here is a key to cancel with; ready.
    const HELLO: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x01Z\0\0\0\x05I";
    let welcoming = |row: &'static [u8], pause: Duration| {
        serve(move |mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(HELLO);
            let _ = stream.read(&mut [0; 4096]);
            while !row.is_empty() && stream.write_all(row).is_ok() {
                thread::sleep(pause);
            }
            silent(stream);
        })
    };
    let row = b"D\0\0\0\x0b\0\x01\0\0\0\x01x";
    Ok(vec![
        ("PostgreSQL, a full backlog", full_backlog()?),
        ("PostgreSQL, accepts and says nothing", serve(silent)?),
        ("PostgreSQL, silent after the handshake", welcoming(b"", Duration::ZERO)?),
        ("PostgreSQL, an answer without end", welcoming(row, Duration::from_millis(20))?),
    ])
}

// ---- The clients ---------------------------------------------------------------------------------

fn guarded_http(
    server: &'static str,
    address: SocketAddr,
    beside: &Neighbour,
) -> Result<Row, Failure> {
    let client = http::Client::builder().build(&beside.hung()?)?;
    beside.watch(server, "watertight::http", |deadline| {
        let _ = client.call_until(deadline, move |agent, _| {
            agent.get(format!("http://{address}/")).call()?.body_mut().read_to_string()
        });
    })
}

fn at(host: &str, port: u16, user: &str) -> Config {
    let mut config = Config::new();
    config.host(host).port(port).user(user);
    config
}

fn guarded_postgres(
    server: &'static str,
    config: Config,
    beside: &Neighbour,
) -> Result<Row, Failure> {
    let database = Database::builder(config).build(&beside.hung()?)?;
    beside.watch(server, "watertight::postgres", |deadline| {
        let _ = database.call_until(deadline, |client, _| client.batch_execute("select 1"));
    })
}

/// A real server, whose process is stopped in the middle of a query and goes on after.
fn stopped_postgres(beside: &Neighbour) -> Result<Vec<Row>, Failure> {
    let Some(real) = Server::start(&[], &[]) else {
        eprintln!("**** {MISSING}. The server whose process is stopped is left out.");
        return Ok(Vec::new());
    };
    let signal = |name: &str, process: &str| {
        std::process::Command::new("kill").args([name, process]).status().map(drop)
    };
    let name = "PostgreSQL, its process stopped";
    let backend = |client: &mut Client| {
        client.query_one("select pg_backend_pid()::text", &[])?.try_get::<_, String>(0)
    };
    let database = Database::builder(real.config()).build(&beside.hung()?)?;
    let stop = || {
        let process = database.call(move |client, _| backend(client)).ok()?.ok()?;
        signal("-STOP", &process).ok()?;
        Some(process)
    };
    let guarded = beside.watch_between(
        name,
        "watertight::postgres",
        stop,
        |deadline| {
            let _ = database.call_until(deadline, |client, _| client.batch_execute("select 1"));
        },
        |process| drop(process.map(|process| signal("-CONT", &process))),
    )?;
    let mut client = real.config().connect(NoTls)?;
    let process = backend(&mut client)?;
    signal("-STOP", &process)?;
    let late = watch_thread(move || drop(client.batch_execute("select 1")));
    signal("-CONT", &process)?;
    let plain = Row { server: name, client: "postgres", late, neighbour: None };
    Ok(vec![guarded, plain])
}

/// Runs a plain client on a thread of its own; its caller is that thread.
fn watch_thread(call: impl FnOnce() + Send + 'static) -> Late {
    let (done, finished) = mpsc::channel();
    let start = Instant::now();
    thread::spawn(move || {
        call();
        let _ = done.send(());
    });
    let over = finished.recv_timeout(LIMIT + WATCH).ok();
    let late = over.map(|()| start.elapsed().saturating_sub(LIMIT));
    Late { caller: late, thread: late }
}

fn plain_ureq(address: SocketAddr, limited: bool) -> Late {
    watch_thread(move || {
        let config = ureq::Agent::config_builder();
        let config = if limited { config.timeout_global(Some(LIMIT)) } else { config };
        let agent: ureq::Agent = config.build().into();
        let _ = agent
            .get(format!("http://{address}/"))
            .call()
            .and_then(|mut response| response.body_mut().read_to_string());
    })
}

fn plain_config(address: SocketAddr) -> Config {
    let mut config = at("127.0.0.1", address.port(), "nobody");
    config.connect_timeout(LIMIT).tcp_user_timeout(LIMIT);
    config
}

fn plain_postgres(address: SocketAddr) -> Late {
    watch_thread(move || {
        let _ = plain_config(address)
            .connect(NoTls)
            .and_then(|mut client| client.batch_execute("select 1"));
    })
}

/// r2d2's caller is released by its own limit while it waits for a connection; then the thread that
/// connects for it is what is lost.
fn pooled_postgres(address: SocketAddr) -> Late {
    struct Manager(Config, mpsc::Sender<()>);
    impl r2d2::ManageConnection for Manager {
        type Connection = Client;
        type Error = Error;
        fn connect(&self) -> Result<Client, Error> {
            let client = self.0.connect(NoTls);
            let _ = self.1.send(());
            client
        }
        fn is_valid(&self, client: &mut Client) -> Result<(), Error> {
            client.simple_query("").map(drop)
        }
        fn has_broken(&self, client: &mut Client) -> bool {
            client.is_closed()
        }
    }
    let (tried, over) = mpsc::channel();
    let start = Instant::now();
    let caller = watch_thread(move || {
        let pool = r2d2::Pool::builder()
            .max_size(1)
            .min_idle(Some(0))
            .connection_timeout(LIMIT)
            .build_unchecked(Manager(plain_config(address), tried));
        let _ = pool.get().map(|mut client| client.batch_execute("select 1"));
    })
    .caller;
    let over = over.recv_timeout((LIMIT + WATCH).saturating_sub(start.elapsed())).ok();
    let thread = caller.and(over).map(|()| start.elapsed().saturating_sub(LIMIT));
    Late { caller, thread }
}
