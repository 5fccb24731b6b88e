//! watertight beside what a user could pick instead: the bench is this package's only purpose.
//!
//! Everybody runs the same jobs, interleaved, in several rounds; a row is the median of the rounds'
//! ratios. The jobs count themselves, and whoever did fewer than it claims ends the run. How to read
//! the rows: `docs/performance.md`.

#[path = "../../common/mod.rs"]
mod common;
mod contenders;
mod probe;
mod versions;
mod work;
mod workloads;

use std::process::ExitCode;

use serde_json::Value;

use common::machine::Machine;
use common::options::Options;
use common::report::Report;
use common::{Failure, plan};

/// Runs what the arguments ask for.
#[must_use]
pub fn main(arguments: Vec<String>) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("versus: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<String>) -> Result<(), Failure> {
    if let Some(question) = probe::asked(&arguments) {
        return probe::answer(question);
    }
    let options = Options::read(arguments)?;
    let machine = Machine::now();
    let results = plan::run(&workloads::plan(), &options)?;
    let versions = versions::of_contenders()?;
    Report { bench: "versus", options: &options, machine, versions, results, extra: Value::Null }
        .print();
    Ok(())
}
