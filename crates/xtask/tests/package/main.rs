//! Packages are made by the program `xtask`, listed, installed, upgraded and run.
//!
//! The program inside is a stand-in that `rustc` builds in a second, or the one that
//! `THALWEG_PROGRAM` names. Installations happen on a copy of this machine's file system, in
//! namespaces of their own. A part that this machine cannot do says `skipped` and why.
#![allow(clippy::disallowed_methods, reason = "nothing here runs in simulation")]

mod chart;
mod image;
mod machine;
mod system;
mod workflows;
