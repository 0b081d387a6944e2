//! Entry points for untrusted bytes, each as a function of bytes alone. The programs in `fuzz/` and
//! the property tests, which use fewer inputs, both run them.
//!
//! A function accepts any bytes and returns how many values it decoded. It never panics, and its
//! time and memory are proportional to the input.

mod statements;

use crate::{credentials, flight, http, postgres};

/// One entry point, with seed inputs to start from.
pub struct Target {
    pub name: &'static str,
    pub take: fn(&[u8]) -> usize,
    pub seeds: fn() -> Vec<Vec<u8>>,
}

const fn target(
    name: &'static str,
    take: fn(&[u8]) -> usize,
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    Target { name, take, seeds }
}

/// All targets. Each has a program of the same name in `fuzz/fuzz_targets`.
pub const TARGETS: [Target; 10] = [
    target("startup", postgres::fuzz::startup, postgres::fuzz::startup_seeds),
    target("messages", postgres::fuzz::messages, postgres::fuzz::message_seeds),
    target("parameters", postgres::fuzz::parameters, postgres::fuzz::parameter_seeds),
    target("copies", postgres::fuzz::copies, postgres::fuzz::copy_seeds),
    target("tickets", flight::fuzz::tickets, flight::fuzz::ticket_seeds),
    target("tokens", credentials::fuzz::tokens, credentials::fuzz::token_seeds),
    target("requests", http::fuzz::requests, http::fuzz::request_seeds),
    target("lines", http::influx::fuzz::lines, http::influx::fuzz::line_seeds),
    target("statements", statements::statements, statements::statement_seeds),
    target("depths", statements::depths, statements::depth_seeds),
];

/// Runs the target of the given name on the bytes.
///
/// # Panics
/// Panics if there is no such target, or if the bytes trigger a bug in the server.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.expect("each program is named after its target");
    (target.take)(bytes);
}

#[cfg(test)]
mod tests;
