//! Tickets, which `GetFlightInfo` issues and `DoGet` redeems.
//!
//! The ticket of a query contains the query itself, so that it can be redeemed repeatedly and
//! survives a restart. The first redemption uses the plan made for the ticket. A statement that
//! changes data runs before its ticket is issued, and its ticket names only the result.

use arrow_flight::Ticket;
use arrow_flight::sql::{Any, ProstMessageExt, TicketStatementQuery};
use bytes::Bytes;
use prost::Message;
use thalweg_types::{Error, Result, SqlState};

use super::handles::Handle;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatementTicket {
    /// The handle of the result while it waits and while it is sent.
    #[prost(bytes = "bytes", tag = "1")]
    id: Bytes,
    #[prost(string, optional, tag = "2")]
    pub(crate) query: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) transaction: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(crate) prepared: Option<Bytes>,
    /// A fingerprint of the promised columns.
    #[prost(fixed64, tag = "5")]
    pub(crate) columns: u64,
    /// True if the statement gave no rows.
    #[prost(bool, tag = "6")]
    pub(crate) nothing: bool,
}

impl StatementTicket {
    pub(crate) fn new(id: Handle) -> StatementTicket {
        StatementTicket { id: id.to_bytes(), ..StatementTicket::default() }
    }

    pub(crate) fn id(&self) -> Result<Handle> {
        Handle::of_bytes(&self.id).ok_or_else(unreadable)
    }

    pub(crate) fn into_ticket(self) -> Ticket {
        let statement_handle = self.encode_to_vec().into();
        let command = TicketStatementQuery { statement_handle };
        Ticket { ticket: command.as_any().encode_to_vec().into() }
    }

    pub(crate) fn of_command(command: &TicketStatementQuery) -> Result<StatementTicket> {
        StatementTicket::decode(&*command.statement_handle).map_err(|_| unreadable())
    }

    /// Decodes a statement's ticket.
    pub(crate) fn of_ticket(ticket: &Ticket) -> Result<StatementTicket> {
        let any = Any::decode(&*ticket.ticket).map_err(|_| unreadable())?;
        let command: Option<TicketStatementQuery> = any.unpack().map_err(|_| unreadable())?;
        StatementTicket::of_command(&command.ok_or_else(unreadable)?)
    }
}

fn unreadable() -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "the ticket is not one of this server's")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_read_back() {
        let id = Handle::random().unwrap();
        let mut ticket = StatementTicket::new(id);
        ticket.query = Some("SELECT 1".to_owned());
        ticket.columns = 7;
        let read = StatementTicket::of_ticket(&ticket.clone().into_ticket()).unwrap();
        assert_eq!(read, ticket);
        assert!(read.id().unwrap() == id);
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in [&b""[..], b"\xff\xff", b"hello"] {
            let ticket = Ticket { ticket: Bytes::copy_from_slice(bytes) };
            assert_eq!(StatementTicket::of_ticket(&ticket).unwrap_err().state().0, "08P01");
        }
    }
}
