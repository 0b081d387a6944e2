//! Fuzz target for requests of Flight clients; see [`crate::fuzzing`].

use arrow_flight::sql::{CommandStatementQuery, ProstMessageExt};
use arrow_flight::{BasicAuth, Ticket};
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{COOKIE, HeaderValue};
use prost::Message;

use super::handles::Handle;
use super::identity::{COOKIE_NAME, cookie};
use super::session_options;
use super::tickets::StatementTicket;
use super::upload::command;

/// Decodes the bytes as a ticket, command, handle, cookie, login and session options.
pub(crate) fn tickets(bytes: &[u8]) -> usize {
    let ticket = Ticket { ticket: Bytes::copy_from_slice(bytes) };
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(bytes) {
        headers.insert(COOKIE, value);
    }
    let taken = [
        StatementTicket::of_ticket(&ticket).is_ok_and(|ticket| ticket.id().is_ok()),
        command(bytes).is_ok(),
        Handle::of_bytes(bytes).is_some(),
        str::from_utf8(bytes).is_ok_and(|text| Handle::of_hex(text).is_some()),
        cookie(&headers).is_some(),
        BasicAuth::decode(bytes).is_ok(),
        session_options::can_be_read(bytes),
    ];
    taken.into_iter().filter(|taken| *taken).count()
}

pub(crate) fn ticket_seeds() -> Vec<Vec<u8>> {
    let handle = Handle::of_bytes(&[7; 16]).expect("handles have 16 bytes");
    let mut ticket = StatementTicket::new(handle);
    ticket.query = Some("SELECT 1".to_owned());
    ticket.transaction = Some(handle.to_bytes());
    ticket.columns = 7;
    let query = CommandStatementQuery { query: "SELECT 1".to_owned(), transaction_id: None };
    let login = BasicAuth { username: "eve".to_owned(), password: "secret".to_owned() };
    vec![
        ticket.into_ticket().ticket.to_vec(),
        query.as_any().encode_to_vec(),
        handle.to_bytes().to_vec(),
        handle.to_hex().into_bytes(),
        format!("a=b; {COOKIE_NAME}=\"{}\"", handle.to_hex()).into_bytes(),
        login.encode_to_vec(),
    ]
}
