//! An HTTP server that the storefront depends on: pricing and recommendations are one each.
//!
//! It is written on bare sockets, with a thread for every connection, so that it never refuses or
//! queues anything itself: whatever limit the figures show belongs to the storefront. It also counts
//! what reached it, which is the evidence that a refused call opened no socket.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::latency::Latency;

/// What an origin answers about a product.
type Answer = fn(u32) -> Value;

/// A running HTTP server on a loopback port of its own.
#[derive(Debug)]
pub(crate) struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    latency: Latency,
    answer: Answer,
    sockets: AtomicU64,
    requests: AtomicU64,
    closing: AtomicBool,
}

impl Origin {
    pub(crate) fn start(name: &str, latency: Latency, answer: Answer) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            latency,
            answer,
            sockets: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            closing: AtomicBool::new(false),
        });
        let accepting = thread::Builder::new().name(format!("origin-{name}")).spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        })?;
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sockets that clients have opened so far.
    pub(crate) fn sockets(&self) -> u64 {
        self.shared.sockets.load(Ordering::Relaxed)
    }

    /// Requests that have arrived so far.
    #[cfg(test)]
    pub(crate) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        // `accept` has no time limit, so one last connection wakes it. The threads that hold
        // connections are not waited for: each ends when its client hangs up.
        if TcpStream::connect(self.address).is_ok() {
            if let Some(accepting) = self.accepting.take() {
                let _ = accepting.join();
            }
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.closing.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else { continue };
        shared.sockets.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(shared);
        // A connection that cannot be served is dropped; its client sees it closed.
        let _ = thread::Builder::new().spawn(move || converse(&stream, &shared));
    }
}

/// Serves one keep-alive connection until its client hangs up.
fn converse(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut incoming = BufReader::new(stream);
    let mut outgoing = stream;
    while let Some(product) = read_request(&mut incoming)? {
        shared.requests.fetch_add(1, Ordering::Relaxed);
        shared.latency.pass();
        let body = (shared.answer)(product).to_string();
        let length = body.len();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
        outgoing.write_all(format!("{head}{length}\r\n\r\n{body}").as_bytes())?;
    }
    Ok(())
}

/// Reads one `GET /<product>` request; `None` when the client has hung up.
fn read_request(incoming: &mut impl BufRead) -> io::Result<Option<u32>> {
    let mut line = String::new();
    if incoming.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default();
    let product = path
        .trim_start_matches('/')
        .parse()
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not GET /<product>"))?;
    // The headers say nothing that this server needs; an empty line ends them.
    while line != "\r\n" {
        line.clear();
        if incoming.read_line(&mut line)? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(product))
}
