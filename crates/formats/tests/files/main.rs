//! Files of every format, written and read through the public interface.

#![expect(clippy::disallowed_methods, reason = "the tests' own files")]

mod csv;
mod damage;
mod directories;
mod options;
mod round_trips;
mod rows;
mod strictness;
mod writing;
