//! The places where bytes of strangers come in, each as a function of bytes alone: for `fuzz/`, and
//! for the property tests that run the same with fewer inputs.
//!
//! A function takes any bytes and says how many values it made of them. It never panics, and what
//! it takes of time and memory is in proportion to the bytes.

mod statements;

use crate::{credentials, flight, http, postgres};

/// One place, and bytes that it takes, to begin with.
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

/// Each has a program of its name in `fuzz/fuzz_targets`.
pub const TARGETS: [Target; 9] = [
    target("startup", postgres::fuzz::startup, postgres::fuzz::startup_seeds),
    target("messages", postgres::fuzz::messages, postgres::fuzz::message_seeds),
    target("parameters", postgres::fuzz::parameters, postgres::fuzz::parameter_seeds),
    target("copies", postgres::fuzz::copies, postgres::fuzz::copy_seeds),
    target("tickets", flight::fuzz::tickets, flight::fuzz::ticket_seeds),
    target("tokens", credentials::fuzz::tokens, credentials::fuzz::token_seeds),
    target("requests", http::fuzz::requests, http::fuzz::request_seeds),
    target("statements", statements::statements, statements::statement_seeds),
    target("depths", statements::depths, statements::depth_seeds),
];

/// What the program of this name does with its bytes.
///
/// # Panics
/// Panics where there is no such target, or the bytes are a mistake of the server's.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.expect("each program is named after its target");
    (target.take)(bytes);
}

#[cfg(test)]
mod tests;
