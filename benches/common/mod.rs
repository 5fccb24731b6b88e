//! What the benches share: options, interleaved rounds, statistics, verdicts and the report.
//!
//! It is a module of each bench and a test target of its own, which is where its unit tests run.
#![allow(dead_code, reason = "each bench uses a part of it")]

pub(crate) mod machine;
pub(crate) mod options;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod rounds;
pub(crate) mod statistics;
pub(crate) mod verdict;

/// What stops a bench.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
