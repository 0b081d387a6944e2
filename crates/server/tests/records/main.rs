//! The record API over a real socket.

mod bad_input;
mod calls;
mod connections;
mod front_door;
mod malformed_arrow;
mod memory;
mod messages;
mod one_machine;
mod search;
mod streaming;
mod support;
mod updating;
mod wire;
mod writing;
