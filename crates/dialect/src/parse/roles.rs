//! Statements about roles as PostgreSQL spells them.
//!
//! The parser takes `CREATE USER`, `ALTER USER` and `GRANT role TO role` for another database's
//! statements of that name. Here they become the trees of `CREATE ROLE`, `ALTER ROLE`, and of
//! `GRANT` with an [`Action::Role`] for each role.

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    Action, CascadeOption, Grant, Grantee, GranteeName, GranteesType, Ident, ObjectName,
    ObjectType, Privileges, Revoke, Statement,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_values::sql_parts::NESTING_MAX;

use super::dialect::ThalwegDialect;

type Parse = fn(&mut Parser<'_>) -> Result<Statement, ParserError>;

/// Parses a statement about roles; `None` if it is about something else.
pub(super) fn parse(tokens: &[TokenWithSpan]) -> Option<Result<Tree, DataFusionError>> {
    let parse = parse_for(tokens)?;
    let mut parser = Parser::new(&ThalwegDialect)
        .with_tokens_with_locations(respelled(tokens))
        .with_recursion_limit(NESTING_MAX);
    let parsed = parse(&mut parser)
        .and_then(|statement| parser.expect_token(&Token::EOF).map(|_| statement));
    Some(match parsed {
        Ok(statement) => Ok(Tree::Statement(Box::new(statement))),
        Err(error) => Err(DataFusionError::SQL(Box::new(error), None)),
    })
}

fn parse_for(tokens: &[TokenWithSpan]) -> Option<Parse> {
    let mut words = tokens.iter().filter_map(keyword);
    Some(match (words.next()?, words.next()) {
        (Keyword::CREATE, Some(Keyword::USER)) => |parser| create(parser, true),
        (Keyword::CREATE, Some(Keyword::ROLE | Keyword::GROUP)) => |parser| create(parser, false),
        (Keyword::ALTER, Some(Keyword::USER | Keyword::ROLE)) => alter,
        (Keyword::ALTER, Some(Keyword::GROUP)) => alter_group,
        (Keyword::DROP, Some(Keyword::GROUP)) => drop_group,
        (Keyword::GRANT, _) if !names_objects(tokens, Keyword::TO) => grant,
        (Keyword::REVOKE, _) if !names_objects(tokens, Keyword::FROM) => revoke,
        _ => return None,
    })
}

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// True if `ON` comes before the roles, which follow `end`.
fn names_objects(tokens: &[TokenWithSpan], end: Keyword) -> bool {
    let mut words = tokens.iter().filter_map(keyword);
    words.find(|word| *word == end || *word == Keyword::ON) == Some(Keyword::ON)
}

/// The words in the parser's spelling. `ENCRYPTED PASSWORD` becomes `PASSWORD`, since
/// there is no other kind; `CONNECTION LIMIT -1` gets one number token, not a sign and a number.
fn respelled(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let spoken = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    let mut rest = tokens.iter().filter(spoken).cloned().peekable();
    let mut respelled: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    while let Some(mut token) = rest.next() {
        let next = rest.peek().map(|next| &next.token);
        let after_limit = respelled.last().and_then(keyword) == Some(Keyword::LIMIT);
        match (&token.token, next) {
            (Token::Word(word), Some(Token::Word(next)))
                if word.quote_style.is_none()
                    && word.value.eq_ignore_ascii_case("encrypted")
                    && next.keyword == Keyword::PASSWORD =>
            {
                continue;
            }
            (Token::Minus, Some(Token::Number(digits, long))) if after_limit => {
                token.token = Token::Number(format!("-{digits}"), *long);
                rest.next();
            }
            _ => {}
        }
        respelled.push(token);
    }
    respelled
}

fn create(parser: &mut Parser<'_>, user: bool) -> Result<Statement, ParserError> {
    parser.next_token();
    parser.next_token();
    let mut role = parser.parse_create_role()?;
    if user && role.login.is_none() {
        role.login = Some(true);
    }
    Ok(Statement::CreateRole(role))
}

fn alter(parser: &mut Parser<'_>) -> Result<Statement, ParserError> {
    parser.next_token();
    parser.next_token();
    parser.parse_alter_role()
}

/// `ALTER GROUP`, which sets no defaults of settings.
fn alter_group(parser: &mut Parser<'_>) -> Result<Statement, ParserError> {
    let words = parser.peek_tokens::<4>();
    if let [_, _, _, Token::Word(word)] = &words
        && matches!(word.keyword, Keyword::SET | Keyword::RESET)
    {
        for _ in 0..3 {
            parser.next_token();
        }
        return parser.expected_ref("ADD, DROP or RENAME", parser.peek_token_ref());
    }
    alter(parser)
}

fn drop_group(parser: &mut Parser<'_>) -> Result<Statement, ParserError> {
    parser.next_token();
    parser.next_token();
    Ok(Statement::Drop {
        object_type: ObjectType::Role,
        if_exists: parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]),
        names: parser.parse_comma_separated(|parser| parser.parse_object_name(false))?,
        cascade: false,
        restrict: false,
        purge: false,
        temporary: false,
        table: None,
    })
}

fn grant(parser: &mut Parser<'_>) -> Result<Statement, ParserError> {
    parser.next_token();
    let privileges = roles(parser)?;
    parser.expect_keyword_is(Keyword::TO)?;
    let grantees = grantees(parser)?;
    let with_grant_option =
        parser.parse_keywords(&[Keyword::WITH, Keyword::ADMIN, Keyword::OPTION]);
    let granted_by = granted_by(parser)?;
    Ok(Statement::Grant(Grant {
        privileges,
        objects: None,
        grantees,
        with_grant_option,
        as_grantor: None,
        granted_by,
        current_grants: None,
    }))
}

fn revoke(parser: &mut Parser<'_>) -> Result<Statement, ParserError> {
    parser.next_token();
    let privileges = roles(parser)?;
    parser.expect_keyword_is(Keyword::FROM)?;
    let grantees = grantees(parser)?;
    let granted_by = granted_by(parser)?;
    let cascade = match parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]) {
        Some(Keyword::CASCADE) => Some(CascadeOption::Cascade),
        Some(_) => Some(CascadeOption::Restrict),
        None => None,
    };
    Ok(Statement::Revoke(Revoke { privileges, objects: None, grantees, granted_by, cascade }))
}

fn roles(parser: &mut Parser<'_>) -> Result<Privileges, ParserError> {
    let roles = parser.parse_comma_separated(Parser::parse_identifier)?;
    let action = |role: Ident| Action::Role { role: ObjectName::from(vec![role]) };
    Ok(Privileges::Actions(roles.into_iter().map(action).collect()))
}

fn grantees(parser: &mut Parser<'_>) -> Result<Vec<Grantee>, ParserError> {
    parser.parse_comma_separated(|parser| {
        let _ = parser.parse_keyword(Keyword::GROUP);
        let name = ObjectName::from(vec![parser.parse_identifier()?]);
        let name = Some(GranteeName::ObjectName(name));
        Ok(Grantee { grantee_type: GranteesType::None, name })
    })
}

fn granted_by(parser: &mut Parser<'_>) -> Result<Option<Ident>, ParserError> {
    if !parser.parse_keywords(&[Keyword::GRANTED, Keyword::BY]) {
        return Ok(None);
    }
    parser.parse_identifier().map(Some)
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_single;

    #[test]
    fn users_are_roles_that_may_log_in() {
        for (written, read) in [
            ("CREATE USER ann", "CREATE ROLE ann LOGIN"),
            ("CREATE USER ann NOLOGIN", "CREATE ROLE ann NOLOGIN"),
            ("create group g", "CREATE ROLE g"),
            (
                "CREATE ROLE ann WITH ENCRYPTED PASSWORD 'x' IN ROLE g, h",
                "CREATE ROLE ann PASSWORD 'x' IN ROLE g, h",
            ),
            ("ALTER USER ann PASSWORD NULL", "ALTER ROLE ann WITH PASSWORD NULL"),
            ("ALTER USER ann RENAME TO bob", "ALTER ROLE ann RENAME TO bob"),
            ("ALTER USER ann CONNECTION LIMIT - 1", "ALTER ROLE ann WITH CONNECTION LIMIT -1"),
            ("DROP GROUP IF EXISTS g, h", "DROP ROLE IF EXISTS g, h"),
        ] {
            let parsed = parse_single(written).unwrap();
            assert_eq!(parsed.statement.to_string(), read, "{written}");
        }
    }

    #[test]
    fn roles_are_granted_like_privileges() {
        for (written, read) in [
            ("GRANT g, h TO ann WITH ADMIN OPTION", "GRANT ROLE g, ROLE h TO ann"),
            ("REVOKE g FROM ann, bob CASCADE", "REVOKE ROLE g FROM ann, bob CASCADE"),
            ("GRANT SELECT ON t TO PUBLIC", "GRANT SELECT ON t TO PUBLIC"),
        ] {
            let parsed = parse_single(written).unwrap().statement.to_string();
            assert!(parsed.starts_with(read), "{written}: {parsed}");
        }
    }

    #[test]
    fn what_follows_is_refused() {
        for text in ["CREATE USER ann nonsense", "GRANT g TO ann nonsense", "GRANT g TO"] {
            assert!(parse_single(text).is_err(), "{text}");
        }
    }
}
