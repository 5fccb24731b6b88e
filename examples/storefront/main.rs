//! A product page service with one slow dependency, twice: with one pool that all calls share, and
//! with a bulkhead for each dependency.
//!
//! ```text
//! cargo run --release --example storefront             # both builds, table, docs/storefront.svg
//! cargo run --release --example storefront -- --json   # the figures as one JSON object
//! cargo run --release --example storefront -- --quick  # a short run, to see that it works
//! cargo run --release --example storefront -- --serve  # keep the service up and try it with curl
//! ```
//!
//! Everything is real: an HTTP front door with 400 request threads, HTTP dependencies over loopback
//! sockets, and `SQLite` on disk behind a connection pool. The run takes about 70 seconds and exits
//! with 0 when all targets are met, 1 when one is missed, and 2 when the machine was too busy to
//! tell (`too_noisy`).

mod bulkheads;
mod clients;
mod database;
mod dependencies;
mod figures;
mod front;
mod latency;
mod load;
mod origin;
mod page;
mod picture;
mod report;
mod run;
mod shared;
mod verdict;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::dependencies::Dependencies;
use crate::figures::Measured;
use crate::front::Front;
use crate::page::Failure;
use crate::report::Report;
use crate::run::{Build, Schedule};

const USAGE: &str = "\
Usage: storefront [--quick] [--json] [--picture PATH]
       storefront --serve [--port PORT]

  --quick         one healthy and one degraded window of 2 s per build
  --json          print one JSON object instead of the table
  --picture PATH  where the picture goes (default: docs/storefront.svg; none with --quick)
  --serve         keep the service with bulkheads up
  --port PORT     where it listens (default: 8080)";

#[derive(Debug)]
struct Options {
    quick: bool,
    json: bool,
    picture: Option<PathBuf>,
    serve: bool,
    port: u16,
}

/// `None` when only the usage is wanted.
fn options(mut words: impl Iterator<Item = String>) -> Result<Option<Options>, Failure> {
    let mut options =
        Options { quick: false, json: false, picture: None, serve: false, port: 8080 };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => options.quick = true,
            "--json" => options.json = true,
            "--serve" => options.serve = true,
            "--picture" => {
                options.picture = Some(words.next().ok_or("--picture needs a path")?.into());
            }
            "--port" => options.port = words.next().ok_or("--port needs a number")?.parse()?,
            "--help" | "-h" => return Ok(None),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    if options.picture.is_none() && !options.quick {
        options.picture = Some("docs/storefront.svg".into());
    }
    Ok(Some(options))
}

fn main() -> ExitCode {
    let options = match options(env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(3);
        }
    };
    let outcome = if options.serve { serve(options.port) } else { compare(&options) };
    outcome.unwrap_or_else(|error| {
        eprintln!("storefront: {error}");
        ExitCode::from(3)
    })
}

fn compare(options: &Options) -> Result<ExitCode, Failure> {
    let schedule = if options.quick {
        Schedule { rounds: 1, window: Duration::from_secs(2) }
    } else {
        Schedule { rounds: 3, window: Duration::from_secs(4) }
    };
    let shared = run::record(Build::Shared, schedule)?;
    let watertight = run::record(Build::Watertight, schedule)?;
    if let Some(path) = &options.picture {
        picture::draw(path, [&shared, &watertight])?;
        eprintln!("picture: {}", path.display());
    }
    let report = Report::new(&Measured::of(&shared, &watertight), options.quick);
    if options.json {
        println!("{:#}", report.json());
        eprint!("{}", report.complaint());
    } else {
        print!("{}", report.table());
    }
    Ok(ExitCode::from(report.verdict.exit_code()))
}

fn serve(port: u16) -> Result<ExitCode, Failure> {
    let dependencies = Arc::new(Dependencies::start()?);
    let storefront = run::start(Build::Watertight, &dependencies)?;
    let front = Front::open(port, &storefront, &dependencies)?;
    let at = front.address();
    println!(
        "The storefront is open. Try:

  curl -i http://{at}/product/1                              a page
  curl -X POST 'http://{at}/slow/reviews?ms=3000'            slow an optional part down
  seq 100 | xargs -P 30 -I{{}} curl -s http://{at}/product/{{}}   pages without reviews
  curl -X POST 'http://{at}/slow/pricing?ms=3000'            slow the required part down
  seq 200 | xargs -P 100 -I{{}} curl -si http://{at}/product/{{}} 503 with Retry-After
  curl http://{at}/health                                    fine throughout
  curl -X POST 'http://{at}/slow/reviews?ms=30'              and back
  curl -X POST 'http://{at}/slow/pricing?ms=15'

Ctrl-C ends it."
    );
    loop {
        thread::park();
    }
}
