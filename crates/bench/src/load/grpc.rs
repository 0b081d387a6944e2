//! One gRPC call on an HTTP/2 connection of its own: only the frames and windows that it needs.

use bytes::BufMut as _;
use thalweg_protocol::{Malformed, Messages};
use thalweg_types::{Error, Result};

use super::Wire;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;
/// The one stream.
const CALL: u32 = 1;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;

/// The flow-control window that this client grants the server.
const WINDOW_BYTES: u32 = (1 << 31) - 1;
const DEFAULT_WINDOW_BYTES: u32 = (1 << 16) - 1;
/// Bytes received after which the client grants more.
const WINDOW_USED_BYTES: u32 = 1 << 30;
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The replies of a call.
pub trait Replies {
    /// # Errors
    /// If an operation failed.
    fn reply(&mut self, message: &[u8]) -> Result<(), Malformed>;
    fn answered(&self) -> u64;
    fn found(&self) -> u64;
}

/// The client side of one streaming call; `R` reads its replies.
pub struct Grpc<R> {
    /// `/package.Service/Method`
    path: String,
    replies: R,
    messages: Messages,
    /// Bytes that the connection and the call may still send.
    connection_window: i64,
    call_window: i64,
    /// The call's initial window from the server's settings.
    settled_window: i64,
    frame_bytes: usize,
    received: u32,
}

impl<R: Replies> Grpc<R> {
    /// A call that is not started, with the default windows of HTTP/2.
    pub fn new(path: String, replies: R) -> Grpc<R> {
        let window = i64::from(DEFAULT_WINDOW_BYTES);
        Grpc {
            path,
            replies,
            messages: Messages::new(MESSAGE_BYTES_MAX),
            connection_window: window,
            call_window: window,
            settled_window: window,
            frame_bytes: 1 << 14,
            received: 0,
        }
    }

    fn settings(&mut self, body: &[u8], out: &mut Vec<u8>) {
        for setting in body.chunks_exact(6) {
            let name = u16::from_be_bytes([setting[0], setting[1]]);
            let value = word(&setting[2..]);
            match name {
                INITIAL_WINDOW_SIZE => {
                    self.call_window += i64::from(value) - self.settled_window;
                    self.settled_window = i64::from(value);
                }
                MAX_FRAME_SIZE => self.frame_bytes = value as usize,
                _ => {}
            }
        }
        frame(SETTINGS, ACK, 0, &[], out);
    }

    fn data(&mut self, flags: u8, mut body: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.received += body.len() as u32;
        if self.received >= WINDOW_USED_BYTES {
            let more = std::mem::take(&mut self.received).to_be_bytes();
            frame(WINDOW_UPDATE, 0, 0, &more, out);
            frame(WINDOW_UPDATE, 0, CALL, &more, out);
        }
        if flags & PADDED != 0
            && let Some((padding, rest)) = body.split_first()
        {
            body = &rest[..rest.len().saturating_sub(usize::from(*padding))];
        }
        let replies = &mut self.replies;
        let fed = self.messages.feed(body, |message| replies.reply(message));
        fed.map_err(|Malformed(what)| Error::internal(format!("a reply: {what}")))
    }

    fn frame(&mut self, head: &[u8], body: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let (kind, flags, stream) = (head[3], head[4], word(&head[5..]));
        match kind {
            DATA => self.data(flags, body, out)?,
            SETTINGS if flags & ACK == 0 => self.settings(body, out),
            PING if flags & ACK == 0 => frame(PING, ACK, 0, body, out),
            WINDOW_UPDATE if stream == 0 => self.connection_window += i64::from(word(body)),
            WINDOW_UPDATE => self.call_window += i64::from(word(body)),
            RST_STREAM => return Err(Error::internal("a server broke a call off")),
            GOAWAY => return Err(Error::internal("a server ended the connection")),
            // If the headers are also the trailers, the call ended without any reply.
            HEADERS if flags & END_STREAM != 0 && self.replies.answered() == 0 => {
                return Err(Error::internal("a server refused a call"));
            }
            _ => {}
        }
        Ok(())
    }
}

impl<R: Replies> Wire for Grpc<R> {
    fn greet(&mut self, out: &mut Vec<u8>) {
        out.put_slice(PREFACE);
        let window = WINDOW_BYTES.to_be_bytes();
        frame(SETTINGS, 0, 0, &[&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window].concat(), out);
        let more = (WINDOW_BYTES - DEFAULT_WINDOW_BYTES).to_be_bytes();
        frame(WINDOW_UPDATE, 0, 0, &more, out);
        // HPACK's static table contains POST and http, and the names of two more headers.
        let mut headers = vec![0x83, 0x86];
        literal(&[0x04], &self.path, &mut headers);
        literal(&[0x01], "127.0.0.1", &mut headers);
        literal(&[0x0f, 0x10], "application/grpc", &mut headers);
        literal(b"\x00\x02te", "trailers", &mut headers);
        frame(HEADERS, END_HEADERS, CALL, &headers, out);
    }

    fn send(&mut self, requests: &[u8], out: &mut Vec<u8>) -> usize {
        let window = self.connection_window.min(self.call_window).max(0);
        let allowed = requests.len().min(window as usize);
        for piece in requests[..allowed].chunks(self.frame_bytes) {
            frame(DATA, 0, CALL, piece, out);
        }
        self.connection_window -= allowed as i64;
        self.call_window -= allowed as i64;
        allowed
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        frame(DATA, END_STREAM, CALL, &[], out);
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize> {
        let mut done = 0;
        while let Some((head, rest)) = bytes[done..].split_at_checked(HEAD_BYTES) {
            let length = word(&[0, head[0], head[1], head[2]]) as usize;
            let Some(body) = rest.get(..length) else { break };
            self.frame(head, body, out)?;
            done += HEAD_BYTES + length;
        }
        Ok(done)
    }

    fn answered(&self) -> u64 {
        self.replies.answered()
    }

    fn found(&self) -> u64 {
        self.replies.found()
    }
}

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8], out: &mut Vec<u8>) {
    out.put_uint(body.len() as u64, 3);
    out.put_slice(&[kind, flags]);
    out.put_u32(stream);
    out.put_slice(body);
}

/// A literal header without indexing. Its value is shorter than 127 bytes.
fn literal(name: &[u8], value: &str, out: &mut Vec<u8>) {
    out.put_slice(name);
    out.push(value.len() as u8);
    out.put_slice(value.as_bytes());
}

/// The first four bytes as a number of 31 bits: HTTP/2 reserves the highest bit.
fn word(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    let length = bytes.len().min(4);
    word[..length].copy_from_slice(&bytes[..length]);
    u32::from_be_bytes(word) & (u32::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts messages.
    struct Count(u64);

    impl Replies for Count {
        fn reply(&mut self, _: &[u8]) -> Result<(), Malformed> {
            self.0 += 1;
            Ok(())
        }

        fn answered(&self) -> u64 {
            self.0
        }

        fn found(&self) -> u64 {
            0
        }
    }

    fn framed(kind: u8, stream: u32, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        frame(kind, 0, stream, body, &mut out);
        out
    }

    #[test]
    fn no_more_is_sent_than_the_windows_allow() {
        let mut call = Grpc::new("/a/B".to_owned(), Count(0));
        let mut out = Vec::new();
        let request = vec![0; 100_000];
        assert_eq!(call.send(&request, &mut out), 65_535);
        assert_eq!(call.send(&request, &mut out), 0);
        // A larger window of the call alone is not enough.
        let more = 10_u32.to_be_bytes();
        call.receive(&framed(WINDOW_UPDATE, CALL, &more), &mut out).unwrap();
        assert_eq!(call.send(&request, &mut out), 0);
        call.receive(&framed(WINDOW_UPDATE, 0, &more), &mut out).unwrap();
        assert_eq!(call.send(&request, &mut out), 10);
        // A change of settings adjusts the call's window by the difference.
        let settings = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &70_000_u32.to_be_bytes()].concat();
        call.receive(&framed(SETTINGS, 0, &settings), &mut out).unwrap();
        let more = 100_000_u32.to_be_bytes();
        call.receive(&framed(WINDOW_UPDATE, 0, &more), &mut out).unwrap();
        assert_eq!(call.send(&request, &mut out), 70_000 - 65_535);
    }

    #[test]
    fn replies_are_counted_wherever_they_are_cut() {
        let mut call = Grpc::new("/a/B".to_owned(), Count(0));
        let reply = [0, 0, 0, 0, 2, 7, 7];
        let bytes = framed(DATA, CALL, &[&reply[..], &reply, &reply[..4]].concat());
        let rest = framed(DATA, CALL, &reply[4..]);
        let mut out = Vec::new();
        assert_eq!(call.receive(&bytes[..20], &mut out).unwrap(), 0);
        assert_eq!(call.receive(&bytes, &mut out).unwrap(), bytes.len());
        assert_eq!(call.answered(), 2);
        call.receive(&rest, &mut out).unwrap();
        assert_eq!(call.answered(), 3);
    }
}
