//! Clients that ask for rows and throw them away, so that a server is measured and not its client.

mod postgres;

pub use postgres::Connection;
