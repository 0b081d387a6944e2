//! Statements about the session itself: prepared statements, cursors, `DISCARD`.

use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    CloseCursor, Declare, DiscardObject, Expr, Ident, Statement,
};
use thalweg_dialect::parse::{Parsed, is_move};
use thalweg_types::{DataType, Result};
use thalweg_values::types::column_type;

use super::folded;
use crate::cursor::{Manner, Motion};
use crate::notifications::CHANNEL_BYTES_MAX;

pub(crate) enum SessionCommand {
    Prepare {
        name: String,
        declared: Vec<Option<DataType>>,
        parsed: Box<Parsed>,
    },
    Execute {
        name: String,
        values: Vec<Expr>,
    },
    /// One name, or all.
    Deallocate(Option<String>),
    Declare {
        name: String,
        manner: Manner,
        query: Box<Parsed>,
    },
    Fetch {
        name: String,
        motion: Result<Motion>,
        /// True if the rows are returned, false if they are only counted.
        gives_rows: bool,
    },
    /// One name, or all.
    Close(Option<String>),
    DiscardAll,
    DiscardSequences,
    DiscardTemporary,
    Listen(String),
    /// One channel, or all.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
    /// `DISCARD` of something else, by the command's name.
    Discard(&'static str),
}

/// The statement about the session itself, if it is one.
pub(crate) fn of_session(parsed: &Parsed) -> Option<SessionCommand> {
    let Tree::Statement(statement) = &parsed.statement else { return None };
    let inner = |statement: Statement| {
        let statement = Tree::Statement(Box::new(statement));
        Box::new(Parsed { statement, text: parsed.text.clone(), ..*parsed })
    };
    Some(match statement.as_ref() {
        Statement::Prepare { name, data_types, statement } => SessionCommand::Prepare {
            name: folded(name),
            declared: data_types.iter().map(|name| column_type(name).ok()).collect(),
            parsed: inner(statement.as_ref().clone()),
        },
        Statement::Execute { name: Some(name), parameters, immediate: false, .. } => {
            let name = folded(name.0.last()?.as_ident()?);
            SessionCommand::Execute { name, values: parameters.clone() }
        }
        Statement::Deallocate { name, .. } => {
            let all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
            SessionCommand::Deallocate((!all).then(|| folded(name)))
        }
        Statement::Declare { stmts } => {
            let [Declare { names, hold, scroll, for_query: Some(query), .. }] = stmts.as_slice()
            else {
                return None;
            };
            SessionCommand::Declare {
                name: folded(names.first()?),
                manner: Manner { hold: *hold == Some(true), scroll: *scroll == Some(true) },
                query: inner(Statement::Query(query.clone())),
            }
        }
        Statement::Fetch { name, direction, into, .. } => SessionCommand::Fetch {
            name: folded(name),
            motion: Motion::of(direction),
            gives_rows: !is_move(into.as_ref()),
        },
        Statement::Close { cursor: CloseCursor::All } => SessionCommand::Close(None),
        Statement::Close { cursor: CloseCursor::Specific { name } } => {
            SessionCommand::Close(Some(folded(name)))
        }
        Statement::LISTEN { channel } => SessionCommand::Listen(channel_name(channel)),
        Statement::UNLISTEN { channel } => {
            let all = channel.quote_style.is_none() && channel.value == "*";
            SessionCommand::Unlisten((!all).then(|| channel_name(channel)))
        }
        Statement::NOTIFY { channel, payload } => SessionCommand::Notify {
            channel: channel_name(channel),
            payload: payload.clone().unwrap_or_default(),
        },
        Statement::Discard { object_type: DiscardObject::ALL } => SessionCommand::DiscardAll,
        Statement::Discard { object_type: DiscardObject::PLANS } => {
            SessionCommand::Discard("DISCARD PLANS")
        }
        Statement::Discard { object_type: DiscardObject::SEQUENCES } => {
            SessionCommand::DiscardSequences
        }
        Statement::Discard { object_type: DiscardObject::TEMP } => SessionCommand::DiscardTemporary,
        _ => return None,
    })
}

/// A channel's name, cut as PostgreSQL cuts identifiers.
fn channel_name(name: &Ident) -> String {
    let mut channel = folded(name);
    channel.truncate(channel.floor_char_boundary(CHANNEL_BYTES_MAX));
    channel
}
