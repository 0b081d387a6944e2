//! PostgreSQL's protocol, as far as statements and discarded rows need it.

use std::ops::ControlFlow;

use thalweg_types::{Error, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::errors::while_doing;
use crate::peers::Endpoint;

/// Bytes of one read from the socket.
const READ_BYTES: usize = 64 << 10;
const PROTOCOL_VERSION: u32 = 3 << 16;
/// The code in place of the protocol version with which a client sends only a cancel request.
const CANCEL_REQUEST: u32 = 80_877_102;

/// A connection to a server that speaks PostgreSQL's protocol.
pub struct Connection {
    socket: TcpStream,
    received: Vec<u8>,
    /// Number of bytes of `received` that were read already.
    seen: usize,
    /// The secret that a cancel request for this connection must present.
    key: Vec<u8>,
}

/// Cancels the running statement of a connection.
pub struct Canceler {
    server: Endpoint,
    key: Vec<u8>,
}

impl Canceler {
    /// Returns once the server has received it.
    pub async fn cancel(&self) -> Result<()> {
        let mut socket = connect(&self.server).await?;
        let body = [&CANCEL_REQUEST.to_be_bytes()[..], &self.key].concat();
        let length = u32::try_from(body.len() + 4).expect("a key is short");
        let sent = socket.write_all(&[&length.to_be_bytes()[..], &body].concat()).await;
        sent.map_err(while_doing("sending a cancel"))?;
        // The server only closes the connection.
        let ended = socket.read(&mut [0; 1]).await;
        ended.map(drop).map_err(while_doing("waiting for a cancel to be heard"))
    }
}

async fn connect(server: &Endpoint) -> Result<TcpStream> {
    let socket = TcpStream::connect(("127.0.0.1", server.port)).await;
    let socket = socket.map_err(while_doing(format!("connecting to {}", server.name)))?;
    socket.set_nodelay(true).map_err(while_doing("a socket's options"))?;
    Ok(socket)
}

impl Connection {
    /// Connects and waits until the server is ready for queries.
    pub async fn open(server: &Endpoint) -> Result<Connection> {
        let socket = connect(server).await?;
        let mut connection = Connection { socket, received: Vec::new(), seen: 0, key: Vec::new() };
        let parameters = Endpoint::PARAMETERS.map(|text| [text.as_bytes(), b"\0"].concat());
        let body = [&PROTOCOL_VERSION.to_be_bytes()[..], &parameters.concat(), b"\0"].concat();
        let length = u32::try_from(body.len() + 4).expect("a start is short");
        connection.send(&[&length.to_be_bytes()[..], &body].concat()).await?;
        connection.answer(&mut |_| ControlFlow::Continue(())).await?;
        Ok(connection)
    }

    /// A canceler for this connection's statements.
    pub fn canceler(&self, server: &Endpoint) -> Canceler {
        Canceler { server: server.clone(), key: self.key.clone() }
    }

    /// Runs a statement that may be canceled; returns true if it was.
    pub async fn is_canceled(&mut self, sql: &str) -> Result<bool> {
        match self.execute(sql).await {
            Ok(_) => Ok(false),
            // The error field of the SQLSTATE starts with `C`.
            Err(error) if error.to_string().contains(" C57014 ") => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Runs statements with rows as text; returns the number of rows.
    pub async fn execute(&mut self, sql: &str) -> Result<u64> {
        self.query(sql, &mut |_| ControlFlow::Continue(())).await
    }

    /// Runs statements through the simple protocol. `look` receives the number of rows after each
    /// read, and may stop the reading; the connection is unusable afterwards.
    pub async fn query(
        &mut self,
        sql: &str,
        look: &mut impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.send(&message(b'Q', &[sql.as_bytes(), b"\0"])).await?;
        self.answer(look).await
    }

    /// Like [`Self::query`], through the extended protocol with rows in binary.
    pub async fn query_binary(
        &mut self,
        sql: &str,
        look: &mut impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        let parse = message(b'P', &[b"\0", sql.as_bytes(), b"\0", &[0, 0]]);
        // The unnamed portal of the unnamed statement: no parameters, every column in binary.
        let bind = message(b'B', &[b"\0\0", &[0, 0], &[0, 0], &[0, 1, 0, 1]]);
        let execute = message(b'E', &[b"\0", &[0, 0, 0, 0]]);
        let sync = message(b'S', &[]);
        self.send(&[parse, bind, execute, sync].concat()).await?;
        self.answer(look).await
    }

    /// Prepares a statement under a name.
    pub async fn prepare(&mut self, name: &str, sql: &str) -> Result<()> {
        let body = [name.as_bytes(), b"\0", sql.as_bytes(), b"\0", &[0, 0]];
        self.send(&[message(b'P', &body), message(b'S', &[])].concat()).await?;
        self.answer(&mut |_| ControlFlow::Continue(())).await.map(drop)
    }

    /// Runs a prepared statement with values in text and rows in binary; returns the number of
    /// rows.
    pub async fn execute_prepared(&mut self, name: &str, values: &[&str]) -> Result<u64> {
        let count = u16::try_from(values.len()).expect("the workloads' statements are short");
        let count = count.to_be_bytes();
        let mut body = vec![b"\0", name.as_bytes(), b"\0", &[0, 0], &count];
        let length = |value: &&str| u32::try_from(value.len()).expect("values are short");
        let lengths: Vec<[u8; 4]> = values.iter().map(|one| length(one).to_be_bytes()).collect();
        for (length, value) in lengths.iter().zip(values) {
            body.extend([length.as_slice(), value.as_bytes()]);
        }
        body.push(&[0, 1, 0, 1]);
        let bind = message(b'B', &body);
        let execute = message(b'E', &[b"\0", &[0, 0, 0, 0]]);
        self.send(&[bind, execute, message(b'S', &[])].concat()).await?;
        self.answer(&mut |_| ControlFlow::Continue(())).await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.write_all(bytes).await.map_err(while_doing("sending to a server"))
    }

    /// Reads until the server is ready for the next statement; returns the number of rows.
    async fn answer(&mut self, look: &mut impl FnMut(u64) -> ControlFlow<()>) -> Result<u64> {
        let (mut rows, mut error) = (0, None);
        loop {
            while let Some((kind, body)) = self.next_message() {
                match kind {
                    b'D' => rows += 1,
                    b'K' => self.key = body.to_vec(),
                    b'E' => error = Some(String::from_utf8_lossy(body).replace('\0', " ")),
                    b'Z' => {
                        return match error {
                            None => Ok(rows),
                            Some(error) => Err(Error::internal(format!("a server said: {error}"))),
                        };
                    }
                    _ => {}
                }
            }
            if look(rows).is_break() {
                return Ok(rows);
            }
            self.receive().await?;
        }
    }

    /// The next message, if it is complete.
    fn next_message(&mut self) -> Option<(u8, &[u8])> {
        let rest = &self.received[self.seen..];
        let (head, rest) = rest.split_first_chunk::<5>()?;
        let [kind, length @ ..] = *head;
        let length = (u32::from_be_bytes(length) as usize).saturating_sub(4);
        let body = rest.get(..length)?;
        self.seen += head.len() + length;
        Some((kind, body))
    }

    async fn receive(&mut self) -> Result<()> {
        self.received.drain(..self.seen);
        self.seen = 0;
        self.received.reserve(READ_BYTES);
        let read = self.socket.read_buf(&mut self.received).await;
        match read.map_err(while_doing("reading from a server"))? {
            0 => Err(Error::internal("the server closed the connection")),
            _ => Ok(()),
        }
    }
}

fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let length = u32::try_from(body.len() + 4).expect("the workloads' statements are short");
    [&[kind][..], &length.to_be_bytes(), &body].concat()
}
