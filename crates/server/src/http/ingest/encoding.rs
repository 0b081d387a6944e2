//! Decompresses a body as it arrives: `Content-Encoding: gzip` and `zstd`.
//!
//! Each step writes into a buffer of a constant size. A few bytes that expand to gigabytes are thus
//! never in memory together, and the limit of the body stops them.

use std::io::{BufRead, ErrorKind, Read};

use axum::http::HeaderMap;
use axum::http::header::CONTENT_ENCODING;
use bytes::{Buf, Bytes};
use flate2::bufread::GzDecoder;
use thalweg_types::{Error, Result, SqlState};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use super::Failure;
use super::failure::unsupported_type;

/// Bytes that one step decompresses at most.
pub(super) const STEP_BYTES: usize = 64 << 10;
/// The largest window of a zstd frame, as a power of two: 8 MiB, which RFC 9659 allows in HTTP.
const WINDOW_LOG_MAX: u32 = 23;

/// Decompresses pieces of a body. After [`push`](Decompressor::push) call
/// [`step`](Decompressor::step) until it returns `None`.
pub(super) enum Decompressor {
    Identity(Bytes),
    Gzip(Gzip),
    Zstd(Box<Zstd>),
}

impl Decompressor {
    pub(super) fn of(headers: &HeaderMap) -> Result<Decompressor, Failure> {
        let mut codings = headers
            .get_all(CONTENT_ENCODING)
            .into_iter()
            .flat_map(|line| line.to_str().unwrap_or("?").split(','))
            .map(|coding| coding.trim().to_ascii_lowercase())
            .filter(|coding| !coding.is_empty() && coding != "identity");
        let decompressor = match codings.next().as_deref() {
            None => Decompressor::Identity(Bytes::new()),
            Some("gzip" | "x-gzip") => Decompressor::Gzip(Gzip::default()),
            Some("zstd") => Decompressor::Zstd(Box::new(Zstd::new()?)),
            Some(other) => return Err(unsupported(other)),
        };
        match codings.next() {
            None => Ok(decompressor),
            Some(second) => Err(unsupported(&second)),
        }
    }

    /// Adds bytes of the body.
    pub(super) fn push(&mut self, bytes: Bytes) {
        match self {
            Decompressor::Identity(input) => *input = bytes,
            Decompressor::Gzip(gzip) => gzip.input().0 = bytes,
            Decompressor::Zstd(zstd) => zstd.input = bytes,
        }
    }

    /// The next bytes after decompression; `None` if more bytes of the body are needed.
    ///
    /// # Errors
    /// 22P03 if the body is malformed.
    pub(super) fn step(&mut self) -> Result<Option<Bytes>> {
        match self {
            Decompressor::Identity(input) if input.is_empty() => Ok(None),
            Decompressor::Identity(input) => Ok(Some(input.split_to(input.len().min(STEP_BYTES)))),
            Decompressor::Gzip(gzip) => gzip.step(),
            Decompressor::Zstd(zstd) => zstd.step(),
        }
    }

    /// Ends the body.
    ///
    /// # Errors
    /// 22P03 if the compressed data are not complete.
    pub(super) fn finish(&self) -> Result<()> {
        let is_complete = match self {
            Decompressor::Identity(_) => true,
            Decompressor::Gzip(gzip) => gzip.member.is_none(),
            Decompressor::Zstd(zstd) => !zstd.is_in_frame,
        };
        if is_complete { Ok(()) } else { Err(malformed("it is cut off")) }
    }
}

/// Bytes that a decoder has not read. An empty input asks for more.
#[derive(Default)]
pub(super) struct Input(Bytes);

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = self.fill_buf()?.len().min(out.len());
        self.0.copy_to_slice(&mut out[..count]);
        Ok(count)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.0.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(&self.0) }
    }

    fn consume(&mut self, count: usize) {
        self.0.advance(count);
    }
}

/// A sequence of gzip members.
#[derive(Default)]
pub(super) struct Gzip {
    member: Option<Box<GzDecoder<Input>>>,
    /// Bytes between two members.
    between: Input,
}

impl Gzip {
    fn input(&mut self) -> &mut Input {
        match &mut self.member {
            Some(member) => member.get_mut(),
            None => &mut self.between,
        }
    }

    fn step(&mut self) -> Result<Option<Bytes>> {
        loop {
            let Some(member) = &mut self.member else {
                if self.between.0.is_empty() {
                    return Ok(None);
                }
                let input = std::mem::take(&mut self.between);
                self.member = Some(Box::new(GzDecoder::new(input)));
                continue;
            };
            let mut out = vec![0; STEP_BYTES];
            match member.read(&mut out) {
                Ok(0) => {
                    self.between = std::mem::take(member.get_mut());
                    self.member = None;
                }
                Ok(count) => {
                    out.truncate(count);
                    return Ok(Some(out.into()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(malformed(&error.to_string())),
            }
        }
    }
}

/// A sequence of zstd frames.
pub(super) struct Zstd {
    decoder: ZstdDecoder<'static>,
    input: Bytes,
    is_in_frame: bool,
}

impl Zstd {
    fn new() -> Result<Zstd> {
        let unready = |error| Error::internal("zstd cannot be set up").with_source(error);
        let mut decoder = ZstdDecoder::new().map_err(unready)?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(unready)?;
        Ok(Zstd { decoder, input: Bytes::new(), is_in_frame: false })
    }

    fn step(&mut self) -> Result<Option<Bytes>> {
        loop {
            let mut out = vec![0; STEP_BYTES];
            let done = self.decoder.run_on_buffers(&self.input, &mut out);
            let done = done.map_err(|error| malformed(&error.to_string()))?;
            self.input.advance(done.bytes_read);
            if done.bytes_read > 0 || done.bytes_written > 0 {
                self.is_in_frame = done.remaining > 0;
            }
            if done.bytes_written > 0 {
                out.truncate(done.bytes_written);
                return Ok(Some(out.into()));
            }
            if self.input.is_empty() {
                return Ok(None);
            }
            if done.bytes_read == 0 {
                return Err(malformed("it makes no progress"));
            }
        }
    }
}

fn unsupported(coding: &str) -> Failure {
    let message = format!("the content encoding \"{coding}\" is not supported");
    unsupported_type(message, "Send the body with gzip, zstd, or without compression.")
}

fn malformed(reason: &str) -> Error {
    let message = format!("the compressed body cannot be read: {reason}");
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use axum::http::HeaderValue;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn named(coding: &'static str) -> Decompressor {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        Decompressor::of(&headers).ok().unwrap()
    }

    /// Decompresses a body that arrives in pieces of the same size.
    fn decompress(coding: &'static str, body: &[u8], piece_bytes: usize) -> Result<Vec<u8>> {
        let (mut decompressor, mut out) = (named(coding), Vec::new());
        for piece in body.chunks(piece_bytes) {
            decompressor.push(Bytes::copy_from_slice(piece));
            while let Some(bytes) = decompressor.step()? {
                assert!(bytes.len() <= STEP_BYTES);
                out.extend_from_slice(&bytes);
            }
        }
        decompressor.finish()?;
        Ok(out)
    }

    fn bodies(text: &[u8]) -> [(&'static str, Vec<u8>); 5] {
        let zstd = zstd::encode_all(text, 1).unwrap();
        let compressed = gzip(text);
        [
            ("identity", text.to_vec()),
            ("gzip", compressed.clone()),
            ("X-GZIP", [compressed, gzip(b"")].concat()),
            ("zstd", zstd.clone()),
            ("Zstd", [zstd, zstd::encode_all(&b""[..], 1).unwrap()].concat()),
        ]
    }

    #[test]
    fn bodies_are_decompressed_however_they_arrive() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(|n| (n % 1_000).to_le_bytes()).collect();
        for (coding, body) in bodies(&text) {
            for piece_bytes in [1_000, 65_537, usize::MAX] {
                assert_eq!(decompress(coding, &body, piece_bytes).unwrap(), text, "{coding}");
            }
        }
        let short = b"a short text";
        for (coding, body) in bodies(short) {
            assert_eq!(decompress(coding, &body, 1).unwrap(), short, "{coding}");
            assert_eq!(decompress(coding, b"", 1).unwrap(), b"", "{coding}");
        }
    }

    #[test]
    fn bodies_that_are_cut_off_or_damaged_are_errors() {
        let text = b"some text, some text, some text".repeat(10);
        for (coding, body) in bodies(&text).into_iter().filter(|(coding, _)| *coding != "identity")
        {
            for end in 1..body.len().min(40) {
                let read = decompress(coding, &body[..end], 7);
                assert!(read.is_err() || read.unwrap() == text, "{coding} {end}");
            }
            assert!(decompress(coding, b"not compressed at all", 100).is_err(), "{coding}");
        }
        let mut body = gzip(&text);
        let at = body.len() - 6;
        body[at] ^= 1;
        assert_eq!(decompress("gzip", &body, 100).unwrap_err().state().0, "22P03");
    }

    #[test]
    fn other_encodings_are_refused() {
        for coding in ["br", "deflate", "gzip, zstd", "\u{7f}"] {
            let Ok(value) = HeaderValue::from_str(coding) else { continue };
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_ENCODING, value);
            assert_eq!(Decompressor::of(&headers).err().unwrap().status.as_u16(), 415, "{coding}");
        }
    }
}
