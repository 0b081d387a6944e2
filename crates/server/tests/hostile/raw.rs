//! PostgreSQL's protocol by hand: messages that no driver would send.

use thalweg_server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Raw {
    pub socket: TcpStream,
}

/// A message of the server: its kind and its body.
pub type Reply = (u8, Vec<u8>);

pub fn start_up(user: &str) -> Vec<u8> {
    let body = [&(3_u32 << 16).to_be_bytes()[..], b"user\0", user.as_bytes(), b"\0\0"].concat();
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

impl Raw {
    pub async fn connect(server: &Server) -> Raw {
        Raw { socket: TcpStream::connect(server.addresses().postgres).await.unwrap() }
    }

    /// A session of the superuser's, ready for statements.
    pub async fn session(server: &Server) -> Raw {
        let mut raw = Raw::connect(server).await;
        raw.send(&start_up("thalweg")).await;
        raw.until(b'Z').await;
        raw
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    /// The next message; `None` where the server has closed the connection.
    pub async fn next(&mut self) -> Option<Reply> {
        let mut head = [0; 5];
        self.socket.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        self.socket.read_exact(&mut body).await.ok()?;
        Some((head[0], body))
    }

    /// All messages up to one of this kind.
    pub async fn until(&mut self, kind: u8) -> Vec<Reply> {
        let mut replies = Vec::new();
        loop {
            let reply = self.next().await;
            let reply = reply.unwrap_or_else(|| panic!("the server is gone after {replies:?}"));
            let is_last = reply.0 == kind;
            replies.push(reply);
            if is_last {
                return replies;
            }
        }
    }

    /// The SQLSTATE of the error that comes next.
    pub async fn refusal(&mut self) -> String {
        let replies = self.until(b'E').await;
        let (_, body) = replies.last().unwrap();
        field(body, b'C')
    }
}

/// A field of an error.
pub fn field(error: &[u8], kind: u8) -> String {
    let fields = error.split(|byte| *byte == 0);
    let found = fields.into_iter().find(|field| field.first() == Some(&kind));
    String::from_utf8(found.expect("an error has the field")[1..].to_vec()).unwrap()
}
