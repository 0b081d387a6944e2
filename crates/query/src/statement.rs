//! Statements: recognizes the kind of each and runs it. There is one file for each kind.

mod alter_table;
pub(crate) mod ast_tools;
mod comment;
mod conflict;
mod copy;
mod create;
mod data_modifying_with;
mod delete;
mod dependents;
mod describe;
mod drop;
mod explain;
mod found_rows;
mod grant;
mod identity;
mod index;
mod insert;
mod literals;
mod locking;
mod maintenance;
mod no_ops;
mod owner;
mod query;
mod referential_actions;
mod returning;
mod role;
mod rows;
mod sequence;
mod session_commands;
mod setting_defaults;
mod settings;
mod storage_parameters;
mod stored_moments;
mod target;
mod update;
mod writes;

use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    AlterSchema, AlterSchemaOperation, Ident, ObjectType, Statement, TransactionIsolationLevel,
    TransactionMode,
};
use thalweg_dialect::parse::{Parsed, maintenance as parsed_maintenance};
use thalweg_execution::cancellable_rules::check_cancelled;
use thalweg_execution::row_forms::RowForm;
use thalweg_types::{Error, Result, SqlState, bounded};
use thalweg_values::errors::from_datafusion;

use crate::catalog::SessionCatalog;
use crate::database::Database;
use crate::locks;
use crate::outcome::Outcome;
use crate::parameters::refuse_unbound;
use crate::privileges;
use crate::temporary_objects::TemporaryObjects;

pub(crate) use conflict::{key_is_taken, reject_loaded};
pub(crate) use describe::{Description, describe};
pub(crate) use explain::plan_text;
pub(crate) use locking::{check_subqueries, has_clause, lock_wait};
pub(crate) use query::only_reads;
pub(crate) use role::session::{changed as changed_identity, setting as role_setting};
pub(crate) use rows::Shaper;
pub(crate) use session_commands::{SessionCommand, of_session};
pub(crate) use setting_defaults::set_defaults;
pub(crate) use settings::{Defaults, Definition, Modes, Scope, Setter, Settings, unrecognized};
pub(crate) use target::{QualifiedName, Target};
pub(crate) use writes::{check_writable, is_about_settings};

/// The context of one statement.
pub(crate) struct Execution<'a> {
    pub(crate) database: &'a Database,
    pub(crate) state: SessionState,
    pub(crate) names: &'a Arc<SessionCatalog>,
    pub(crate) settings: &'a mut Settings,
    pub(crate) temporary: &'a Arc<TemporaryObjects>,
    pub(crate) sql: &'a str,
    /// The form in which the rows of a query are wanted.
    pub(crate) form: RowForm,
    /// True if the statement is part of a transaction block.
    pub(crate) in_block: bool,
    /// True if the block has read its snapshot before.
    pub(crate) has_looked: bool,
    /// True if rows that the statement loads may go to workers before the commit: its transaction
    /// has no other changes.
    pub(crate) goes_ahead: bool,
}

impl Execution<'_> {
    /// Translates errors of DataFusion into our own.
    pub(crate) fn translate<T>(&self, result: Result<T, DataFusionError>) -> Result<T> {
        result.map_err(|error| from_datafusion(error, self.sql))
    }

    /// # Errors
    /// If the statement was canceled. For work that does not yield its thread.
    pub(crate) fn check_cancelled(&self) -> Result<()> {
        self.translate(check_cancelled())
    }

    /// True if the current role is a superuser.
    pub(crate) fn is_superuser(&self) -> bool {
        self.names.catalog().roles().is_superuser(self.names.identity().current)
    }

    /// Changes the modes of the open transaction.
    ///
    /// # Errors
    /// If it is too late for them.
    pub(crate) fn change_modes(&mut self, modes: Modes) -> Result<()> {
        if self.has_looked {
            self.settings.modes().check_change(modes)?;
        }
        self.settings.set_modes(modes);
        Ok(())
    }
}

/// Statements that begin and end transactions.
pub(crate) enum Control {
    Begin(Vec<TransactionMode>),
    Commit { chain: bool },
    Rollback { chain: bool },
    Savepoint(String),
    RollbackTo(String),
    Release(String),
}

/// The transaction control of a statement, if it is one.
pub(crate) fn control(parsed: &Parsed) -> Option<Control> {
    let Tree::Statement(statement) = &parsed.statement else { return None };
    Some(match statement.as_ref() {
        Statement::StartTransaction { modes, .. } => Control::Begin(modes.clone()),
        Statement::Commit { chain, .. } => Control::Commit { chain: *chain },
        Statement::Rollback { savepoint: None, chain } => Control::Rollback { chain: *chain },
        Statement::Rollback { savepoint: Some(name), .. } => Control::RollbackTo(folded(name)),
        Statement::Savepoint { name } => Control::Savepoint(folded(name)),
        Statement::ReleaseSavepoint { name } => Control::Release(folded(name)),
        _ => return None,
    })
}

/// The notice for a client that asks for an isolation level that there is not: above snapshot
/// isolation, or on a gateway above READ COMMITTED.
pub(crate) fn less_isolated(modes: &[TransactionMode], on_gateway: bool) -> Option<String> {
    let asks_for = |level| modes.contains(&TransactionMode::IsolationLevel(level));
    let serializable = asks_for(TransactionIsolationLevel::Serializable);
    if on_gateway && (serializable || asks_for(TransactionIsolationLevel::RepeatableRead)) {
        let text = "a gateway's blocks are READ COMMITTED without row locks: a statement sees what \
                    others committed since the block began, and overwrites it";
        return Some(text.to_owned());
    }
    serializable.then(|| {
        "SERIALIZABLE is REPEATABLE READ here: rows that were read and not changed may change \
         meanwhile, unless they are locked FOR UPDATE or FOR SHARE"
            .to_owned()
    })
}

/// True if a statement ends a transaction block, or rolls a failed one back to a savepoint.
pub(crate) fn ends_block(parsed: &Parsed) -> bool {
    let control = control(parsed);
    matches!(
        control,
        Some(Control::Commit { .. } | Control::Rollback { .. } | Control::RollbackTo(_))
    )
}

/// True if a statement that is a transaction of its own may be retried after `error`.
pub(crate) fn may_retry(parsed: &Parsed, error: &Error) -> bool {
    if error.state() == SqlState::SERIALIZATION_FAILURE {
        return true;
    }
    // An upsert raced with an insert of the same key. The next try finds that row and updates it.
    is_upsert(parsed) && error.state() == SqlState::UNIQUE_VIOLATION
}

/// True for an `INSERT` with an `ON CONFLICT` clause.
pub(crate) fn is_upsert(parsed: &Parsed) -> bool {
    let Tree::Statement(statement) = &parsed.statement else { return false };
    matches!(statement.as_ref(), Statement::Insert(insert) if insert.on.is_some())
}

/// Runs a statement within the transaction of `execution.names`.
pub(crate) async fn execute(execution: &mut Execution<'_>, parsed: &Parsed) -> Result<Outcome> {
    privileges::check_names(execution.names, &parsed.statement)?;
    check_subqueries(&parsed.statement)?;
    locks::check_none(&parsed.statement)?;
    refuse_unbound(&parsed.statement)?;
    let before = referential_actions::before(execution)?;
    let outcome = run(execution, parsed).await?;
    if let Some(before) = before {
        Box::pin(referential_actions::finish(execution, &before)).await?;
    }
    Ok(outcome)
}

async fn run(execution: &mut Execution<'_>, parsed: &Parsed) -> Result<Outcome> {
    match &parsed.statement {
        Tree::Statement(statement) => plain(execution, parsed, statement).await,
        Tree::CreateExternalTable(table) => create::external_table(execution, table).await,
        Tree::CopyTo(command) => Err(Error::unsupported(command)),
        Tree::Explain(_) => explain::run(execution, parsed).await,
        Tree::Reset(reset) => settings::reset(execution, reset),
    }
}

async fn plain(
    execution: &mut Execution<'_>,
    parsed: &Parsed,
    statement: &Statement,
) -> Result<Outcome> {
    match statement {
        Statement::Query(query) => query::run_or_change(execution, query, parsed).await,
        Statement::Explain { .. } => query::run(execution, parsed).await,
        Statement::Insert(insert) => insert::run(execution, insert).await,
        Statement::Update(update) => update::run(execution, update, None).await,
        Statement::Delete(delete) => delete::run(execution, delete, None).await,
        Statement::Truncate(truncate) => delete::truncate(execution, truncate),
        Statement::Copy { .. } => copy::run(execution, statement).await,
        Statement::CreateTable(table) => create::table(execution, table).await,
        Statement::CreateView(view) => create::view(execution, view).await,
        Statement::CreateSchema { schema_name, if_not_exists, .. } => {
            create::namespace(execution, schema_name, *if_not_exists)
        }
        Statement::CreateIndex(create) => index::create(execution, create).await,
        Statement::AlterIndex { name, operation } => index::rename(execution, name, operation),
        Statement::AlterTable(alter) => {
            match sequence::alter(execution, alter).or_else(|| identity::alter(execution, alter)) {
                Some(altered) => altered,
                None => alter_table::run(execution, alter).await,
            }
        }
        Statement::CreateSequence {
            name,
            if_not_exists,
            data_type,
            sequence_options,
            owned_by,
            temporary,
        } => {
            let name = (name, *temporary);
            let options = (data_type.as_ref(), sequence_options.as_slice());
            sequence::create(execution, name, *if_not_exists, options, owned_by.as_ref())
        }
        Statement::AlterSchema(alter) => alter_schema(execution, alter),
        Statement::CreateRole(create) => role::create(execution, create),
        Statement::AlterRole { name, operation } => role::alter(execution, name, operation),
        Statement::Drop {
            object_type: ObjectType::Role | ObjectType::User,
            if_exists,
            names,
            ..
        } => role::drop(execution, names, *if_exists),
        Statement::Grant(grant) => grant::grant(execution, grant),
        Statement::Revoke(revoke) => grant::revoke(execution, revoke),
        Statement::Drop { object_type, if_exists, names, cascade, .. } => {
            drop::run(execution, *object_type, names, *if_exists, *cascade).await
        }
        Statement::Set(set) => settings::set(execution, set),
        Statement::ShowVariable { variable } => settings::show(execution, variable).await,
        Statement::ShowTables { .. } => settings::show_tables(execution).await,
        Statement::Comment { object_type, object_name, comment, .. } => {
            comment::run(execution, object_type, object_name, comment.as_deref()).await
        }
        Statement::Lock(lock) => no_ops::lock(execution, lock),
        other => match parsed_maintenance(other) {
            Some(wanted) => maintenance::run(execution, &wanted?).await,
            None => Err(Error::unsupported(kind_of(other))),
        },
    }
}

fn alter_schema(execution: &Execution<'_>, alter: &AlterSchema) -> Result<Outcome> {
    let outcome = Outcome::command("ALTER SCHEMA");
    let [AlterSchemaOperation::OwnerTo { owner }] = alter.operations.as_slice() else {
        return Err(Error::unsupported(alter));
    };
    match owner::of_namespace(execution, &alter.name, owner) {
        Err(error) if alter.if_exists && error.state() == SqlState::INVALID_SCHEMA_NAME => {
            Ok(outcome.with_notice(format!("{}, skipping", error.message())))
        }
        given => given.map(|()| outcome),
    }
}

/// Maximum length of two keywords, in bytes.
const KIND_BYTES_MAX: usize = 64;

/// The keywords that a statement begins with.
fn kind_of(statement: &Statement) -> String {
    let text = bounded(statement, KIND_BYTES_MAX);
    let words: Vec<&str> = text
        .split_whitespace()
        .take(2)
        .take_while(|word| word.chars().all(|c| c.is_ascii_uppercase()))
        .collect();
    if words.is_empty() { "this statement".to_owned() } else { words.join(" ") }
}

/// An identifier as it is stored: lower case unless it was quoted.
pub(crate) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}
