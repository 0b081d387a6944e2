//! Statements about settings that the parser lacks: `SET CONSTRAINTS`, `SET SCHEMA` and
//! `SET XML OPTION`.

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, Ident, ObjectName, Set, SetSessionParamGeneric, SetSessionParamKind,
    Statement,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::dialect::ThalwegDialect;
use super::token_steps::{next, one_of};

type Parse = fn(&mut Parser<'_>, Option<ContextModifier>) -> Result<Set, ParserError>;

/// Parses one of these statements; `None` if it is another one.
///
/// `SET CONSTRAINTS` becomes a parameter of that name: its first name is `CONSTRAINTS`, the others
/// are those of the constraints, and none are for `ALL`.
pub(super) fn parse(tokens: &[TokenWithSpan]) -> Option<Result<Tree, DataFusionError>> {
    let (_, mut rest) = one_of(tokens, &[Keyword::SET])?;
    let mut scope = None;
    if let Some((keyword, behind)) = one_of(rest, &[Keyword::LOCAL, Keyword::SESSION]) {
        scope = Some(match keyword {
            Keyword::LOCAL => ContextModifier::Local,
            _ => ContextModifier::Session,
        });
        rest = behind;
    }
    let (first, behind) = next(rest)?;
    let Token::Word(word) = &first.token else { return None };
    let follows = next(behind).map(|(token, _)| &token.token);
    let parse: Parse = match word.value.to_lowercase().as_str() {
        _ if word.quote_style.is_some() => return None,
        "constraints" if scope.is_none() => constraints,
        "schema" if matches!(follows, Some(Token::SingleQuotedString(_))) => schema,
        "xml" if matches!(follows, Some(Token::Word(_))) => xml_option,
        _ => return None,
    };
    let mut parser = Parser::new(&ThalwegDialect).with_tokens_with_locations(behind.to_vec());
    let parsed = parse(&mut parser, scope)
        .and_then(|set| parser.expect_token(&Token::EOF).map(|_| Statement::Set(set)));
    Some(match parsed {
        Ok(statement) => Ok(Tree::Statement(Box::new(statement))),
        Err(error) => Err(DataFusionError::SQL(Box::new(error), None)),
    })
}

/// `SET CONSTRAINTS { ALL | name, ... } { DEFERRED | IMMEDIATE }`, behind its first two words.
fn constraints(parser: &mut Parser<'_>, _: Option<ContextModifier>) -> Result<Set, ParserError> {
    let mut names = vec!["CONSTRAINTS".to_owned()];
    if !parser.parse_keyword(Keyword::ALL) {
        let found = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
        let last = |name: &ObjectName| name.0.last().and_then(|part| part.as_ident().cloned());
        names.extend(found.iter().filter_map(last).map(|ident| match ident.quote_style {
            Some(_) => ident.value,
            None => ident.value.to_lowercase(),
        }));
    }
    let value = match parser.parse_keyword(Keyword::DEFERRED) {
        true => "DEFERRED",
        false => parser.expect_keyword(Keyword::IMMEDIATE).map(|_| "IMMEDIATE")?,
    };
    let parameter = SetSessionParamGeneric { names, value: value.to_owned() };
    Ok(Set::SetSessionParam(SetSessionParamKind::Generic(parameter)))
}

/// `SET SCHEMA 'name'`, behind its first two words.
fn schema(parser: &mut Parser<'_>, scope: Option<ContextModifier>) -> Result<Set, ParserError> {
    let value = parser.parse_expr()?;
    Ok(assignment(scope, "search_path", value))
}

/// `SET XML OPTION { DOCUMENT | CONTENT }`, behind its first two words.
fn xml_option(parser: &mut Parser<'_>, scope: Option<ContextModifier>) -> Result<Set, ParserError> {
    parser.expect_keyword(Keyword::OPTION)?;
    let value = parser.parse_identifier()?;
    Ok(assignment(scope, "xmloption", Expr::Identifier(value)))
}

fn assignment(scope: Option<ContextModifier>, name: &str, value: Expr) -> Set {
    let variable = ObjectName::from(vec![Ident::new(name)]);
    Set::SingleAssignment { scope, hivevar: false, variable, values: vec![value] }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_single;

    #[test]
    fn statements_become_assignments() {
        for (written, read) in [
            ("SET SCHEMA 'a b'", "SET search_path = 'a b'"),
            ("SET LOCAL SCHEMA 'a'", "SET LOCAL search_path = 'a'"),
            ("SET XML OPTION document", "SET xmloption = document"),
            ("SET schema = 'a'", "SET schema = 'a'"),
        ] {
            assert_eq!(parse_single(written).unwrap().statement.to_string(), read, "{written}");
        }
        for written in ["SET CONSTRAINTS ALL DEFERRED", "SET CONSTRAINTS a, s.\"B\" IMMEDIATE"] {
            assert!(parse_single(written).is_ok(), "{written}");
        }
        for written in [
            "SET CONSTRAINTS ALL",
            "SET CONSTRAINTS ALL LATER",
            "SET CONSTRAINTS a DEFERRED x",
            "SET XML OPTION",
            "SET LOCAL CONSTRAINTS ALL DEFERRED",
        ] {
            assert!(parse_single(written).is_err(), "{written}");
        }
    }
}
