//! A service's metrics and health checks: `cargo run --example metrics_endpoint --features prometheus-serve`
//!
//! It prints where they are and what a scraper sees. With `-- --stay` it goes on serving, for a browser.

use std::io::{Read, Write};
use std::net::TcpStream;

use watertight::metrics::{Metrics, Server};
use watertight::{Bulkhead, Runtime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("checkout").threads(20))
        .bulkhead(Bulkhead::builder("reviews").threads(2).queue(0))
        .build()?;
    let server =
        Server::builder(&Metrics::of(&runtime)).require("checkout").serve("127.0.0.1:0")?;
    println!("http://{0}/metrics, http://{0}/readyz, /livez, /snapshot.json", server.local_addr());

    runtime.bulkhead("reviews")?.call(|_| "five stars")?;
    let mut scraper = TcpStream::connect(server.local_addr())?;
    scraper.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    scraper.read_to_string(&mut answer)?;
    for line in answer.lines().filter(|line| line.starts_with("watertight_ended_total")) {
        println!("{line}");
    }
    while std::env::args().any(|argument| argument == "--stay") {
        std::thread::park();
    }
    Ok(())
}
