//! PostgreSQL's extended protocol: one prepared statement with many executions in flight.

use bytes::BufMut as _;
use thalweg_types::{Error, Result};

use super::Wire;
use crate::account::Account;
use crate::peers::Endpoint;

const PROTOCOL_VERSION: u32 = 3 << 16;
const HEAD_BYTES: usize = 5;
const STATEMENT: &[u8] = b"s\0";

/// A connection on which one statement is prepared.
pub struct Prepared {
    sql: &'static str,
    answered: u64,
    found: u64,
}

impl Prepared {
    /// The client side for one statement, which is prepared with the greeting.
    pub fn new(sql: &'static str) -> Prepared {
        Prepared { sql, answered: 0, found: 0 }
    }
}

impl Wire for Prepared {
    fn greet(&mut self, out: &mut Vec<u8>) {
        let parameters = Endpoint::PARAMETERS.map(|text| [text.as_bytes(), b"\0"].concat());
        let body = [&PROTOCOL_VERSION.to_be_bytes()[..], &parameters.concat(), b"\0"].concat();
        out.put_u32(body.len() as u32 + 4);
        out.put_slice(&body);
        message(b'P', out, |out| {
            out.put_slice(STATEMENT);
            out.put_slice(self.sql.as_bytes());
            out.put_slice(b"\0\0\0");
        });
        sync(out);
    }

    fn receive(&mut self, bytes: &[u8], _out: &mut Vec<u8>) -> Result<usize> {
        let mut done = 0;
        while let Some((head, rest)) = bytes[done..].split_at_checked(HEAD_BYTES) {
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let Some(body) = rest.get(..length.saturating_sub(4)) else { break };
            match head[0] {
                b'C' => self.answered += 1,
                b'D' => self.found += 1,
                b'E' => {
                    let said = String::from_utf8_lossy(body).replace('\0', " ");
                    return Err(Error::internal(format!("a server said: {said}")));
                }
                _ => {}
            }
            done += HEAD_BYTES + body.len();
        }
        Ok(done)
    }

    fn answered(&self) -> u64 {
        self.answered
    }

    fn found(&self) -> u64 {
        self.found
    }
}

/// Executes `INSERT … VALUES ($1, $2, $3) …`.
pub fn upsert(row: &Account, out: &mut Vec<u8>) {
    let (key, amount) = (row.key.to_be_bytes(), row.amount.to_be_bytes());
    execute(&[&key, &amount, row.owner()], out);
}

/// Executes `SELECT … WHERE id = $1`.
pub fn select(key: u32, out: &mut Vec<u8>) {
    execute(&[&key.to_be_bytes()], out);
}

/// Ends an implicit transaction.
pub fn sync(out: &mut Vec<u8>) {
    message(b'S', out, |_| {});
}

/// Binds binary parameters and runs the statement to its end, with rows in binary.
fn execute(parameters: &[&[u8]], out: &mut Vec<u8>) {
    message(b'B', out, |out| {
        out.put_u8(0);
        out.put_slice(STATEMENT);
        out.put_slice(&[0, 1, 0, 1]);
        out.put_u16(parameters.len() as u16);
        for parameter in parameters {
            out.put_u32(parameter.len() as u32);
            out.put_slice(parameter);
        }
        out.put_slice(&[0, 1, 0, 1]);
    });
    message(b'E', out, |out| out.put_slice(&[0; 5]));
}

fn message(kind: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.put_u8(kind);
    let start = out.len();
    out.put_u32(0);
    body(out);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_counted_by_their_ends() {
        let (mut wire, mut out) = (Prepared::new("SELECT 1"), Vec::new());
        let mut answers = Vec::new();
        for kind in [b'1', b'Z', b'2', b'D', b'C', b'2', b'D', b'C'] {
            message(kind, &mut answers, |body| body.put_slice(b"body"));
        }
        let cut = answers.len() - 1;
        assert_eq!(wire.receive(&answers[..cut], &mut out).unwrap(), answers.len() - 9);
        assert_eq!((wire.answered(), wire.found()), (1, 2));
        let mut error = Vec::new();
        message(b'E', &mut error, |body| body.put_slice(b"no\0"));
        assert!(wire.receive(&error, &mut out).is_err());
    }
}
