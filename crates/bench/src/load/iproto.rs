//! Tarantool's protocol: length-prefixed msgpack, with answers in any order.

use bytes::BufMut as _;
use thalweg_types::{Error, Result};

use super::Wire;
use crate::account::Account;

const GREETING_BYTES: usize = 128;
/// The length is a msgpack number of four bytes.
const LENGTH_BYTES: usize = 5;
const NUMBER: u8 = 0xce;

const REQUEST_TYPE: u8 = 0x00;
const SYNC: u8 = 0x01;
const SELECT: u8 = 0x01;
const REPLACE: u8 = 0x03;

/// The space of all rows.
pub const SPACE: u32 = 512;

/// The client side of a Tarantool connection.
#[derive(Default)]
pub struct Iproto {
    greeted: bool,
    answered: u64,
}

impl Wire for Iproto {
    fn greet(&mut self, _out: &mut Vec<u8>) {}

    fn receive(&mut self, bytes: &[u8], _out: &mut Vec<u8>) -> Result<usize> {
        let mut done = 0;
        if !self.greeted {
            if bytes.len() < GREETING_BYTES {
                return Ok(0);
            }
            self.greeted = true;
            done = GREETING_BYTES;
        }
        while let Some((length, rest)) = bytes[done..].split_at_checked(LENGTH_BYTES) {
            let length = u32::from_be_bytes([length[1], length[2], length[3], length[4]]) as usize;
            let Some(answer) = rest.get(..length) else { break };
            // A map of three entries. The first is the code, with 0 for success.
            if answer.get(1..7) != Some(&[REQUEST_TYPE, NUMBER, 0, 0, 0, 0]) {
                let said = String::from_utf8_lossy(answer);
                return Err(Error::internal(format!("Tarantool refused: {said}")));
            }
            self.answered += 1;
            done += LENGTH_BYTES + length;
        }
        Ok(done)
    }

    fn answered(&self) -> u64 {
        self.answered
    }
}

/// Inserts a row, or replaces the one with its key.
pub fn replace(sync: u32, row: &Account, out: &mut Vec<u8>) {
    request(REPLACE, sync, out, |out| {
        out.put_slice(&[0x82, 0x10]);
        number(SPACE, out);
        // The tuple: an array of three.
        out.put_slice(&[0x21, 0x93]);
        number(row.key, out);
        number(row.amount, out);
        out.put_u8(0xa0 | row.owner().len() as u8);
        out.put_slice(row.owner());
    });
}

/// Looks a row up by its key.
pub fn select(sync: u32, key: u32, out: &mut Vec<u8>) {
    request(SELECT, sync, out, |out| {
        out.put_slice(&[0x86, 0x10]);
        number(SPACE, out);
        // First index, limit 1, offset 0, equality with the key: an array of one.
        out.put_slice(&[0x11, 0, 0x12, 1, 0x13, 0, 0x14, 0, 0x20, 0x91]);
        number(key, out);
    });
}

fn request(kind: u8, sync: u32, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_slice(&[NUMBER, 0, 0, 0, 0, 0x82, REQUEST_TYPE, kind, SYNC]);
    number(sync, out);
    body(out);
    let length = (out.len() - start - LENGTH_BYTES) as u32;
    out[start + 1..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
}

fn number(value: u32, out: &mut Vec<u8>) {
    out.put_u8(NUMBER);
    out.put_u32(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::OWNER_BYTES;

    #[test]
    fn answers_are_counted_behind_the_greeting() {
        let good = [NUMBER, 0, 0, 0, 8, 0x83, REQUEST_TYPE, NUMBER, 0, 0, 0, 0, 0x80];
        let (mut wire, mut out) = (Iproto::default(), Vec::new());
        let bytes = [&[b' '; GREETING_BYTES][..], &good, &good[..9]].concat();
        assert_eq!(wire.receive(&bytes[..100], &mut out).unwrap(), 0);
        assert_eq!(wire.receive(&bytes, &mut out).unwrap(), GREETING_BYTES + good.len());
        assert_eq!(wire.answered(), 1);
        let mut bad = good;
        bad[10] = 0x80;
        assert!(wire.receive(&bad, &mut out).is_err());
    }

    #[test]
    fn a_request_tells_its_own_length() {
        let mut out = Vec::new();
        replace(7, &Account::numbered(7, 10, OWNER_BYTES), &mut out);
        let length = u32::from_be_bytes([out[1], out[2], out[3], out[4]]) as usize;
        assert_eq!(length, out.len() - LENGTH_BYTES);
    }
}
