//! What users may hold the crate to: one binary, one module for each group of promises.
#![cfg(not(any(watertight_loom, watertight_shuttle)))]
// The path that the lint proposes does not compile: it would be for one lifetime only.
#![allow(clippy::redundant_closure_for_method_calls)]

mod aborting;
mod asynchronous;
#[cfg(target_os = "linux")]
mod audit;
mod building;
mod cases;
mod clocks;
mod display;
mod ending;
mod exiting;
mod fairness;
mod hostile;
#[cfg(feature = "http")]
mod http;
mod leftovers;
#[cfg(feature = "prometheus")]
mod metrics;
mod observing;
#[cfg(any(feature = "http", feature = "postgres"))]
mod outage;
#[cfg(feature = "r2d2")]
mod pooled;
#[cfg(feature = "postgres")]
mod postgres;
mod promises;
#[cfg(feature = "postgres")]
mod server;
mod smoke;
mod support;
mod turns;
