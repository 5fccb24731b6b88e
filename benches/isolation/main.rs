//! What does a healthy bulkhead notice of its neighbour?
//!
//! Its calls come at a steady rate while the neighbour is idle, slow, wedged, hung, panicking,
//! overloaded or burning the CPU, and the same with both in one shared pool. A row is the median,
//! over interleaved rounds, of the ratio to an idle neighbour in the same round. What partitioning
//! costs is measured too. How to read the rows: `docs/performance.md`.
//!
//! `cargo bench --bench isolation -- --quick`

#[path = "../common/mod.rs"]
mod common;

mod healthy;
mod neighbour;
mod origin;
mod partition;
mod rows;
mod site;
mod totals;

use std::process::ExitCode;

use serde_json::Value;

use common::machine::Machine;
use common::options::Options;
use common::report::Report;
use common::{Failure, plan};

fn main() -> ExitCode {
    // Panics are part of what is measured; their messages are not.
    std::panic::set_hook(Box::new(|panic| {
        if !neighbour::is_meant(panic) {
            eprintln!("{panic}");
        }
    }));
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("isolation: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<String>) -> Result<(), Failure> {
    if let Some(question) = partition::asked(&arguments) {
        return partition::answer(question);
    }
    let options = Options::read(arguments)?;
    let machine = Machine::now();
    let mut plan = rows::workloads();
    plan.extend(partition::workloads());
    plan.push(totals::workload());
    let results = plan::run(&plan, &options)?;
    let versions = vec![("watertight".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    Report {
        bench: "isolation",
        options: &options,
        machine,
        versions,
        results,
        extra: Value::Null,
    }
    .print();
    Ok(())
}
