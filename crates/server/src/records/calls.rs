//! The calls of the service.

use thalweg_protocol::v1::Operation;
use thalweg_query::RecordChange;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// A stream of rows with one operation for all, answered once at its end.
    Change(RecordChange),
    Write,
    Search,
    Describe,
}

impl Call {
    pub(super) const ALL: [Call; 7] = [
        Call::Change(RecordChange::Create),
        Call::Change(RecordChange::Update),
        Call::Change(RecordChange::Upsert),
        Call::Change(RecordChange::Remove),
        Call::Write,
        Call::Search,
        Call::Describe,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Call::Change(RecordChange::Create) => "Create",
            Call::Change(RecordChange::Update) => "Update",
            Call::Change(RecordChange::Upsert) => "Upsert",
            Call::Change(RecordChange::Remove) => "Remove",
            Call::Write => "Write",
            Call::Search => "Search",
            Call::Describe => "Describe",
        }
    }

    pub(super) fn named(name: &str) -> Option<Call> {
        Call::ALL.into_iter().find(|call| call.name() == name)
    }

    /// The change that an operation means in this call; `None` if the call does not allow it.
    pub(super) fn change(self, operation: Operation) -> Option<RecordChange> {
        let wanted = match operation {
            Operation::Unspecified => None,
            Operation::Create => Some(RecordChange::Create),
            Operation::Update => Some(RecordChange::Update),
            Operation::Upsert => Some(RecordChange::Upsert),
            Operation::Remove => Some(RecordChange::Remove),
        };
        match (self, wanted) {
            (Call::Write, wanted) => Some(wanted.unwrap_or(RecordChange::Upsert)),
            (Call::Change(change), None) => Some(change),
            (Call::Change(change), Some(wanted)) => (change == wanted).then_some(change),
            (Call::Search | Call::Describe, _) => None,
        }
    }
}
