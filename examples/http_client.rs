//! Shows that a server which accepts and never answers costs its callers 200 ms and no thread, that
//! the thread is back at once, and that the neighbour does not notice.
//!
//! Run it: `cargo run --example http_client --features http`. You will see three calls that end at
//! their limit, each with the bulkhead's numbers after it, and a neighbour that answers throughout.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use watertight::http::{Client, Fault, fault};
use watertight::{Bulkhead, Runtime};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("reviews").threads(1).call_limit(Duration::from_millis(200)))
        .bulkhead(Bulkhead::builder("pricing").threads(2))
        .build()?;
    // Each has an agent of its own: connections, look-ups and limits.
    let reviews = Client::builder().build(&runtime.bulkhead("reviews")?)?;
    let pricing = Client::builder().build(&runtime.bulkhead("pricing")?)?;
    let (silent, well) = (serve(None)?, serve(Some("990"))?);

    for _ in 0..3 {
        let start = Instant::now();
        let answer = reviews.call(move |agent, _| {
            let answer = agent.get(format!("http://{silent}/")).call();
            println!("  the worker: {:?}", fault(&answer).unwrap_or(Fault::Failure));
        });
        let took = start.elapsed();
        println!(
            "reviews after {took:.1?}: {}",
            answer.err().map_or("the worker was back in time to say so".into(), |e| e.to_string())
        );
        // The worker has its thread back without having been told anything by the server.
        while reviews.bulkhead().snapshot().running > 0 {
            std::thread::yield_now();
        }
        println!("  {}", reviews.bulkhead().snapshot());
        let price = pricing.call(move |agent, _| {
            agent.get(format!("http://{well}/")).call()?.body_mut().read_to_string()
        })??;
        println!("pricing meanwhile: {price}");
    }
    println!("{}", runtime.shutdown(Duration::from_secs(1))?);
    Ok(())
}

/// A server that answers every request with `body`, or accepts and stays silent.
fn serve(body: Option<&'static str>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                while matches!(stream.read(&mut [0; 1024]), Ok(1..)) {
                    let Some(body) = body else { continue };
                    let length = body.len();
                    let _ =
                        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
                }
            });
        }
    });
    Ok(address)
}
