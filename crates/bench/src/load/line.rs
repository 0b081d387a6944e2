//! A nonblocking connection.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};

use bytes::{Buf as _, Bytes};
use thalweg_types::{Error, Result};

use super::Wire;
use crate::errors::while_doing;

#[expect(clippy::disallowed_types, reason = "nobody but this thread may look after the socket")]
type Socket = std::net::TcpStream;

const READ_BYTES: usize = 128 << 10;
/// Maximum bytes that are prepared for the socket at once.
const WRITE_BYTES: usize = 256 << 10;

/// A connection of a load, driven by one thread.
pub struct Line {
    wire: Box<dyn Wire>,
    socket: Socket,
    /// Requests that the protocol has not taken yet.
    waiting: VecDeque<Bytes>,
    /// `last` is true if no more requests follow; `finished` if the server was notified.
    last: bool,
    finished: bool,
    /// Bytes ready for the socket, and the number of them that were written.
    out: Vec<u8>,
    went: usize,
    input: Vec<u8>,
    /// Number of bytes of `input` that were received and not yet read.
    held: usize,
}

impl Line {
    /// Connects to a port of this machine and prepares the greeting.
    pub fn open(port: u16, mut wire: Box<dyn Wire>) -> Result<Line> {
        let socket = Socket::connect(("127.0.0.1", port));
        let socket = socket.map_err(while_doing(format!("connecting to port {port}")))?;
        let prepared = socket.set_nodelay(true).and_then(|()| socket.set_nonblocking(true));
        prepared.map_err(while_doing("a socket's options"))?;
        let mut out = Vec::new();
        wire.greet(&mut out);
        let (waiting, input) = (VecDeque::new(), vec![0; READ_BYTES]);
        Ok(Line {
            wire,
            socket,
            waiting,
            last: false,
            finished: false,
            out,
            went: 0,
            input,
            held: 0,
        })
    }

    /// Queues requests for sending.
    pub fn push(&mut self, requests: impl Into<Bytes>) {
        let requests = requests.into();
        if !requests.is_empty() {
            self.waiting.push_back(requests);
        }
    }

    /// Marks the end: no more requests follow.
    pub fn finish(&mut self) {
        self.last = true;
    }

    /// True if another piece can be pushed without queueing too many.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < 2
    }

    /// Number of answered operations.
    pub fn answered(&self) -> u64 {
        self.wire.answered()
    }

    /// Number of rows in the answers.
    pub fn found(&self) -> u64 {
        self.wire.found()
    }

    /// Writes and reads as much as is possible without waiting; returns true if any byte moved.
    ///
    /// # Errors
    /// If the server refused a request or closed the connection.
    pub fn turn(&mut self) -> Result<bool> {
        let wrote = self.write()?;
        Ok(self.read()? || wrote)
    }

    /// Calls [`turn`](Self::turn) until this many operations are answered.
    ///
    /// # Errors
    /// Like [`turn`](Self::turn).
    pub fn wait_for(&mut self, operations: u64) -> Result<()> {
        while self.answered() < operations {
            self.turn()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<bool> {
        if self.went == self.out.len() {
            self.out.clear();
            self.went = 0;
            self.fill();
        }
        if self.out.is_empty() {
            return Ok(false);
        }
        match self.socket.write(&self.out[self.went..]) {
            Ok(bytes) => {
                self.went += bytes;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(while_doing("sending to a server")(error)),
        }
    }

    fn fill(&mut self) {
        while self.out.len() < WRITE_BYTES {
            let Some(requests) = self.waiting.front_mut() else {
                if self.last && !std::mem::replace(&mut self.finished, true) {
                    self.wire.finish(&mut self.out);
                }
                break;
            };
            let taken = self.wire.send(requests, &mut self.out);
            requests.advance(taken);
            if requests.is_empty() {
                self.waiting.pop_front();
            } else {
                break;
            }
        }
    }

    fn read(&mut self) -> Result<bool> {
        let bytes = match self.socket.read(&mut self.input[self.held..]) {
            Ok(0) => return Err(Error::internal("a server closed the connection")),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(while_doing("reading from a server")(error)),
        };
        self.held += bytes;
        let done = self.wire.receive(&self.input[..self.held], &mut self.out)?;
        self.input.copy_within(done..self.held, 0);
        self.held -= done;
        if self.held == self.input.len() {
            return Err(Error::internal("a server sent an answer without end"));
        }
        Ok(true)
    }
}
