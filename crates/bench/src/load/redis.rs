//! Redis's protocol, in which requests and replies consist of lines.

use bytes::BufMut as _;
use thalweg_types::{Error, Result};

use super::Wire;
use crate::account::Account;

/// The client side of a Redis connection.
#[derive(Default)]
pub struct Resp {
    answered: u64,
    found: u64,
}

impl Wire for Resp {
    fn greet(&mut self, _out: &mut Vec<u8>) {}

    fn receive(&mut self, bytes: &[u8], _out: &mut Vec<u8>) -> Result<usize> {
        let mut done = 0;
        while let Some((line, mut length)) = line(&bytes[done..]) {
            match line.first() {
                Some(b'+') => {}
                Some(b'$') => {
                    // A value of this many bytes follows; -1 means no value.
                    let text = String::from_utf8_lossy(&line[1..]);
                    if let Ok(value_bytes) = text.parse::<usize>() {
                        length += value_bytes + 2;
                        self.found += u64::from(bytes.len() - done >= length);
                    }
                }
                _ => {
                    let said = String::from_utf8_lossy(line);
                    return Err(Error::internal(format!("Redis refused: {said}")));
                }
            }
            if bytes.len() - done < length {
                break;
            }
            self.answered += 1;
            done += length;
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

/// The first line without its terminator, and its length with it.
fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[..end.saturating_sub(1)], end + 1))
}

/// Appends a `SET` of a row, with the key and amount in binary.
pub fn set(row: &Account, out: &mut Vec<u8>) {
    let value_bytes = 4 + row.owner().len();
    out.put_slice(b"*3\r\n$3\r\nSET\r\n$4\r\n");
    out.put_u32_le(row.key);
    out.put_slice(format!("\r\n${value_bytes}\r\n").as_bytes());
    out.put_u32_le(row.amount);
    out.put_slice(row.owner());
    out.put_slice(b"\r\n");
}

/// Appends a `GET` of a key in binary.
pub fn get(key: u32, out: &mut Vec<u8>) {
    out.put_slice(b"*2\r\n$3\r\nGET\r\n$4\r\n");
    out.put_u32_le(key);
    out.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_when_they_are_whole() {
        let (mut resp, mut out) = (Resp::default(), Vec::new());
        assert_eq!(resp.receive(b"+OK\r\n$4\r\n\r\n", &mut out).unwrap(), 5);
        assert_eq!(resp.receive(b"$4\r\n\r\nab\r\n$-1\r\n+O", &mut out).unwrap(), 15);
        assert_eq!((resp.answered(), resp.found()), (3, 1));
        assert!(resp.receive(b"-ERR no\r\n", &mut out).is_err());
    }
}
