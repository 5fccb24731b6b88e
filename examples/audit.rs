//! Which pools do I still share? A report of the process, before bulkheads and with them.
//!
//! ```text
//! cargo run --example audit --features http,r2d2
//! ```
//!
//! The service has a stock ureq agent with a timeout and a stock r2d2 pool. The first report is taken
//! before there is a runtime: it shows the threads that both start behind the service's back, and
//! where their connections go. Then `pricing` and `reviews` get bulkheads, but the old agent and the
//! old pool are still there for other callers: the second report marks the addresses that they share
//! with the bulkheads. After the shutdown nothing of the bulkheads is left.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use watertight::http::Client;
use watertight::r2d2::{ManageConnection, Pool};
use watertight::{Audit, Bulkhead, Flatten, Runtime};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let api = serve("demo-api", answer)?;
    let database = serve("demo-database", |mut stream| {
        let _ = stream.read(&mut [0]);
    })?;
    let url = format!("http://{api}/price");

    // What services have today.
    let agent = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5))).build();
    let agent = ureq::Agent::new_with_config(agent);
    let stock = ::r2d2::Pool::builder().max_size(3).build(Connections(database))?;
    let (stop, callers) = keep_calling(&agent, &url)?;

    println!("===== before there is a runtime =====\n{}\n", catch_a_look_up(Audit::of_process));

    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("pricing").threads(2))
        .bulkhead(Bulkhead::builder("reviews").threads(2))
        .build()?;
    let pricing = Client::builder().build(&runtime.bulkhead("pricing")?)?;
    let reviews = Pool::builder(Connections(database))
        .remote_address(database)
        .build(&runtime.bulkhead("reviews")?)?;
    let to = url.clone();
    pricing.call(move |agent, _| agent.get(&to).call()?.body_mut().read_to_string()).flat()?;
    reviews.call(|stream, _| stream.peer_addr())??;

    println!("===== with bulkheads =====\n{}\n", catch_a_look_up(|| runtime.audit()));

    runtime.shutdown(Duration::from_secs(1))?;
    stop.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.join().map_err(|_| "a caller has panicked")?;
    }
    drop((agent, stock));
    println!("===== after the shutdown =====\n{}", runtime.audit());
    Ok(())
}

const CALLERS: usize = 2;

/// Callers of the stock agent. Each of their requests starts a thread that looks the address up.
fn keep_calling(
    agent: &ureq::Agent,
    url: &str,
) -> io::Result<(Arc<AtomicBool>, Vec<JoinHandle<()>>)> {
    let stop = Arc::new(AtomicBool::new(false));
    let caller = |number| {
        let (agent, url, stop) = (agent.clone(), url.to_owned(), Arc::clone(&stop));
        thread::Builder::new().name(format!("front-{number}")).spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                let body = agent.get(&url).call();
                let _ = body.and_then(|mut response| response.body_mut().read_to_string());
            }
        })
    };
    let callers = (0..CALLERS).map(caller).collect::<io::Result<_>>()?;
    Ok((stop, callers))
}

/// The threads that the stock agent starts live for a fraction of a millisecond while the name server
/// is well, so it takes a few reports to see one; while it is not, they pile up. They have no name of
/// their own, and so their callers'.
fn catch_a_look_up(audit: impl Fn() -> Audit) -> Audit {
    let start = Instant::now();
    loop {
        let audit = audit();
        let front = audit.foreign_threads().filter(|one| one.name.starts_with("front")).count();
        if front > CALLERS || start.elapsed() > Duration::from_secs(2) {
            return audit;
        }
    }
}

/// Starts a server whose every connection `serve` gets, on a thread of its own.
fn serve(name: &str, serve: fn(TcpStream)) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
    let name = name.to_owned();
    spawn(&name.clone()).spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // Without a thread for it, the connection is closed.
            let _ = spawn(&name).spawn(move || serve(stream));
        }
    })?;
    Ok(address)
}

fn answer(stream: TcpStream) {
    let mut requests = BufReader::new(stream);
    let mut line = String::new();
    while requests.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if line == "\r\n" {
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n42";
            if requests.get_mut().write_all(response).is_err() {
                return;
            }
        }
        line.clear();
    }
}

/// The connections of a database client that only its own manager knows.
#[derive(Debug)]
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
