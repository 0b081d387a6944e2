//! `ALTER ROLE … SET`, `ALTER DATABASE … SET`, and the same with `RESET`.
//!
//! Both become an [`Statement::AlterRole`] with the operation `Set` or `Reset`. Its name is `ALL`
//! without quotes for all roles, and empty for `ALTER DATABASE`; see [`SettingOwner`]. The values
//! of `SET` are an [`Expr::Tuple`].

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    AlterRoleOperation, Expr, Ident, ObjectName, ResetConfig, Set, SetConfigValue,
    SetSessionAuthorizationParamKind, Statement, Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::dialect::ThalwegDialect;
use super::token_steps::{next, one_of};

/// The object that a statement sets defaults for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingOwner<'a> {
    Role(&'a Ident),
    AllRoles,
    Database,
}

impl SettingOwner<'_> {
    /// Reads the name of an `AlterRole` that sets or resets a setting.
    #[must_use]
    pub fn of(name: &Ident) -> SettingOwner<'_> {
        match name.quote_style {
            None if name.value.is_empty() => SettingOwner::Database,
            None if name.value.eq_ignore_ascii_case("all") => SettingOwner::AllRoles,
            _ => SettingOwner::Role(name),
        }
    }
}

/// Parses one of these statements; `None` if it is another one.
pub(super) fn parse(tokens: &[TokenWithSpan]) -> Option<Result<Tree, DataFusionError>> {
    let (_, rest) = one_of(tokens, &[Keyword::ALTER])?;
    let (kind, rest) = one_of(rest, &[Keyword::ROLE, Keyword::USER, Keyword::DATABASE])?;
    let (named, mut rest) = identifier(rest)?;
    let mut name = named.clone();
    let mut database = None;
    if kind == Keyword::DATABASE {
        name.value.clear();
        name.quote_style = None;
        database = Some(named);
    } else if let Some((_, behind)) = one_of(rest, &[Keyword::IN]) {
        let (_, behind) = one_of(behind, &[Keyword::DATABASE])?;
        let (found, behind) = identifier(behind)?;
        (database, rest) = (Some(found), behind);
    }
    let database = database.map(|name| ObjectName::from(vec![name]));
    let operation = match one_of(rest, &[Keyword::SET, Keyword::RESET]) {
        Some((Keyword::SET, behind)) => set(rest, behind, database),
        Some((_, behind)) => reset(rest, behind, database),
        // Other changes are for one role, in no database.
        None if kind == Keyword::DATABASE => return None,
        None if database.is_some() || SettingOwner::of(&name) == SettingOwner::AllRoles => {
            Err(unexpected(rest, "SET or RESET"))
        }
        None => return None,
    };
    let statement = |operation| Statement::AlterRole { name, operation };
    Some(operation.map(|operation| Tree::Statement(Box::new(statement(operation)))))
}

fn identifier(tokens: &[TokenWithSpan]) -> Option<(Ident, &[TokenWithSpan])> {
    let (first, behind) = next(tokens)?;
    let Token::Word(word) = &first.token else { return None };
    Some((word.to_ident(first.span), behind))
}

fn parser(tokens: &[TokenWithSpan]) -> Parser<'static> {
    Parser::new(&ThalwegDialect).with_tokens_with_locations(tokens.to_vec())
}

fn unexpected(tokens: &[TokenWithSpan], wanted: &str) -> DataFusionError {
    let parser = parser(tokens);
    let error = parser.expected_ref::<()>(wanted, parser.peek_token_ref());
    sql_error(error.expect_err("it is always an error"))
}

fn sql_error(error: ParserError) -> DataFusionError {
    DataFusionError::SQL(Box::new(error), None)
}

/// The operation of `SET …`. `tokens` begin with `SET`, and `behind` follows it.
fn set(
    tokens: &[TokenWithSpan],
    behind: &[TokenWithSpan],
    in_database: Option<ObjectName>,
) -> Result<AlterRoleOperation, DataFusionError> {
    if let Some((keyword, rest)) = one_of(behind, &[Keyword::LOCAL, Keyword::SESSION])
        && (keyword == Keyword::LOCAL
            || one_of(rest, &[Keyword::AUTHORIZATION, Keyword::CHARACTERISTICS]).is_none())
    {
        return Err(unexpected(rest, "= or TO"));
    }
    let mut parser = parser(behind);
    if let Ok(config_name) = parser.parse_object_name(false)
        && parser.parse_keywords(&[Keyword::FROM, Keyword::CURRENT])
    {
        parser.expect_token(&Token::EOF).map_err(sql_error)?;
        let config_value = SetConfigValue::FromCurrent;
        return Ok(AlterRoleOperation::Set { config_name, config_value, in_database });
    }
    let parsed = match super::settings::parse(tokens) {
        Some(parsed) => parsed?,
        None => super::parse_other(tokens.to_vec())?,
    };
    let Tree::Statement(statement) = parsed else { return Err(unexpected(behind, "a setting")) };
    let Statement::Set(set) = *statement else { return Err(unexpected(behind, "a setting")) };
    let Some((config_name, config_value)) = assignment(set) else {
        return Err(unexpected(behind, "a setting"));
    };
    Ok(AlterRoleOperation::Set { config_name, config_value, in_database })
}

/// The setting and the values of a `SET`. Statements about transactions name no setting; their
/// name here is one that no setting has.
fn assignment(set: Set) -> Option<(ObjectName, SetConfigValue)> {
    let named = |name: &str| ObjectName::from(vec![Ident::new(name)]);
    let quoted = |name: &str| ObjectName::from(vec![Ident::with_quote('"', name)]);
    let of_ident = |name: Ident| match name.quote_style {
        Some('\'') => text(name.value),
        _ => Expr::Identifier(name),
    };
    let (name, values) = match set {
        Set::SingleAssignment { variable, values, .. } => (variable, Some(values)),
        Set::SetTimeZone { value, .. } => (named("timezone"), Some(vec![value])),
        Set::SetNames { charset_name, .. } => {
            (named("client_encoding"), Some(vec![of_ident(charset_name)]))
        }
        Set::SetNamesDefault {} => (named("client_encoding"), None),
        Set::SetRole { role_name, .. } => {
            let role = role_name.map_or_else(|| text("none".to_owned()), of_ident);
            (named("role"), Some(vec![role]))
        }
        Set::SetSessionAuthorization(to) => {
            let value = match to.kind {
                SetSessionAuthorizationParamKind::Default => None,
                SetSessionAuthorizationParamKind::User(name) => Some(vec![of_ident(name)]),
            };
            (named("session_authorization"), value)
        }
        Set::SetTransaction { snapshot: Some(_), .. } => (quoted("TRANSACTION SNAPSHOT"), None),
        Set::SetTransaction { session: true, .. } => (quoted("SESSION CHARACTERISTICS"), None),
        Set::SetTransaction { .. } => (quoted("TRANSACTION"), None),
        _ => return None,
    };
    let value =
        values.map_or(SetConfigValue::Default, |values| SetConfigValue::Value(Expr::Tuple(values)));
    Some((name, value))
}

fn text(value: String) -> Expr {
    Expr::Value(Value::SingleQuotedString(value).into())
}

/// The operation of `RESET …`. `tokens` begin with `RESET`, and `behind` follows it.
fn reset(
    tokens: &[TokenWithSpan],
    behind: &[TokenWithSpan],
    in_database: Option<ObjectName>,
) -> Result<AlterRoleOperation, DataFusionError> {
    let mut parser = parser(behind);
    if parser.parse_keyword(Keyword::ALL) {
        parser.expect_token(&Token::EOF).map_err(sql_error)?;
        let config_name = ResetConfig::ALL;
        return Ok(AlterRoleOperation::Reset { config_name, in_database });
    }
    let of_words = [Keyword::TIME, Keyword::SESSION, Keyword::TRANSACTION];
    if one_of(behind, &of_words).is_none() {
        // DataFusion would take `a b` for `a.b`.
        parser.parse_object_name(false).map_err(sql_error)?;
        parser.expect_token(&Token::EOF).map_err(sql_error)?;
    }
    let Tree::Reset(reset) = super::parse_other(tokens.to_vec())? else {
        return Err(unexpected(behind, "a setting"));
    };
    let datafusion::sql::parser::ResetStatement::Variable(name) = reset;
    let config_name = ResetConfig::ConfigName(name);
    Ok(AlterRoleOperation::Reset { config_name, in_database })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_single;

    #[test]
    fn spellings_of_set_become_one_form() {
        for (written, read) in [
            ("SET a = 1, 'b'", "SET a TO (1, 'b')"),
            ("SET a TO DEFAULT", "SET a TO (DEFAULT)"),
            ("SET a.b FROM CURRENT", "SET a.b FROM CURRENT"),
            ("SET TIME ZONE 'UTC'", "SET timezone TO ('UTC')"),
            ("SET NAMES 'utf8'", "SET client_encoding TO ('utf8')"),
            ("SET ROLE NONE", "SET role TO ('none')"),
            ("SET ROLE \"X\"", "SET role TO (\"X\")"),
            ("SET SCHEMA 'a b'", "SET search_path TO ('a b')"),
            ("SET TRANSACTION READ ONLY", "SET \"TRANSACTION\" TO DEFAULT"),
            ("RESET a", "RESET a"),
            ("RESET ALL", "RESET ALL"),
        ] {
            for (before, shown) in [
                ("ALTER ROLE ann", "ALTER ROLE ann"),
                ("alter user ann in database d", "ALTER ROLE ann IN DATABASE d"),
                ("ALTER ROLE ALL", "ALTER ROLE ALL"),
                ("ALTER DATABASE \"D\"", "ALTER ROLE  IN DATABASE \"D\""),
            ] {
                let parsed = parse_single(&format!("{before} {written}")).unwrap();
                assert_eq!(parsed.statement.to_string(), format!("{shown} {read}"));
            }
        }
    }

    #[test]
    fn owners_are_told_apart() {
        let owner = |text: &str| {
            let parsed = parse_single(&format!("{text} RESET ALL")).unwrap();
            let Tree::Statement(statement) = parsed.statement else { unreachable!() };
            let Statement::AlterRole { name, .. } = *statement else { unreachable!() };
            format!("{:?}", SettingOwner::of(&name)).split('(').next().unwrap().to_owned()
        };
        assert_eq!(owner("ALTER ROLE all"), "AllRoles");
        assert_eq!(owner("ALTER ROLE \"all\""), "Role");
        assert_eq!(owner("ALTER DATABASE all_of_it"), "Database");
    }

    #[test]
    fn other_words_are_refused() {
        for text in [
            "ALTER ROLE ann SET",
            "ALTER ROLE ann SET a",
            "ALTER ROLE ann SET a = 1 b",
            "ALTER ROLE ann SET LOCAL a = 1",
            "ALTER ROLE ann SET SESSION a = 1",
            "ALTER ROLE ann SET CONSTRAINTS ALL DEFERRED",
            "ALTER ROLE ann RESET",
            "ALTER ROLE ann RESET a b",
            "ALTER ROLE ann IN DATABASE d",
            "ALTER ROLE ann IN DATABASE d RENAME TO e",
            "ALTER ROLE ALL CREATEDB",
            "ALTER ROLE ALL",
            "ALTER GROUP ann SET a = 1",
            "ALTER DATABASE d SET",
        ] {
            let error = parse_single(text).map(|parsed| parsed.statement.to_string());
            let error = error.expect_err(text);
            assert!(error.message().starts_with("syntax error"), "{text}: {error:?}");
        }
    }
}
