//! The program as its users meet it: its arguments, streams, files and exit codes.

mod check;
mod configuration;
mod damage;
mod documents;
mod durable;
mod errors;
mod formats;
mod killed;
mod records;
mod run;
mod scripts;
mod server;
mod storage;
mod tables;
