//! Messages from clients, parsed from unchecked bytes.

use bytes::{Buf, Bytes, BytesMut};
use thalweg_formats::postgres::ValueFormat;
use thalweg_types::{Error, Result, SqlState};

/// A message received from a client.
#[derive(Debug)]
pub(super) enum Message {
    Query(String),
    Parse { name: String, sql: String, types: Vec<u32> },
    Bind(Bind),
    Describe(Named),
    Execute { portal: String, rows_max: u64 },
    Close(Named),
    Flush,
    Sync,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    Terminate,
}

#[derive(Debug)]
pub(super) struct Bind {
    pub(super) portal: String,
    pub(super) statement: String,
    pub(super) formats: Formats,
    pub(super) values: Vec<Option<Bytes>>,
    pub(super) results: Formats,
}

/// Value formats: one for each value, one for all, or none for text.
#[derive(Debug)]
pub(super) struct Formats(Vec<ValueFormat>);

#[derive(Debug)]
pub(super) enum Named {
    Statement(String),
    Portal(String),
}

impl Formats {
    /// The format of each of `count` values.
    pub(super) fn of(&self, count: usize) -> Result<Vec<ValueFormat>> {
        match self.0.as_slice() {
            [] => Ok(vec![ValueFormat::Text; count]),
            [one] => Ok(vec![*one; count]),
            all if all.len() == count => Ok(all.to_vec()),
            all => {
                let given = all.len();
                Err(violation(format!("bind message has {given} formats for {count} values")))
            }
        }
    }
}

/// Splits one complete message off the front of the input: its kind and the bytes after its length.
///
/// # Errors
/// If the length is invalid or exceeds the limit. The connection cannot continue then.
pub(super) fn split(input: &mut BytesMut, limit: usize) -> Result<Option<(u8, Bytes)>> {
    let Some((kind, length)) = input.split_first().and_then(|(kind, rest)| {
        rest.first_chunk::<4>().map(|length| (*kind, i32::from_be_bytes(*length)))
    }) else {
        return Ok(None);
    };
    let length = usize::try_from(length).ok().filter(|length| *length >= 4);
    let length = length.ok_or_else(|| violation("invalid message length".to_owned()))?;
    if length > limit {
        let message = format!("a message of {length} bytes is longer than the limit of {limit}");
        return Err(Error::new(SqlState::LIMIT_EXCEEDED, message)
            .with_hint("Send it in parts, or raise limits.message_bytes."));
    }
    if input.len() < 1 + length {
        return Ok(None);
    }
    let mut message = input.split_to(1 + length);
    message.advance(5);
    Ok(Some((kind, message.freeze())))
}

impl Message {
    /// # Errors
    /// If the bytes are not a valid message of this kind.
    pub(super) fn parse(kind: u8, body: Bytes) -> Result<Message> {
        let mut body = Body(body);
        let message = match kind {
            b'Q' => Message::Query(body.text()?),
            b'P' => Message::Parse { name: body.text()?, sql: body.text()?, types: body.types()? },
            b'B' => Message::Bind(body.bind()?),
            b'D' => Message::Describe(body.named()?),
            b'E' => Message::Execute { portal: body.text()?, rows_max: body.rows_max()? },
            b'C' => Message::Close(body.named()?),
            b'H' => Message::Flush,
            b'S' => Message::Sync,
            b'd' => return Ok(Message::CopyData(body.0)),
            b'c' => Message::CopyDone,
            b'f' => Message::CopyFail(body.text()?),
            b'X' => Message::Terminate,
            b'F' => return Err(Error::unsupported("the function call protocol")),
            other => return Err(violation(format!("invalid frontend message type {other}"))),
        };
        match body.0.is_empty() {
            true => Ok(message),
            false => Err(violation("invalid message format".to_owned())),
        }
    }

    /// True for kinds of messages that authenticated clients may send. After any other kind, the
    /// start of the next message is unknown.
    pub(super) fn is_known(kind: u8) -> bool {
        matches!(kind, b'B'..=b'F' | b'H' | b'P' | b'Q' | b'S' | b'X' | b'c' | b'd' | b'f')
    }

    /// True for messages of the extended protocol: after an error in one of them, all messages up
    /// to the next `Sync` are skipped.
    pub(super) fn is_extended(kind: u8) -> bool {
        matches!(kind, b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
    }
}

/// The unread rest of a message.
struct Body(Bytes);

impl Body {
    fn take(&mut self, length: usize) -> Result<Bytes> {
        if length > self.0.len() {
            return Err(violation("insufficient data left in message".to_owned()));
        }
        Ok(self.0.split_to(length))
    }

    fn half_word(&mut self) -> Result<u16> {
        self.take(2).map(|mut bytes| bytes.get_u16())
    }

    fn word(&mut self) -> Result<u32> {
        self.take(4).map(|mut bytes| bytes.get_u32())
    }

    /// The maximum number of rows; zero and negative numbers mean all.
    fn rows_max(&mut self) -> Result<u64> {
        let wanted = self.word()?.cast_signed();
        Ok(u64::try_from(wanted).ok().filter(|wanted| *wanted > 0).unwrap_or(u64::MAX))
    }

    /// A zero-terminated text.
    fn text(&mut self) -> Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| violation("invalid string in message".to_owned()))?;
        let bytes = self.take(end + 1)?;
        match std::str::from_utf8(&bytes[..end]) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => {
                let byte = bytes[error.valid_up_to()];
                let message = format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}");
                Err(Error::new(SqlState::INVALID_BYTE_SEQUENCE, message))
            }
        }
    }

    fn types(&mut self) -> Result<Vec<u32>> {
        let count = self.half_word()?;
        (0..count).map(|_| self.word()).collect()
    }

    fn formats(&mut self) -> Result<Formats> {
        let count = self.half_word()?;
        let format = |body: &mut Body| match body.half_word()? {
            0 => Ok(ValueFormat::Text),
            1 => Ok(ValueFormat::Binary),
            other => Err(violation(format!("unsupported format code: {other}"))),
        };
        (0..count).map(|_| format(self)).collect::<Result<_>>().map(Formats)
    }

    fn bind(&mut self) -> Result<Bind> {
        let (portal, statement, formats) = (self.text()?, self.text()?, self.formats()?);
        let count = self.half_word()?;
        let mut values = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let length = self.word()?.cast_signed();
            values.push(match usize::try_from(length) {
                Ok(length) => Some(self.take(length)?),
                Err(_) if length == -1 => None,
                Err(_) => return Err(violation("invalid length of a parameter".to_owned())),
            });
        }
        Ok(Bind { portal, statement, formats, values, results: self.formats()? })
    }

    fn named(&mut self) -> Result<Named> {
        let kind = self.take(1)?[0];
        let name = self.text()?;
        match kind {
            b'S' => Ok(Named::Statement(name)),
            b'P' => Ok(Named::Portal(name)),
            other => Err(violation(format!("invalid message subtype {other}"))),
        }
    }
}

pub(super) fn violation(message: String) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(kind: u8, body: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::from(&[kind][..]);
        bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn messages_are_split_where_they_end() {
        let mut input = framed(b'Q', b"SELECT 1\0");
        input.extend_from_slice(&framed(b'S', b""));
        let half = input.split_off(5);
        assert!(split(&mut input, 100).unwrap().is_none());
        input.unsplit(half);
        let (kind, body) = split(&mut input, 100).unwrap().unwrap();
        assert!(matches!(Message::parse(kind, body), Ok(Message::Query(sql)) if sql == "SELECT 1"));
        assert_eq!(split(&mut input, 100).unwrap().unwrap().0, b'S');
        assert!(input.is_empty());
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for length in [0_i32, 3, -1, i32::MIN, 101, i32::MAX] {
            let mut input = BytesMut::from(&b"Q"[..]);
            input.extend_from_slice(&length.to_be_bytes());
            assert!(split(&mut input, 100).is_err(), "{length}");
        }
    }

    /// Every prefix, and every byte changed, of every message: an error or a message, no panic.
    #[test]
    fn no_bytes_are_a_panic() {
        let bind = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\x01\0\0";
        let bodies: [(u8, &[u8]); 6] = [
            (b'Q', b"SELECT 1\0"),
            (b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x17"),
            (b'B', bind),
            (b'D', b"Sname\0"),
            (b'E', b"p\0\0\0\0\x05"),
            (b'C', b"Pname\0"),
        ];
        for (kind, body) in bodies {
            assert!(Message::parse(kind, Bytes::copy_from_slice(body)).is_ok());
            for end in 0..body.len() {
                assert!(Message::parse(kind, Bytes::copy_from_slice(&body[..end])).is_err());
            }
            for at in 0..body.len() {
                for byte in 0..=u8::MAX {
                    let mut changed = body.to_vec();
                    changed[at] = byte;
                    let _ = Message::parse(kind, Bytes::from(changed));
                }
            }
        }
    }
}
