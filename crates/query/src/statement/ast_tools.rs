//! Builds queries from parts of other statements, as syntax trees, so that positions in the text
//! are preserved.

use datafusion::sql::sqlparser::ast::{
    CreateTable, Expr, Ident, ObjectName, Query, SelectItem, SetExpr, Statement, TableAlias,
    TableFactor, TableWithJoins,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use thalweg_dialect::parse::{parse_expression, parse_query};
use thalweg_types::{Error, Result};

/// `SELECT projection FROM from WHERE selection`
pub(crate) fn select(
    projection: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Query {
    let mut query = template("SELECT 1");
    let SetExpr::Select(select) = query.body.as_mut() else {
        unreachable!("the template is a select")
    };
    select.projection = projection;
    select.from = from;
    select.selection = selection;
    query
}

/// `catalog.namespace.name AS alias`
pub(crate) fn table(catalog: &str, namespace: &str, name: &str, alias: Ident) -> TableWithJoins {
    let mut query = template("SELECT 1 FROM t AS t");
    let SetExpr::Select(select) = query.body.as_mut() else {
        unreachable!("the template is a select")
    };
    let mut table = select.from.remove(0);
    if let TableFactor::Table { name: place, alias: Some(given), .. } = &mut table.relation {
        let parts = [catalog, namespace, name];
        *place = ObjectName::from(parts.map(|part| Ident::with_quote('"', part)).to_vec());
        *given = TableAlias { name: alias, ..given.clone() };
    }
    table
}

/// `table.column`
pub(crate) fn column(table: &Ident, column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![table.clone(), Ident::with_quote('"', column)])
}

pub(crate) fn named(expr: Expr, alias: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', alias) }
}

/// An expression from its text.
pub(crate) fn expression(text: &str) -> Result<Expr> {
    parse_expression(text).map_err(|error| {
        Error::internal(format!("cannot read the stored expression {text}")).with_source(error)
    })
}

/// A query from its text.
pub(crate) fn query(text: &str) -> Result<Query> {
    parse_query(text).map_err(|error| {
        Error::internal(format!("cannot read the query {text}")).with_source(error)
    })
}

/// `CREATE TABLE t AS SELECT 1`, as a template.
pub(crate) fn create_table_as() -> Result<CreateTable> {
    let text = "CREATE TABLE t AS SELECT 1";
    let statements = Parser::parse_sql(&PostgreSqlDialect {}, text);
    match statements.map(|mut statements| statements.pop()) {
        Ok(Some(Statement::CreateTable(create))) => Ok(create),
        _ => Err(Error::internal(format!("cannot read the statement {text}"))),
    }
}

fn template(text: &str) -> Query {
    let statements = Parser::parse_sql(&PostgreSqlDialect {}, text);
    let statement = statements.expect("the template parses").remove(0);
    let Statement::Query(query) = statement else { unreachable!("the template is a query") };
    *query
}
