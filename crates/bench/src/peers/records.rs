//! Our own server as the target of a load: each call of the record API, and prepared statements.

use std::ops::Range;

use thalweg_protocol::{SERVICE, v1::Durability};
use thalweg_types::Result;

use super::Server;
use crate::account::{self, Account, OWNER_BYTES};
use crate::clients::records::{
    Durable, Found, Summary, announced, batch, look_ups, packed, searched, upserts,
};
use crate::load::grpc::Grpc;
use crate::load::{Line, Target, postgres};

/// The kind of requests to the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Acknowledged continuously.
    Write(Durability),
    /// Like [`Call::Write`], in Arrow batches.
    WriteArrow(Durability),
    /// Acknowledged once, at the end.
    Upsert(Durability),
    Search,
    /// Prepared statements over PostgreSQL's wire, with this many before each `Sync`.
    Select(u64),
}

/// A load of our server.
#[derive(Clone, Copy)]
pub struct Ours<'a> {
    server: &'a Server,
    pub call: Call,
    pub keys: u64,
    /// Rows or keys of one message.
    pub message_rows: u64,
    pub owner_bytes: usize,
}

impl<'a> Ours<'a> {
    /// Targets the server with one row per message.
    pub fn new(server: &'a Server, call: Call, keys: u64) -> Ours<'a> {
        Ours { server, call, keys, message_rows: 1, owner_bytes: OWNER_BYTES }
    }

    /// Sets the number of rows or keys in one message.
    #[must_use]
    pub fn batched(mut self, message_rows: u64) -> Ours<'a> {
        self.message_rows = message_rows;
        self
    }

    /// Sets the length of the owners' names in bytes.
    #[must_use]
    pub fn owners(mut self, owner_bytes: usize) -> Ours<'a> {
        self.owner_bytes = owner_bytes;
        self
    }

    fn message(&self, numbers: Range<u64>, out: &mut Vec<u8>) {
        let row = |number| Account::numbered(number, self.keys, self.owner_bytes);
        match self.call {
            Call::Write(_) | Call::Upsert(_) => upserts(numbers.map(|n| packed(&row(n))), out),
            Call::WriteArrow(_) => batch(&numbers.map(row).collect::<Vec<_>>(), out),
            Call::Search => look_ups(numbers, self.keys, out),
            Call::Select(_) => {
                for number in numbers {
                    postgres::select(account::key(number, self.keys), out);
                }
                postgres::sync(out);
            }
        }
    }
}

impl Target for Ours<'_> {
    fn name(&self) -> &str {
        &self.server.endpoint.name
    }

    fn process(&self) -> u32 {
        self.server.process()
    }

    fn connect(&self) -> Result<Line> {
        let mut first = Vec::new();
        let path = |method: &str| format!("/{SERVICE}/{method}");
        let grpc = self.server.grpc_port;
        let mut line = match self.call {
            Call::Write(durability) | Call::WriteArrow(durability) => {
                announced("account", durability, &mut first);
                Line::open(grpc, Box::new(Grpc::new(path("Write"), Durable::default())))?
            }
            Call::Upsert(durability) => {
                announced("account", durability, &mut first);
                Line::open(grpc, Box::new(Grpc::new(path("Upsert"), Summary::default())))?
            }
            Call::Search => {
                searched("account", &mut first);
                Line::open(grpc, Box::new(Grpc::new(path("Search"), Found::default())))?
            }
            Call::Select(_) => {
                let prepared = postgres::Prepared::new(account::SELECT);
                Line::open(self.server.endpoint.port, Box::new(prepared))?
            }
        };
        line.push(first);
        Ok(line)
    }

    fn requests(&self, numbers: Range<u64>, out: &mut Vec<u8>) {
        let together = match self.call {
            Call::Select(statements) => statements,
            _ => self.message_rows,
        };
        for start in numbers.clone().step_by(together as usize) {
            self.message(start..numbers.end.min(start + together), out);
        }
    }
}
