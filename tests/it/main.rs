//! What users may hold the crate to: one binary, one module for each group of promises.
#![cfg(not(watertight_loom))]
// The path that the lint proposes does not compile: it would be for one lifetime only.
#![allow(clippy::redundant_closure_for_method_calls)]

mod aborting;
mod asynchronous;
mod building;
mod cases;
mod ending;
mod exiting;
mod hostile;
mod leftovers;
mod observing;
mod smoke;
mod support;
mod turns;
