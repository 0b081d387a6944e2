//! Fuzz target for HTTP requests; see [`crate::fuzzing`].

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};

use super::request::{Request, format};

/// Parses the bytes as a text body, as a JSON body and as an `Accept` header.
pub(crate) fn requests(bytes: &[u8]) -> usize {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(bytes) {
        headers.insert(ACCEPT, value);
    }
    let known = format(None, &headers);
    assert!(known.is_ok(), "a form that is not known means the usual one");
    let mut taken = 0;
    for kind in ["application/json", "text/plain"] {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Ok(request) = Request::read(&headers, bytes) {
            taken += 1 + request.texts().len();
        }
    }
    taken
}

pub(crate) fn request_seeds() -> Vec<Vec<u8>> {
    let seeds: [&[u8]; 3] = [
        b"SELECT 1",
        br#"{"sql": "SELECT $1, $2", "parameters": [1.5, "a", null, true, [1, {"b": 2}]]}"#,
        b"text/csv;q=0.9, */*",
    ];
    seeds.map(<[u8]>::to_vec).to_vec()
}
