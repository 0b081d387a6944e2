//! The record API over a real socket.

mod bad_input;
mod calls;
mod front_door;
mod messages;
mod one_machine;
mod search;
mod support;
mod updating;
mod writing;
