//! A product page service with one slow dependency, twice: with one pool that all calls share, and
//! with a bulkhead for each dependency.
//!
//! ```text
//! cargo run --release --example storefront                 # both builds, a table and a picture
//! cargo run --release --example storefront -- --mode hung  # reviews does not answer at all
//! cargo run --release --example storefront -- --json       # the figures as one JSON object
//! cargo run --release --example storefront -- --quick      # a short run, to see that it works
//! cargo run --release --example storefront -- --serve      # keep it up and try it with curl
//! cargo run --release --features postgres --example storefront -- --database postgres
//! ```
//!
//! Everything is real: an HTTP front door with 400 request threads, HTTP dependencies over loopback
//! sockets, and a database behind a connection pool: `SQLite` on disk or a PostgreSQL server. The
//! run takes about 70 seconds and exits with 0 when all targets are met, 1 when one is missed, and 2
//! when the machine was too busy to tell (`too_noisy`).

mod bulkheads;
mod clients;
mod database;
mod dependencies;
mod figures;
mod front;
mod latency;
mod load;
mod options;
mod origin;
mod page;
mod picture;
mod report;
mod run;
mod shared;
mod targets;
mod verdict;

use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::bulkheads::Bulkheads;
use crate::database::Kind;
use crate::dependencies::Dependencies;
use crate::figures::Measured;
use crate::front::Front;
use crate::options::{Options, USAGE, options};
use crate::page::{Failure, Storefront};
use crate::report::Report;
use crate::run::{Build, Schedule};

fn main() -> ExitCode {
    #[cfg(feature = "postgres")]
    if let Some(code) = database::clean_up() {
        return code;
    }
    let words: Vec<_> = env::args().skip(1).collect();
    let options = match options(&words) {
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
    let outcome =
        if options.serve { serve(options.setup.database, options.port) } else { compare(&options) };
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
    let shared = run::record(Build::Shared, options.setup, schedule)?;
    let watertight = run::record(Build::Watertight, options.setup, schedule)?;
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

fn serve(database: Kind, port: u16) -> Result<ExitCode, Failure> {
    let dependencies = Arc::new(Dependencies::start(database)?);
    let bulkheads = Arc::new(Bulkheads::start(&dependencies)?);
    let storefront = Arc::clone(&bulkheads) as Arc<dyn Storefront>;
    let front = Front::open(port, &storefront, &dependencies)?;
    let at = front.address();
    #[cfg(feature = "prometheus-serve")]
    let metrics = bulkheads.serve_metrics(if port == 0 { 0 } else { port.saturating_add(1) })?;
    #[cfg(feature = "prometheus-serve")]
    let (numbers, what) = (format!("curl http://{}/metrics", metrics.local_addr()), "the numbers");
    #[cfg(not(feature = "prometheus-serve"))]
    let (numbers, what) = ("--features prometheus-serve".to_owned(), "adds metrics");
    println!(
        "The storefront is open. Try:

  curl -i http://{at}/product/1                              a page
  curl -X POST 'http://{at}/slow/reviews?ms=3000'            slow an optional part down
  curl -X POST 'http://{at}/slow/reviews?ms=never'           or let it hang
  seq 100 | xargs -P 30 -I{{}} curl -s http://{at}/product/{{}}   pages without reviews
  curl -X POST 'http://{at}/slow/pricing?ms=3000'            slow the required part down
  seq 200 | xargs -P 100 -I{{}} curl -si http://{at}/product/{{}} 503 with Retry-After
  curl http://{at}/health                                    fine throughout
  curl -X POST 'http://{at}/slow/reviews?ms=30'              and back
  curl -X POST 'http://{at}/slow/pricing?ms=15'
  {numbers:<69}{what}

Ctrl-C ends it."
    );
    loop {
        thread::park();
    }
}
