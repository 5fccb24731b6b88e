//! Shows what a server that hangs costs: when its caller has an error, and when the thread is back,
//! here and with the plain clients.
//!
//! Run it: `cargo run --release --example hung_servers --features postgres,http`, with `-- --json` for
//! one JSON object instead of the table. You will see, for servers that hang in different ways, how long
//! after a deadline of 200 ms the caller had its error and the thread was free; "never" is more than
//! 2 s. It runs offline, in about 30 s.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use watertight::postgres::client::NoTls;
use watertight::postgres::{Client, Config, Database, Error};
use watertight::{Bulkhead, Deadline, Runtime, http};

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
}

fn main() -> Result<(), Failure> {
    let json = std::env::args().any(|arg| arg == "--json");
    let timer = lateness_of_a_timer();
    let mut rows = Vec::new();
    for (server, address) in hung_http_servers()? {
        rows.push(Row { server, client: "watertight::http", late: guarded_http(address)? });
        rows.push(Row {
            server,
            client: "plain ureq, all limits",
            late: plain_ureq(address, true),
        });
        rows.push(Row {
            server,
            client: "plain ureq, as it comes",
            late: plain_ureq(address, false),
        });
    }
    let silent = serve(|mut stream| drop(stream.read_to_end(&mut Vec::new())))?;
    let server = "PostgreSQL, accepts and says nothing";
    rows.push(Row { server, client: "watertight::postgres", late: guarded_postgres(silent)? });
    rows.push(Row { server, client: "postgres, connect_timeout", late: plain_postgres(silent) });
    rows.push(Row { server, client: "r2d2 + postgres", late: pooled_postgres(silent) });
    if json {
        let millis = |late: Option<Duration>| late.map(|late| late.as_secs_f64() * 1e3);
        let rows: Vec<_> = rows
            .iter()
            .map(|Row { server, client, late }| {
                serde_json::json!({
                    "server": server,
                    "client": client,
                    "caller_ms_after_deadline": millis(late.caller),
                    "thread_ms_after_deadline": millis(late.thread),
                })
            })
            .collect();
        let timer = timer.as_secs_f64() * 1e3;
        println!("{}", serde_json::json!({ "timer_late_ms": timer, "rows": rows }));
        return Ok(());
    }
    println!("| server | client | caller's error | thread free |");
    println!("|---|---|---|---|");
    for Row { server, client, late } in rows {
        println!("| {server} | {client} | {} | {} |", say(late.caller), say(late.thread));
    }
    println!("\nAfter the deadline of {LIMIT:?}. A plain timer was {timer:.1?} late in this run.");
    Ok(())
}

fn say(late: Option<Duration>) -> String {
    late.map_or_else(|| format!("never (watched {WATCH:?})"), |late| format!("+{late:.1?}"))
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
        ("HTTP, accepts and says nothing", after("")?),
        ("HTTP, silent in the body", after("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhe")?),
        ("HTTP, a head without end", trickle("HTTP/1.1 200 OK\r\nX-Slow: ")?),
        ("HTTP, a body without end", trickle("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?),
    ])
}

// ---- The clients ---------------------------------------------------------------------------------

/// Calls through `bulkhead` and watches caller and thread.
fn watch_bulkhead(bulkhead: &Bulkhead, call: impl FnOnce(Deadline)) -> Late {
    let start = Instant::now();
    call(Deadline::after(LIMIT));
    let caller = start.elapsed().saturating_sub(LIMIT);
    while bulkhead.snapshot().running > 0 && start.elapsed() < LIMIT + WATCH {
        thread::yield_now();
    }
    let free = bulkhead.snapshot().running == 0;
    let thread = free.then(|| start.elapsed().saturating_sub(LIMIT));
    Late { caller: Some(caller), thread }
}

fn guarded_http(address: SocketAddr) -> Result<Late, Failure> {
    let runtime = Runtime::builder().bulkhead(Bulkhead::builder("http").threads(1)).build()?;
    let bulkhead = runtime.bulkhead("http")?;
    let client = http::Client::builder().build(&bulkhead)?;
    Ok(watch_bulkhead(&bulkhead, |deadline| {
        let _ = client.call_until(deadline, move |agent, _| {
            agent.get(format!("http://{address}/")).call()?.body_mut().read_to_string()
        });
    }))
}

fn guarded_postgres(address: SocketAddr) -> Result<Late, Failure> {
    let runtime = Runtime::builder().bulkhead(Bulkhead::builder("pg").threads(1)).build()?;
    let bulkhead = runtime.bulkhead("pg")?;
    let mut config = Config::new();
    config.host("127.0.0.1").port(address.port()).user("nobody");
    let database = Database::builder(config).build(&bulkhead)?;
    Ok(watch_bulkhead(&bulkhead, |deadline| {
        let _ = database.call_until(deadline, |client, _| client.batch_execute("select 1"));
    }))
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
    let mut config = Config::new();
    config.host("127.0.0.1").port(address.port()).user("nobody").connect_timeout(LIMIT);
    config.tcp_user_timeout(LIMIT);
    config
}

fn plain_postgres(address: SocketAddr) -> Late {
    watch_thread(move || drop(plain_config(address).connect(NoTls)))
}

/// r2d2's caller is released by its own limit; the thread that connects for it is what is lost.
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
    let pool = r2d2::Pool::builder()
        .max_size(1)
        .min_idle(Some(0))
        .connection_timeout(LIMIT)
        .build_unchecked(Manager(plain_config(address), tried));
    let _ = pool.get();
    let caller = Some(start.elapsed().saturating_sub(LIMIT));
    let over = over.recv_timeout((LIMIT + WATCH).saturating_sub(start.elapsed())).ok();
    Late { caller, thread: over.map(|()| start.elapsed().saturating_sub(LIMIT)) }
}
