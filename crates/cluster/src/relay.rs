//! Relays workers' answers to a client.
//!
//! If a gateway has nothing to compute, workers encode the rows in the client's format, as messages
//! of PostgreSQL. The gateway forwards the pieces of the HTTP/2 bodies as they arrive and cuts them
//! between messages ([`Parts`]), since several workers answer one client. The cost of encoding is
//! then paid by the workers, of which there are many.
//!
//! Invariants: a piece is requested only when the client has taken the one before, so a client that
//! stops reading stops the workers. A lost worker is an error that names it.

mod parts;

pub use parts::{COUNT_BYTES, Part, Parts};
