//! Registered tables: rows of the embedding program that the queries of one session read by name.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{ObjectName, Query, Statement, Visitor};
use thalweg_dialect::parse::parse;
use thalweg_dialect::walk;
use thalweg_types::{Error, Result};

/// The registered tables of a session, by name. Clones are cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegisteredTables(Arc<HashMap<String, Arc<dyn TableProvider>>>);

impl RegisteredTables {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.0.get(name).cloned()
    }

    /// Adds a table, or replaces the one of that name.
    ///
    /// # Errors
    /// If a batch has other columns than the schema.
    pub(crate) fn insert(
        &mut self,
        name: &str,
        schema: SchemaRef,
        rows: Vec<RecordBatch>,
    ) -> Result<()> {
        let table = MemTable::try_new(schema, vec![rows]).map_err(|error| {
            Error::internal("the batches of a table differ in their columns").with_source(error)
        })?;
        Arc::make_mut(&mut self.0).insert(name.to_owned(), Arc::new(table));
        Ok(())
    }

    /// Removes a table. Returns false if there is none of that name.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.0.contains_key(name) && Arc::make_mut(&mut self.0).remove(name).is_some()
    }
}

/// The unqualified names of relations that the statements of a text read, in alphabetical order.
/// Names of common table expressions are left out.
///
/// # Errors
/// A syntax error, with its position in `sql`.
pub fn relation_names(sql: &str) -> Result<Vec<String>> {
    let mut names = Names::default();
    for parsed in parse(sql)? {
        if let Some(statement) = statement_of(&parsed.statement) {
            let _ = walk::visit(statement, &mut names);
        }
    }
    let Names { relations, expressions } = names;
    Ok(relations.difference(&expressions).cloned().collect())
}

fn statement_of(tree: &Tree) -> Option<&Statement> {
    match tree {
        Tree::Statement(statement) => Some(statement),
        Tree::Explain(explain) => statement_of(&explain.statement),
        _ => None,
    }
}

/// The names that a visit of a syntax tree has found.
#[derive(Default)]
struct Names {
    relations: BTreeSet<String>,
    /// Names of common table expressions.
    expressions: BTreeSet<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(with) = &query.with {
            self.expressions.extend(with.cte_tables.iter().map(|table| {
                let name = &table.alias.name;
                folded(&name.value, name.quote_style)
            }));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        if let [part] = name.0.as_slice()
            && let Some(name) = part.as_ident()
        {
            self.relations.insert(folded(&name.value, name.quote_style));
        }
        ControlFlow::Continue(())
    }
}

/// A name as relations have it: in lower case unless it is quoted.
fn folded(name: &str, quote: Option<char>) -> String {
    match quote {
        Some(_) => name.to_owned(),
        None => name.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, UInt8Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use futures::TryStreamExt as _;
    use thalweg_types::SqlState;

    use super::*;
    use crate::{Database, Session};

    #[test]
    fn names_are_those_that_a_statement_reads() {
        let names = |sql: &str| relation_names(sql).unwrap().join(" ");
        for (sql, expected) in [
            ("SELECT 1", ""),
            ("SELECT * FROM Orders o JOIN \"Items\" i ON o.id = i.id", "Items orders"),
            ("SELECT * FROM public.orders", ""),
            ("WITH a AS (SELECT * FROM b) SELECT * FROM a, c", "b c"),
            ("SELECT (SELECT max(x) FROM a) FROM b WHERE x IN (SELECT y FROM c)", "a b c"),
            ("INSERT INTO t SELECT * FROM frame", "frame t"),
            ("EXPLAIN SELECT * FROM frame", "frame"),
            ("SELECT * FROM a; SELECT * FROM b", "a b"),
        ] {
            assert_eq!(names(sql), expected, "{sql}");
        }
        assert!(relation_names("SELECT (").is_err());
    }

    fn register(session: &mut Session, name: &str, values: Vec<i64>) {
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::UInt8, true),
        ]));
        let small = values.iter().map(|value| *value as u8).collect::<Vec<_>>();
        let columns: Vec<arrow::array::ArrayRef> =
            vec![Arc::new(Int64Array::from(values)), Arc::new(UInt8Array::from(small))];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        session.register(name, schema, vec![batch]).unwrap();
    }

    async fn number(session: &mut Session, sql: &str) -> Result<i64> {
        let batches: Vec<RecordBatch> =
            session.execute(sql).await?.rows.expect("a query").try_collect().await?;
        Ok(batches[0].column(0).as_any().downcast_ref::<Int64Array>().unwrap().value(0))
    }

    #[tokio::test]
    async fn queries_read_the_table_that_is_registered_now() {
        let database = Database::in_memory().unwrap();
        let (mut session, mut other) = (database.session(), database.session());
        let sql = "SELECT sum(a)::int8 FROM frame";
        // A repeated text may have a cached plan, which must not outlive its rows.
        for round in 1..=4 {
            register(&mut session, "frame", vec![round, 10]);
            assert_eq!(number(&mut session, sql).await.unwrap(), round + 10);
        }
        let own = "SELECT (b * 2)::int8 FROM frame WHERE b > 5";
        assert_eq!(number(&mut session, own).await.unwrap(), 20);
        let missing = number(&mut other, sql).await.unwrap_err();
        assert_eq!(missing.state(), SqlState::UNDEFINED_TABLE);
        assert!(session.unregister("frame") && !session.unregister("frame"));
        let missing = number(&mut session, sql).await.unwrap_err();
        assert_eq!(missing.state(), SqlState::UNDEFINED_TABLE);
    }

    #[tokio::test]
    async fn tables_of_the_database_come_first_and_take_rows() {
        let database = Database::in_memory().unwrap();
        let mut session = database.session();
        session.execute("CREATE TABLE t (a bigint PRIMARY KEY)").await.unwrap();
        register(&mut session, "frame", vec![1, 2, 3]);
        session.execute("INSERT INTO t SELECT a FROM frame").await.unwrap();
        register(&mut session, "t", vec![100]);
        assert_eq!(number(&mut session, "SELECT sum(a)::int8 FROM t").await.unwrap(), 6);
        let refused = session.execute("INSERT INTO frame VALUES (4, 4)").await.err().unwrap();
        assert_eq!(refused.state(), SqlState::UNDEFINED_TABLE);
    }
}
