//! Statements over HTTP: one request on a connection, and the pieces of its response.

use std::ops::ControlFlow;

use arrow::buffer::Buffer;
use arrow::ipc::reader::StreamDecoder;
use thalweg_types::{Error, Result};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::errors::while_doing;

const READ_BYTES: usize = 64 << 10;

/// Reads rows as an Arrow stream.
pub async fn query_arrow(
    port: u16,
    sql: &str,
    look: &mut impl FnMut(u64) -> ControlFlow<()>,
) -> Result<u64> {
    let mut body = Body::request(port, "arrow", sql).await?;
    let (mut decoder, mut rows) = (StreamDecoder::new(), 0);
    while let Some(piece) = body.next().await? {
        let mut piece = Buffer::from_vec(piece);
        while let Some(batch) =
            decoder.decode(&mut piece).map_err(while_doing("reading an Arrow stream"))?
        {
            rows += batch.num_rows() as u64;
        }
        if look(rows).is_break() {
            return Ok(rows);
        }
    }
    decoder.finish().map_err(while_doing("reading an Arrow stream"))?;
    Ok(rows)
}

/// Reads rows as lines of JSON.
pub async fn query_json(
    port: u16,
    sql: &str,
    look: &mut impl FnMut(u64) -> ControlFlow<()>,
) -> Result<u64> {
    let mut body = Body::request(port, "json", sql).await?;
    let mut rows = 0;
    while let Some(piece) = body.next().await? {
        rows += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        if look(rows).is_break() {
            break;
        }
    }
    Ok(rows)
}

/// A response's body in the chunks of HTTP/1.1.
struct Body {
    socket: BufReader<TcpStream>,
    /// Bytes of the current chunk that are still to come.
    chunk: usize,
}

impl Body {
    async fn request(port: u16, format: &str, sql: &str) -> Result<Body> {
        let socket = TcpStream::connect(("127.0.0.1", port)).await;
        let socket = socket.map_err(while_doing("connecting over HTTP"))?;
        let mut body = Body { socket: BufReader::with_capacity(READ_BYTES, socket), chunk: 0 };
        let request = format!(
            "POST /sql?format={format} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\
             Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{sql}",
            sql.len(),
        );
        let sent = body.socket.write_all(request.as_bytes()).await;
        sent.map_err(while_doing("sending over HTTP"))?;
        let status = body.line().await?;
        if !status.contains(" 200 ") {
            return Err(Error::internal(format!("HTTP answered {status}")));
        }
        let mut chunked = false;
        loop {
            let header = body.line().await?.to_ascii_lowercase();
            match header.is_empty() {
                true if chunked => return Ok(body),
                true => return Err(Error::internal("an answer over HTTP is not in chunks")),
                false => chunked |= header == "transfer-encoding: chunked",
            }
        }
    }

    /// The next piece; `None` after the last chunk. A connection that closes earlier is an error.
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if self.chunk == 0 {
            let length = self.line().await?;
            self.chunk = usize::from_str_radix(&length, 16)
                .map_err(while_doing(format!("the length of a chunk, {length:?}")))?;
            if self.chunk == 0 {
                return Ok(None);
            }
        }
        let received = self.socket.fill_buf().await.map_err(while_doing("reading over HTTP"))?;
        let piece = received[..received.len().min(self.chunk)].to_vec();
        if piece.is_empty() {
            return Err(Error::internal("an answer over HTTP ended early"));
        }
        self.socket.consume(piece.len());
        self.chunk -= piece.len();
        if self.chunk == 0 {
            self.line().await?;
        }
        Ok(Some(piece))
    }

    /// A line without its terminator.
    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.socket.read_line(&mut line).await;
        match read.map_err(while_doing("reading over HTTP"))? {
            0 => Err(Error::internal("an answer over HTTP ended early")),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}
