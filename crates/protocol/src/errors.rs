//! Errors on their way over gRPC, there and back: one table from SQLSTATE to gRPC's codes.
//!
//! The message that people see says everything: what happened, the SQLSTATE, the detail, the hint.
//! Programs find the same in the trailers: `sqlstate` and `error-position` as text, and as UTF-8
//! bytes `error-message-bin`, `error-detail-bin` and `error-hint-bin`; for violations also
//! `error-schema-bin`, `error-table-bin`, and `error-column-bin` or `error-constraint-bin`.

use std::fmt::Write as _;

use thalweg_types::{Error, Part, SqlState, Subject};
use tonic::metadata::{Ascii, BinaryMetadataValue, MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// Clients drop a response whose headers are long: many allow 8 KiB for all of them, and bytes grow
/// by a half on the wire.
const FIELD_BYTES_MAX: usize = 1_024;

/// The gRPC status of an error.
#[must_use]
pub fn status(error: &Error) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert("sqlstate", MetadataValue::from_static(error.state().0));
    put_bytes(&mut metadata, "error-message-bin", Some(error.message()));
    put_bytes(&mut metadata, "error-detail-bin", error.detail());
    put_bytes(&mut metadata, "error-hint-bin", error.hint());
    if let Some(subject) = error.subject() {
        let (key, name) = match &subject.part {
            Part::Column(name) => ("error-column-bin", name),
            Part::Constraint(name) => ("error-constraint-bin", name),
        };
        put_bytes(&mut metadata, "error-schema-bin", Some(&subject.schema));
        put_bytes(&mut metadata, "error-table-bin", Some(&subject.table));
        put_bytes(&mut metadata, key, Some(name));
    }
    let mut text = format!("{} (SQLSTATE {})", cut(error.message()), error.state().0);
    if let Some(position) = error.position() {
        metadata.insert("error-position", MetadataValue::<Ascii>::from(position));
        let _ = write!(text, " at character {position}");
    }
    if let Some(detail) = error.detail() {
        let _ = write!(text, "\nDETAIL:  {}", cut(detail));
    }
    if let Some(hint) = error.hint() {
        let _ = write!(text, "\nHINT:  {}", cut(hint));
    }
    Status::with_metadata(code(error.state().0), text, metadata)
}

/// gRPC's code for a SQLSTATE.
fn code(sqlstate: &str) -> Code {
    match sqlstate {
        "42P01" | "42703" | "42704" | "42883" | "3D000" | "3F000" | "58P01" | "26000" | "34000"
        | "P0002" => Code::NotFound,
        "42P06" | "42P07" | "42710" | "23505" => Code::AlreadyExists,
        "42501" | "0LP01" => Code::PermissionDenied,
        "57014" => Code::Cancelled,
        "08P01" => Code::InvalidArgument,
        "58030" => Code::Unavailable,
        "XX001" => Code::DataLoss,
        _ => match sqlstate.get(..2).unwrap_or_default() {
            "08" => Code::Unavailable,
            "0A" => Code::Unimplemented,
            "23" | "25" | "2B" | "3B" | "55" => Code::FailedPrecondition,
            "21" | "22" | "42" => Code::InvalidArgument,
            "28" => Code::Unauthenticated,
            "40" => Code::Aborted,
            "53" | "54" => Code::ResourceExhausted,
            "57" => Code::Unavailable,
            _ => Code::Internal,
        },
    }
}

/// The error that a status tells of: the same one where [`status`] made it.
#[must_use]
pub fn error(status: &Status) -> Error {
    let metadata = status.metadata();
    let said = |key| {
        let bytes = metadata.get_bin(key)?.to_bytes().ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let named = metadata.get("sqlstate").and_then(|state| SqlState::named(state.to_str().ok()?));
    let state = named.unwrap_or_else(|| sqlstate(status.code()));
    let message = said("error-message-bin");
    let mut error = Error::new(state, message.unwrap_or_else(|| status.message().to_owned()));
    if let Some(detail) = said("error-detail-bin") {
        error = error.with_detail(detail);
    }
    if let Some(hint) = said("error-hint-bin") {
        error = error.with_hint(hint);
    }
    let position = metadata.get("error-position").and_then(|text| text.to_str().ok()?.parse().ok());
    if let Some(position) = position {
        error = error.with_position(position);
    }
    let column = said("error-column-bin").map(Part::Column);
    let part = column.or_else(|| said("error-constraint-bin").map(Part::Constraint));
    if let (Some(schema), Some(table), Some(part)) =
        (said("error-schema-bin"), said("error-table-bin"), part)
    {
        error = error.with_subject(Subject { schema, table, part });
    }
    error
}

/// The nearest SQLSTATE of a gRPC code that came without one, from a library below.
fn sqlstate(code: Code) -> SqlState {
    match code {
        Code::Cancelled | Code::DeadlineExceeded => SqlState::QUERY_CANCELED,
        Code::InvalidArgument => SqlState::INVALID_PARAMETER_VALUE,
        Code::NotFound => SqlState::UNDEFINED_OBJECT,
        Code::PermissionDenied => SqlState::INSUFFICIENT_PRIVILEGE,
        Code::Unauthenticated => SqlState::INVALID_AUTHORIZATION,
        Code::ResourceExhausted => SqlState::CONFIGURATION_LIMIT_EXCEEDED,
        Code::Unimplemented => SqlState::FEATURE_NOT_SUPPORTED,
        Code::Unavailable => SqlState::CONNECTION_FAILURE,
        Code::DataLoss => SqlState::DATA_CORRUPTED,
        Code::Aborted => SqlState::SERIALIZATION_FAILURE,
        _ => SqlState::INTERNAL_ERROR,
    }
}

fn put_bytes(metadata: &mut MetadataMap, key: &'static str, text: Option<&str>) {
    if let Some(text) = text {
        metadata.insert_bin(key, BinaryMetadataValue::from_bytes(cut(text).as_bytes()));
    }
}

/// The beginning of a text, up to a whole character.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(FIELD_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_from_sqlstates() {
        for (state, code) in [
            (SqlState::SYNTAX_ERROR, Code::InvalidArgument),
            (SqlState::PROTOCOL_VIOLATION, Code::InvalidArgument),
            (SqlState::CONNECTION_FAILURE, Code::Unavailable),
            (SqlState::UNDEFINED_TABLE, Code::NotFound),
            (SqlState::DUPLICATE_TABLE, Code::AlreadyExists),
            (SqlState::UNIQUE_VIOLATION, Code::AlreadyExists),
            (SqlState::NOT_NULL_VIOLATION, Code::FailedPrecondition),
            (SqlState::DIVISION_BY_ZERO, Code::InvalidArgument),
            (SqlState::INVALID_PASSWORD, Code::Unauthenticated),
            (SqlState::INSUFFICIENT_PRIVILEGE, Code::PermissionDenied),
            (SqlState::SERIALIZATION_FAILURE, Code::Aborted),
            (SqlState::FEATURE_NOT_SUPPORTED, Code::Unimplemented),
            (SqlState::CONFIGURATION_LIMIT_EXCEEDED, Code::ResourceExhausted),
            (SqlState::QUERY_CANCELED, Code::Cancelled),
            (SqlState::SHUTTING_DOWN, Code::Unavailable),
            (SqlState::INTERNAL_ERROR, Code::Internal),
            (SqlState::DATA_CORRUPTED, Code::DataLoss),
        ] {
            assert_eq!(status(&Error::new(state, "x")).code(), code, "{state:?}");
        }
    }

    #[test]
    fn only_the_servers_own_mistakes_are_internal() {
        for state in [
            "08006", "08P01", "0A000", "0LP01", "21000", "22P02", "23502", "25P02", "26000",
            "28000", "2BP01", "34000", "3B001", "3D000", "3F000", "40001", "42601", "53200",
            "54000", "54001", "54011", "55000", "55006", "57P03", "58030", "58P01",
        ] {
            assert_ne!(code(state), Code::Internal, "{state}");
        }
    }

    #[test]
    fn everything_is_said_to_people_and_to_programs() {
        let error = Error::new(SqlState::UNDEFINED_TABLE, "relation \"é\" does not exist")
            .with_detail("It was dropped.")
            .with_hint("Create it.")
            .with_position(15);
        let status = status(&error);
        assert_eq!(
            status.message(),
            "relation \"é\" does not exist (SQLSTATE 42P01) at character 15\n\
             DETAIL:  It was dropped.\nHINT:  Create it."
        );
        let text = |key| status.metadata().get(key).unwrap().to_str().unwrap().to_owned();
        let bytes = |key| status.metadata().get_bin(key).unwrap().to_bytes().unwrap();
        assert_eq!((text("sqlstate"), text("error-position")), ("42P01".into(), "15".into()));
        assert_eq!(bytes("error-message-bin"), "relation \"é\" does not exist".as_bytes());
        assert_eq!(bytes("error-detail-bin"), "It was dropped.".as_bytes());
        assert_eq!(bytes("error-hint-bin"), "Create it.".as_bytes());
    }

    #[test]
    fn an_error_comes_back_as_it_went() {
        let subject = Subject {
            schema: "public".into(),
            table: "t".into(),
            part: Part::Constraint("t_pkey".into()),
        };
        let sent = Error::new(SqlState::UNIQUE_VIOLATION, "duplicate key \"é\"")
            .with_detail("Key (a)=(1) already exists.")
            .with_hint("Choose another.")
            .with_position(7)
            .with_subject(subject);
        let back = error(&status(&sent));
        assert_eq!(format!("{back:?}"), format!("{sent:?}"));
        assert_eq!((back.position(), back.subject()), (sent.position(), sent.subject()));
        let foreign = error(&Status::unavailable("gone"));
        assert_eq!((foreign.state(), foreign.message()), (SqlState::CONNECTION_FAILURE, "gone"));
    }

    #[test]
    fn what_was_violated_is_said_to_programs() {
        let subject = |part| Subject { schema: "public".into(), table: "t".into(), part };
        for (part, key) in [
            (Part::Column("a".into()), "error-column-bin"),
            (Part::Constraint("a".into()), "error-constraint-bin"),
        ] {
            let error = Error::new(SqlState::CHECK_VIOLATION, "x").with_subject(subject(part));
            let status = status(&error);
            let bytes = |key| status.metadata().get_bin(key).unwrap().to_bytes().unwrap();
            let told = (bytes("error-schema-bin"), bytes("error-table-bin"), bytes(key));
            assert_eq!(
                (&told.0[..], &told.1[..], &told.2[..]),
                (&b"public"[..], &b"t"[..], &b"a"[..])
            );
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let error = Error::new(SqlState::INTERNAL_ERROR, "é".repeat(5_000));
        let status = status(&error);
        let message = status.metadata().get_bin("error-message-bin").unwrap().to_bytes().unwrap();
        assert_eq!(message.len(), FIELD_BYTES_MAX);
        assert!(std::str::from_utf8(&message).is_ok());
    }
}
