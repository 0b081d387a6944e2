//! Messages of the server, appended to one buffer.

use std::fmt::{Display, Write as _};
use std::io;

use arrow::datatypes::Schema;
use thalweg_formats::postgres::{Type, ValueFormat};
use thalweg_query::{Notification, TransactionStatus};
use thalweg_types::{Error, Part};

/// Messages on their way to the client.
#[derive(Default)]
pub(super) struct Replies {
    pub(super) bytes: Vec<u8>,
}

/// Severity of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    Error,
    /// The connection ends after it.
    Fatal,
}

impl Replies {
    /// Writes one message: its kind, its length, and the bytes that `body` appends.
    pub(super) fn message(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(kind);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        body(&mut self.bytes);
        let length = (self.bytes.len() - at) as u32;
        self.bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn bare(&mut self, kind: u8) {
        self.message(kind, |_| {});
    }

    /// `AuthenticationOk` and the other requests of authentication.
    pub(super) fn authentication(&mut self, code: u32, data: &[u8]) {
        self.message(b'R', |out| {
            out.extend_from_slice(&code.to_be_bytes());
            out.extend_from_slice(data);
        });
    }

    pub(super) fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |out| {
            text(out, name);
            text(out, value);
        });
    }

    pub(super) fn key_data(&mut self, id: i32, secret: i32) {
        self.message(b'K', |out| {
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&secret.to_be_bytes());
        });
    }

    pub(super) fn notification(&mut self, notification: &Notification) {
        self.message(b'A', |out| {
            out.extend_from_slice(&notification.process_id.to_be_bytes());
            text(out, &notification.channel);
            text(out, &notification.payload);
        });
    }

    /// Tells a client of a newer protocol that the server supports 3.0, and which options it does
    /// not know.
    pub(super) fn negotiate(&mut self, unknown: &[&str]) {
        self.message(b'v', |out| {
            out.extend_from_slice(&(3_u32 << 16).to_be_bytes());
            out.extend_from_slice(&(unknown.len() as u32).to_be_bytes());
            unknown.iter().for_each(|name| text(out, name));
        });
    }

    pub(super) fn ready(&mut self, status: TransactionStatus) {
        let status = match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::Active => b'T',
            TransactionStatus::Failed => b'E',
        };
        self.message(b'Z', |out| out.push(status));
    }

    pub(super) fn row_description(&mut self, schema: &Schema, formats: &[ValueFormat]) {
        self.message(b'T', |out| {
            out.extend_from_slice(&(schema.fields().len() as u16).to_be_bytes());
            for (field, format) in schema.fields().iter().zip(formats) {
                let known = Type::of(field);
                text(out, field.name());
                // The table's OID and column number are zero: clients are not told where a column
                // comes from.
                out.extend_from_slice(&[0; 6]);
                out.extend_from_slice(&known.oid.to_be_bytes());
                out.extend_from_slice(&known.size.to_be_bytes());
                out.extend_from_slice(&known.modifier.to_be_bytes());
                out.extend_from_slice(&code(*format).to_be_bytes());
            }
        });
    }

    pub(super) fn parameter_description(&mut self, types: &[u32]) {
        self.message(b't', |out| {
            out.extend_from_slice(&(types.len() as u16).to_be_bytes());
            types.iter().for_each(|oid| out.extend_from_slice(&oid.to_be_bytes()));
        });
    }

    pub(super) fn complete(&mut self, tag: impl Display) {
        self.message(b'C', |out| {
            let _ = io::Write::write_fmt(out, format_args!("{tag}\0"));
        });
    }

    pub(super) fn parse_complete(&mut self) {
        self.bare(b'1');
    }

    pub(super) fn bind_complete(&mut self) {
        self.bare(b'2');
    }

    pub(super) fn close_complete(&mut self) {
        self.bare(b'3');
    }

    pub(super) fn no_data(&mut self) {
        self.bare(b'n');
    }

    pub(super) fn empty_query(&mut self) {
        self.bare(b'I');
    }

    pub(super) fn portal_suspended(&mut self) {
        self.bare(b's');
    }

    /// Begins a copy: `G` for one from the client, `H` for one to it.
    pub(super) fn copy_response(&mut self, kind: u8, format: ValueFormat, columns: usize) {
        self.message(kind, |out| {
            out.push(code(format) as u8);
            out.extend_from_slice(&(columns as u16).to_be_bytes());
            (0..columns).for_each(|_| out.extend_from_slice(&code(format).to_be_bytes()));
        });
    }

    pub(super) fn copy_done(&mut self) {
        self.bare(b'c');
    }

    pub(super) fn error(&mut self, error: &Error, severity: Severity) {
        let severity = if severity == Severity::Fatal { "FATAL" } else { "ERROR" };
        self.message(b'E', |out| {
            fields(out, severity, error.state().0, error.message());
            if let Some(detail) = error.detail() {
                field(out, b'D', detail);
            }
            if let Some(hint) = error.hint() {
                field(out, b'H', hint);
            }
            if let Some(position) = error.position() {
                let mut digits = String::new();
                let _ = write!(digits, "{position}");
                field(out, b'P', &digits);
            }
            if let Some(subject) = error.subject() {
                field(out, b's', &subject.schema);
                field(out, b't', &subject.table);
                match &subject.part {
                    Part::Column(name) => field(out, b'c', name),
                    Part::Constraint(name) => field(out, b'n', name),
                }
            }
            if let Some(routine) = routine(error) {
                field(out, b'R', routine);
            }
            out.push(0);
        });
    }

    pub(super) fn notice(
        &mut self,
        severity: &str,
        state: &str,
        message: &str,
        detail: Option<&str>,
    ) {
        self.message(b'N', |out| {
            fields(out, severity, state, message);
            if let Some(detail) = detail {
                field(out, b'D', detail);
            }
            out.push(0);
        });
    }
}

/// The PostgreSQL function that raises the error, for drivers that depend on its name: pgjdbc and
/// asyncpg prepare a statement again after this error.
fn routine(error: &Error) -> Option<&'static str> {
    let is_outdated = error.message() == "cached plan must not change result type";
    is_outdated.then_some("RevalidateCachedQuery")
}

fn fields(out: &mut Vec<u8>, severity: &str, state: &str, message: &str) {
    field(out, b'S', severity);
    field(out, b'V', severity);
    field(out, b'C', state);
    field(out, b'M', message);
}

fn field(out: &mut Vec<u8>, kind: u8, value: &str) {
    out.push(kind);
    text(out, value);
}

/// Appends a zero-terminated text, without any zeros inside.
fn text(out: &mut Vec<u8>, value: &str) {
    out.extend(value.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

fn code(format: ValueFormat) -> u16 {
    match format {
        ValueFormat::Text => 0,
        ValueFormat::Binary => 1,
    }
}
