//! Front ends.

pub mod auth;
