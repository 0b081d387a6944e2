//! The attributes that `CREATE ROLE` and `ALTER ROLE` list.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::{DataType as ArrowType, Field, TimestampMicrosecondType};
use datafusion::sql::sqlparser::ast::{CreateRole, Expr, Password, RoleOption as Written, Value};
use thalweg_txn::{RoleOption, Secret};
use thalweg_types::{Column, ColumnId, DataType, Error, Result, SqlState};
use thalweg_values::assign::assign;

use crate::scram::ScramVerifier;
use crate::statement::Execution;

/// Attributes as they are stored, and notices about them.
#[derive(Default)]
pub(super) struct Options {
    pub(super) options: Vec<RoleOption>,
    pub(super) notices: Vec<String>,
}

impl Options {
    pub(super) fn of_create(execution: &Execution<'_>, create: &CreateRole) -> Result<Options> {
        let flags = [
            create.superuser.map(Written::SuperUser),
            create.inherit.map(Written::Inherit),
            create.create_role.map(Written::CreateRole),
            create.create_db.map(Written::CreateDB),
            create.login.map(Written::Login),
            create.replication.map(Written::Replication),
            create.bypassrls.map(Written::BypassRLS),
            create.connection_limit.clone().map(Written::ConnectionLimit),
            create.valid_until.clone().map(Written::ValidUntil),
            create.password.clone().map(Written::Password),
        ];
        let written: Vec<Written> = flags.into_iter().flatten().collect();
        Options::of_alter(execution, &written)
    }

    pub(super) fn of_alter(execution: &Execution<'_>, written: &[Written]) -> Result<Options> {
        let mut all = Options::default();
        for option in written {
            let option = match option {
                Written::SuperUser(yes) => RoleOption::Superuser(*yes),
                Written::Inherit(yes) => RoleOption::Inherit(*yes),
                Written::CreateRole(yes) => RoleOption::CreateRole(*yes),
                Written::CreateDB(yes) => RoleOption::CreateDatabase(*yes),
                Written::Login(yes) => RoleOption::Login(*yes),
                Written::ConnectionLimit(limit) => RoleOption::ConnectionLimit(limit_of(limit)?),
                Written::ValidUntil(time) => RoleOption::ValidUntil(time_of(time)?),
                Written::Password(password) => {
                    RoleOption::Password(all.secret_of(execution, password)?)
                }
                Written::Replication(false) | Written::BypassRLS(false) => continue,
                Written::Replication(true) => return Err(Error::unsupported("REPLICATION")),
                Written::BypassRLS(true) => return Err(Error::unsupported("BYPASSRLS")),
            };
            let same = |other: &RoleOption| {
                std::mem::discriminant(other) == std::mem::discriminant(&option)
            };
            if all.options.iter().any(same) {
                let message = "conflicting or redundant options";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            all.options.push(option);
        }
        Ok(all)
    }

    /// The stored form of a password. A text in the form of a verifier is used as one.
    fn secret_of(
        &mut self,
        execution: &Execution<'_>,
        password: &Password,
    ) -> Result<Option<Secret>> {
        let Password::Password(password) = password else { return Ok(None) };
        let password = text_of(password)
            .ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, "a password is a text or NULL"))?;
        if password.is_empty() {
            let notice = "empty string is not a valid password, clearing password";
            self.notices.push(notice.to_owned());
            return Ok(None);
        }
        if is_md5(password) {
            return Err(Error::unsupported("a password hashed with MD5")
                .with_hint("Give the password itself, or its SCRAM-SHA-256 verifier."));
        }
        let verifier = ScramVerifier::parse(password).unwrap_or_else(|| {
            let env = execution.database.shared.engine.env();
            ScramVerifier::of_password(password, env.random.as_ref())
        });
        Ok(Some(Secret(verifier.to_text())))
    }
}

fn is_md5(password: &str) -> bool {
    let hash = password.strip_prefix("md5");
    hash.is_some_and(|hash| hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            Value::DollarQuotedString(text) => Some(&text.value),
            _ => None,
        },
        _ => None,
    }
}

fn limit_of(expr: &Expr) -> Result<Option<u32>> {
    let text = expr.to_string();
    if text == "-1" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let message = format!("invalid connection limit: {text}");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}

/// Microseconds since 1970; `None` for no limit.
fn time_of(expr: &Expr) -> Result<Option<i64>> {
    let text = text_of(expr)
        .ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, "VALID UNTIL takes a time as a text"))?;
    if text.trim().eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    let column = Column {
        id: ColumnId(0),
        name: "valid until".to_owned(),
        data_type: DataType::Timestamptz,
        nullable: true,
        default: None,
        identity: None,
        second_digits: None,
    };
    let given: ArrayRef = Arc::new(StringViewArray::from(vec![text]));
    let time = assign(&given, &Field::new("given", ArrowType::Utf8View, true), &column)?;
    Ok(Some(time.as_primitive::<TimestampMicrosecondType>().value(0)))
}
