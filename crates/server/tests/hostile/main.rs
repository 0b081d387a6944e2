//! Clients that break rules, leave in the midst, come in crowds, or want too much: each hurts
//! nobody but itself. Every test ends with the server as quiet as it was, and serving others.

mod bytes;
mod crowds;
mod grpc;
mod limits;
mod passwords;
mod planning;
mod raw;
mod support;
mod vanishing;
