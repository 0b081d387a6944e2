//! The page, its script and its style, embedded in the program.
//!
//! The script and the style are compressed. The hash of their contents is in their addresses, so
//! that browsers cache them for good and still load the files of a new version.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    LOCATION, VARY,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use ring::digest;

use super::Console;

const PAGE: &str = include_str!("../../console/dist/index.html");
const SCRIPT: &[u8] = include_bytes!("../../console/dist/app.js.gz");
const STYLE: &[u8] = include_bytes!("../../console/dist/app.css.gz");
const ICON: &[u8] = include_bytes!("../../console/dist/icon.svg.gz");

/// A browser keeps a file for a year: its address changes with its contents.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";
/// Digits of a hash in an address.
const HASH_CHARS: usize = 16;

pub(super) struct Assets {
    page: Bytes,
    page_tag: String,
    files: [Asset; 3],
}

struct Asset {
    /// The file's name in addresses, with the hash.
    name: String,
    kind: &'static str,
    compressed: &'static [u8],
}

impl Assets {
    pub(super) fn new() -> Assets {
        let asset = |stem, extension, kind, compressed| {
            let name = format!("{stem}.{}.{extension}", hash(compressed));
            Asset { name, kind, compressed }
        };
        let files = [
            asset("app", "js", "text/javascript; charset=utf-8", SCRIPT),
            asset("app", "css", "text/css; charset=utf-8", STYLE),
            asset("icon", "svg", "image/svg+xml", ICON),
        ];
        let page = files
            .iter()
            .zip(["{app.js}", "{app.css}", "{icon.svg}"])
            .fold(PAGE.to_owned(), |page, (file, placeholder)| {
                page.replace(placeholder, &format!("assets/{}", file.name))
            });
        let page_tag = format!("\"{}\"", hash(page.as_bytes()));
        Assets { page: page.into(), page_tag, files }
    }
}

fn hash(bytes: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, bytes);
    let digits = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    digits[..HASH_CHARS].to_owned()
}

/// Sends browsers to the console. Programs that ask for anything but a page get 404.
pub(super) async fn front_door(headers: HeaderMap) -> Response {
    if !mentions(&headers, ACCEPT, "text/html") {
        return StatusCode::NOT_FOUND.into_response();
    }
    (StatusCode::SEE_OTHER, [(LOCATION, "/console/")]).into_response()
}

pub(super) async fn page(State(console): State<Arc<Console>>, headers: HeaderMap) -> Response {
    let Assets { page, page_tag, .. } = &console.assets;
    let cached = [(ETAG, page_tag.clone()), (CACHE_CONTROL, "no-cache".to_owned())];
    if headers.get(IF_NONE_MATCH).is_some_and(|tag| tag.as_bytes() == page_tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, cached).into_response();
    }
    (cached, [(CONTENT_TYPE, "text/html; charset=utf-8")], page.clone()).into_response()
}

pub(super) async fn asset(
    State(console): State<Arc<Console>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(file) = console.assets.files.iter().find(|file| file.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if !mentions(&headers, ACCEPT_ENCODING, "gzip") {
        let why = "the console's files are sent to clients that accept gzip\n";
        return (StatusCode::NOT_ACCEPTABLE, why).into_response();
    }
    let head = [
        (CONTENT_TYPE, file.kind),
        (CONTENT_ENCODING, "gzip"),
        (VARY, "accept-encoding"),
        (CACHE_CONTROL, FOR_GOOD),
    ];
    (head, file.compressed).into_response()
}

fn mentions(headers: &HeaderMap, name: axum::http::HeaderName, word: &str) -> bool {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|part| {
        part.split(';').next().is_some_and(|part| part.trim().eq_ignore_ascii_case(word))
    })
}
