//! Session options of Flight: Thalweg's settings under their own names, and `catalog` and `schema`,
//! which map to the only database and to `search_path`.
//!
//! The messages are declared by hand, since the library does not include them yet.

use std::collections::HashMap;

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};
use thalweg_query::Session;
use thalweg_types::{Result, SqlState};

use super::Flight;
use super::identity::Caller;
use super::metadata::DATABASE;
use super::sessions::CallSession;
use super::upload::protocol;

/// The settings returned when a client asks for all options.
const TOLD: [&str; 7] = [
    "application_name",
    "client_min_messages",
    "datestyle",
    "durability",
    "search_path",
    "statement_timeout",
    "timezone",
];

#[derive(Clone, PartialEq, Message)]
struct SessionOptionValue {
    #[prost(oneof = "OptionValue", tags = "1, 2, 3, 4, 5")]
    value: Option<OptionValue>,
}

#[derive(Clone, PartialEq, Oneof)]
enum OptionValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(sfixed64, tag = "3")]
    Integer(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Texts(StringListValue),
}

#[derive(Clone, PartialEq, Message)]
struct StringListValue {
    #[prost(string, repeated, tag = "1")]
    values: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct SetSessionOptionsRequest {
    #[prost(map = "string, message", tag = "1")]
    options: HashMap<String, SessionOptionValue>,
}

/// The reason why an option was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
enum SetError {
    Unspecified = 0,
    InvalidName = 1,
    InvalidValue = 2,
    Other = 3,
}

#[derive(Clone, PartialEq, Message)]
struct ErrorOfOption {
    #[prost(enumeration = "SetError", tag = "1")]
    value: i32,
}

#[derive(Clone, PartialEq, Message)]
struct SetSessionOptionsResult {
    /// The options that were not set, with the reasons.
    #[prost(map = "string, message", tag = "1")]
    errors: HashMap<String, ErrorOfOption>,
}

#[derive(Clone, PartialEq, Message)]
struct GetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    options: HashMap<String, SessionOptionValue>,
}

#[derive(Clone, PartialEq, Message)]
struct CloseSessionResult {
    #[prost(int32, tag = "1")]
    status: i32,
}

const CLOSED: i32 = 1;
const NOT_CLOSEABLE: i32 = 3;

impl Flight {
    pub(super) async fn set_options(&self, caller: &Caller, body: &Bytes) -> Result<Bytes> {
        let request = SetSessionOptionsRequest::decode(body.clone());
        let request = request.map_err(|_| protocol("the options cannot be read"))?;
        let call_session = self.lasting_seat(caller)?;
        let mut session = call_session.session().await;
        let mut errors = HashMap::new();
        for (name, value) in request.options {
            let value = value.into_text();
            let set = match (name.as_str(), value.as_deref()) {
                (_, None) => Err(SetError::InvalidValue),
                ("catalog", Some(DATABASE)) => Ok(()),
                ("catalog", Some(_)) => Err(SetError::InvalidValue),
                ("schema", Some(value)) => set(&mut session, "search_path", value),
                (name, Some(value)) => set(&mut session, name, value),
            };
            if let Err(error) = set {
                errors.insert(name, ErrorOfOption { value: error as i32 });
            }
        }
        drop(session);
        self.connect(caller, &call_session)?;
        Ok(SetSessionOptionsResult { errors }.encode_to_vec().into())
    }

    pub(super) async fn get_options(&self, caller: &Caller) -> Result<Bytes> {
        let call_session = self.call_session(caller, None)?;
        let session = call_session.session().await;
        let name_values = TOLD.iter().filter_map(|name| Some((*name, session.setting(name)?)));
        let option = |(name, value): (&str, String)| {
            let value = Some(OptionValue::Text(value));
            (name.to_owned(), SessionOptionValue { value })
        };
        let options = name_values.map(option).collect();
        Ok(GetSessionOptionsResult { options }.encode_to_vec().into())
    }

    /// Closes the caller's session. Independent calls have none to close.
    ///
    /// The session's statements end with it, as do the transactions that it began.
    pub(super) async fn close_session(&self, caller: &Caller) -> Bytes {
        if let Some(handle) = caller.connection {
            let is_callers = |call_session: &CallSession| call_session.user == caller.user;
            let session = self.connections.take_if(handle, is_callers);
            let begun = |call_session: &CallSession| {
                call_session.opener == Some(handle) && is_callers(call_session)
            };
            let transactions = self.transactions.take_all_if(begun).into_iter();
            for call_session in
                session.into_iter().chain(transactions.map(|(_, call_session)| call_session))
            {
                call_session.end().await;
            }
        }
        if let Some(token) = &caller.token {
            self.shared.users.revoke_token(token);
        }
        let status = if caller.connection.is_some() { CLOSED } else { NOT_CLOSEABLE };
        CloseSessionResult { status }.encode_to_vec().into()
    }
}

/// True if the bytes are a request to set options in which each option has a value.
pub(super) fn can_be_read(bytes: &[u8]) -> bool {
    SetSessionOptionsRequest::decode(bytes)
        .is_ok_and(|request| request.options.into_values().all(|value| value.into_text().is_some()))
}

fn set(session: &mut Session, name: &str, value: &str) -> Result<(), SetError> {
    session.set(name, value).map_err(|error| match error.state() {
        SqlState::UNDEFINED_OBJECT => SetError::InvalidName,
        _ => SetError::InvalidValue,
    })
}

impl SessionOptionValue {
    /// The value as text for `SET`; `None` if there is none.
    fn into_text(self) -> Option<String> {
        Some(match self.value? {
            OptionValue::Text(text) => text,
            OptionValue::Bool(is) => if is { "on" } else { "off" }.to_owned(),
            OptionValue::Integer(number) => number.to_string(),
            OptionValue::Double(number) => number.to_string(),
            OptionValue::Texts(texts) => texts.values.join(", "),
        })
    }
}
