//! Servers, and a client that sends bytes and tells in short what comes back.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thalweg_query::Database;
use thalweg_server::{Server, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub const SUPERUSER: &str = "thalweg";
/// A user without any rights beyond what is theirs.
pub const EVE: &str = "eve";

pub async fn server() -> Server {
    server_with(|_| {}).await
}

pub async fn server_with(change: impl FnOnce(&mut ServerConfig)) -> Server {
    let mut config = ServerConfig::default();
    config.listen.postgres_port = 0;
    config.listen.grpc_port = 0;
    config.listen.http_port = 0;
    change(&mut config);
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    for sql in [
        "CREATE ROLE eve LOGIN PASSWORD 'secret'",
        "CREATE TABLE t (a int PRIMARY KEY, b text)",
        "GRANT SELECT, INSERT ON t TO eve",
    ] {
        session.execute(sql).await.unwrap();
    }
    Server::start(config, database).await.unwrap()
}

/// One message of the server.
#[derive(Debug)]
pub struct Reply {
    pub kind: u8,
    pub body: Bytes,
}

pub struct Raw {
    stream: TcpStream,
    input: BytesMut,
    pub id: i32,
    pub secret: i32,
}

impl Raw {
    /// A socket to which nothing was said.
    pub async fn open(server: &Server) -> Raw {
        let stream = TcpStream::connect(server.addresses().postgres).await.unwrap();
        Raw { stream, input: BytesMut::new(), id: 0, secret: 0 }
    }

    pub async fn connect(server: &Server, user: &str) -> Raw {
        let mut raw = Raw::open(server).await;
        raw.send(&[hello(&[("user", user), ("database", "thalweg")])]).await;
        raw.begin().await;
        raw
    }

    /// Takes the greeting in.
    pub async fn begin(&mut self) {
        for reply in self.until_ready().await {
            if reply.kind == b'K' {
                let mut body = reply.body;
                (self.id, self.secret) = (body.get_i32(), body.get_i32());
            }
        }
        assert_ne!(self.id, 0, "the connection has begun");
    }

    pub async fn send(&mut self, messages: &[Bytes]) {
        self.stream.write_all(&messages.concat()).await.unwrap();
    }

    /// The next message; `None` at the end.
    pub async fn next(&mut self) -> Option<Reply> {
        loop {
            if let Some(length) = self.input.get(1..5) {
                let length = i32::from_be_bytes(length.try_into().unwrap()) as usize;
                if self.input.len() > length {
                    let mut message = self.input.split_to(1 + length);
                    let kind = message.get_u8();
                    message.advance(4);
                    return Some(Reply { kind, body: message.freeze() });
                }
            }
            if matches!(self.stream.read_buf(&mut self.input).await, Ok(0) | Err(_)) {
                assert!(self.input.is_empty(), "a message is cut off");
                return None;
            }
        }
    }

    /// Everything up to one of the kinds, or to the end.
    pub async fn until(&mut self, kinds: &[u8]) -> Vec<Reply> {
        let mut replies = Vec::new();
        while let Some(reply) = self.next().await {
            let kind = reply.kind;
            replies.push(reply);
            if kinds.contains(&kind) {
                break;
            }
        }
        replies
    }

    pub async fn until_ready(&mut self) -> Vec<Reply> {
        self.until(b"Z").await
    }

    /// What comes back up to the next `ReadyForQuery`, or the end, in short.
    pub async fn ask(&mut self, messages: &[Bytes]) -> String {
        self.send(messages).await;
        summary(&self.until_ready().await)
    }

    pub async fn sql(&mut self, sql: &str) -> String {
        self.ask(&[query(sql)]).await
    }

    /// Begins a `COPY` from the client.
    pub async fn copy(&mut self, sql: &str) {
        self.send(&[query(sql)]).await;
        assert_eq!(summary(&self.until(b"GZ").await), "G");
    }

    /// Whether nothing comes any more.
    pub async fn is_over(&mut self) -> bool {
        self.next().await.is_none()
    }
}

/// Replies in short: kinds, and what tells more: rows, tags, SQLSTATEs, the state of transactions.
pub fn summary(replies: &[Reply]) -> String {
    let mut summary = Vec::new();
    for Reply { kind, body } in replies {
        let kind = char::from(*kind);
        let what = match kind {
            'D' => row(body),
            'C' => text(&body[..body.len() - 1]),
            'E' => field(body, b'C').unwrap(),
            'N' => field(body, b'M').unwrap(),
            'Z' => text(body),
            'A' => notification(body),
            'S' => {
                let mut texts = body.split(|byte| *byte == 0).map(text);
                format!("{}={}", texts.next().unwrap(), texts.next().unwrap())
            }
            _ => String::new(),
        };
        summary.push(if what.is_empty() { kind.to_string() } else { format!("{kind}({what})") });
    }
    summary.join(" ")
}

/// One field of an error or a notice.
pub fn field(body: &[u8], wanted: u8) -> Option<String> {
    let mut fields = body.split(|byte| *byte == 0);
    fields.find(|field| field.first() == Some(&wanted)).map(|field| text(&field[1..]))
}

/// `channel:payload`
fn notification(body: &Bytes) -> String {
    let mut texts = body[4..].split(|byte| *byte == 0).map(text);
    format!("{}:{}", texts.next().unwrap(), texts.next().unwrap())
}

fn row(body: &Bytes) -> String {
    let mut body = body.clone();
    let values = (0..body.get_u16()).map(|_| match body.get_i32() {
        -1 => "NULL".to_owned(),
        length => text(&body.split_to(length as usize)),
    });
    values.collect::<Vec<_>>().join(",")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn message(kind: u8, body: &[u8]) -> Bytes {
    let mut message = BytesMut::new();
    message.put_u8(kind);
    message.put_u32(body.len() as u32 + 4);
    message.put_slice(body);
    message.freeze()
}

/// The first message of a connection.
pub fn hello(settings: &[(&str, &str)]) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u32(3 << 16);
    for text in settings.iter().flat_map(|(name, value)| [name, value]) {
        put_text(&mut body, text);
    }
    body.put_u8(0);
    framed(&body)
}

/// A message without a kind, such as come before a connection has begun.
pub fn framed(body: &[u8]) -> Bytes {
    let mut message = BytesMut::new();
    message.put_u32(body.len() as u32 + 4);
    message.put_slice(body);
    message.freeze()
}

fn put_text(body: &mut BytesMut, text: &str) {
    body.put_slice(text.as_bytes());
    body.put_u8(0);
}

pub fn query(sql: &str) -> Bytes {
    message(b'Q', &[sql.as_bytes(), &[0]].concat())
}

pub fn parse(name: &str, sql: &str) -> Bytes {
    parse_as(name, sql, &[])
}

pub fn parse_as(name: &str, sql: &str, types: &[u32]) -> Bytes {
    let mut body = BytesMut::new();
    put_text(&mut body, name);
    put_text(&mut body, sql);
    body.put_u16(types.len() as u16);
    types.iter().for_each(|oid| body.put_u32(*oid));
    message(b'P', &body)
}

pub fn bind(portal: &str, statement: &str) -> Bytes {
    bind_values(portal, statement, 0, &[])
}

/// All values in one format: 0 for text, 1 for binary.
pub fn bind_values(portal: &str, statement: &str, format: u16, values: &[&[u8]]) -> Bytes {
    let mut body = BytesMut::new();
    put_text(&mut body, portal);
    put_text(&mut body, statement);
    body.put_u16(1);
    body.put_u16(format);
    body.put_u16(values.len() as u16);
    for value in values {
        body.put_u32(value.len() as u32);
        body.put_slice(value);
    }
    body.put_u16(0);
    message(b'B', &body)
}

/// `kind` is `S` for a statement, `P` for a portal.
pub fn describe(kind: char, name: &str) -> Bytes {
    message(b'D', format!("{kind}{name}\0").as_bytes())
}

pub fn close(kind: char, name: &str) -> Bytes {
    message(b'C', format!("{kind}{name}\0").as_bytes())
}

pub fn execute(portal: &str, rows: i32) -> Bytes {
    let mut body = BytesMut::new();
    put_text(&mut body, portal);
    body.put_i32(rows);
    message(b'E', &body)
}

pub fn sync() -> Bytes {
    message(b'S', b"")
}

pub fn flush() -> Bytes {
    message(b'H', b"")
}

pub fn copy_data(data: &[u8]) -> Bytes {
    message(b'd', data)
}

pub fn copy_done() -> Bytes {
    message(b'c', b"")
}

pub fn copy_fail(reason: &str) -> Bytes {
    message(b'f', format!("{reason}\0").as_bytes())
}

/// Asks the server, as drivers do, to cancel what a connection does.
pub async fn cancel(server: &Server, id: i32, secret: i32) {
    let mut raw = Raw::open(server).await;
    let words = [80_877_102, id, secret].map(i32::to_be_bytes).concat();
    raw.send(&[framed(&words)]).await;
    assert!(raw.is_over().await);
}
