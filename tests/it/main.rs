//! What users may hold the crate to: one binary, one module for each group of promises.
#![cfg(not(watertight_loom))]

mod asynchronous;
mod cases;
mod observing;
mod smoke;
mod support;
