//! The answer of `POST /console/api/run`: frames, each with its kind (one byte), its length (four
//! bytes, little-endian) and its contents.
//!
//! | kind | contents |
//! | --- | --- |
//! | `j` | JSON: `begin`, `statement`, `columns`, `notice`, `cut`, `complete`, `error`, `end` |
//! | `a` | bytes of the Arrow IPC stream of the current result, whose columns are texts |
//!
//! The last frame is `end`. An answer without it broke off.

use axum::body::Bytes;
use serde_json::Value;

const JSON: u8 = b'j';
const ARROW: u8 = b'a';

pub(super) fn json(value: &Value) -> Bytes {
    frame(JSON, value.to_string().as_bytes())
}

pub(super) fn arrow(bytes: &[u8]) -> Bytes {
    frame(ARROW, bytes)
}

fn frame(kind: u8, contents: &[u8]) -> Bytes {
    let length = u32::try_from(contents.len()).expect("a frame holds one batch of limited size");
    let mut bytes = Vec::with_capacity(contents.len() + 5);
    bytes.push(kind);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(contents);
    bytes.into()
}
