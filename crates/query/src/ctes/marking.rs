//! Finds the `WITH` queries of a statement that are to be materialised.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, CteAsMaterialized, Ident, ObjectName, Query, SetExpr, Statement, TableAlias, TableFactor,
    Value, ValueWithSpan, VisitorMut, With,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use thalweg_dialect::walk;

use super::MATERIALIZED;
use crate::statement::folded;

/// Wraps each `WITH` query that is to be materialised in a derived table of the reserved name.
///
/// A `WITH` query that shadows an outer one is renamed, since DataFusion rejects it otherwise
/// (`plan_with_clause`, DataFusion 55.2; no upstream issue found).
pub(crate) fn mark(statement: &mut Statement) {
    let mut names = Names::default();
    let _ = walk::visit_mut(statement, &mut names);
    // The type of a parameter follows from the surrounding plan, and a materialised query is not
    // part of it. Executions have values in place of parameters, and are marked themselves.
    if names.has_parameters {
        return;
    }
    if names.found.iter().any(|cte| cte.references > 1 || cte.is_asked_for) {
        let _ = walk::visit_mut(
            statement,
            &mut Wrapping { found: &names.found, next: 0, around: Vec::new() },
        );
    }
}

/// One `WITH` query.
struct Found {
    /// Number of the statement's relations that refer to it, its own recursive ones excluded.
    references: usize,
    is_self_recursive: bool,
    is_asked_for: bool,
    is_refused: bool,
}

/// The names of one `WITH`.
struct Frame {
    /// For each, its name in the statement and its present name.
    names: Vec<(String, String)>,
    /// The index of its first query in `Names::found`.
    first: usize,
    /// Number of queries visited so far.
    visited: usize,
    is_recursive: bool,
}

#[derive(Default)]
struct Names {
    found: Vec<Found>,
    frames: Vec<Frame>,
    has_parameters: bool,
}

impl Names {
    /// The innermost `WITH` query that a name refers to, as frame and place.
    fn resolve(&self, name: &str) -> Option<(usize, usize)> {
        self.frames.iter().enumerate().rev().find_map(|(depth, frame)| {
            let visible = if frame.is_recursive { frame.names.len() } else { frame.visited };
            let place = frame.names[..visible].iter().rposition(|(known, _)| known == name)?;
            Some((depth, place))
        })
    }

    fn enter(&mut self, with: &mut With) -> Frame {
        let first = self.found.len();
        let mut names = Vec::with_capacity(with.cte_tables.len());
        for cte in &mut with.cte_tables {
            let name = folded(&cte.alias.name);
            let is_taken = |frame: &Frame| frame.names.iter().any(|(known, _)| *known == name);
            let mut own = name.clone();
            if self.frames.iter().any(is_taken) {
                own = format!("{name} {}", self.found.len());
                cte.alias.name = Ident::with_quote('"', &own);
            }
            names.push((name, own));
            self.found.push(Found {
                references: 0,
                is_self_recursive: false,
                is_asked_for: matches!(cte.materialized, Some(CteAsMaterialized::Materialized)),
                is_refused: matches!(cte.materialized, Some(CteAsMaterialized::NotMaterialized)),
            });
        }
        Frame { names, first, visited: 0, is_recursive: with.recursive }
    }
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let frame = match &mut query.with {
            Some(with) => self.enter(with),
            None => Frame {
                names: Vec::new(),
                first: self.found.len(),
                visited: 0,
                is_recursive: false,
            },
        };
        self.frames.push(frame);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.frames.pop();
        // `WITH` is visited ahead of the rest of its query.
        if let Some(around) = self.frames.last_mut()
            && around.visited < around.names.len()
        {
            around.visited += 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        self.has_parameters |= matches!(value.value, Value::Placeholder(_));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let [part] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let Some(ident) = part.as_ident() else { return ControlFlow::Continue(()) };
        let called = folded(ident);
        let Some((depth, place)) = self.resolve(&called) else { return ControlFlow::Continue(()) };
        let frame = &self.frames[depth];
        let cte = &mut self.found[frame.first + place];
        match frame.visited == place {
            true => cte.is_self_recursive = true,
            false => cte.references += 1,
        }
        let own = &frame.names[place].1;
        if *own != called {
            let shown = ident.clone();
            *name = ObjectName::from(vec![Ident::with_quote('"', own)]);
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: shown,
                columns: Vec::new(),
                at: None,
            });
        }
        ControlFlow::Continue(())
    }
}

struct Wrapping<'a> {
    found: &'a [Found],
    next: usize,
    /// The place of the first `WITH` query of each query around.
    around: Vec<usize>,
}

impl VisitorMut for Wrapping<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.around.push(self.next);
        self.next += query.with.as_ref().map_or(0, |with| with.cte_tables.len());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let first = self.around.pop().unwrap_or_default();
        for (cte, found) in
            query.with.iter_mut().flat_map(|with| &mut with.cte_tables).zip(&self.found[first..])
        {
            let is_shared = found.references > 1 && !found.is_refused;
            if (is_shared || found.is_asked_for) && may_be_computed_once(&cte.query) {
                wrap(cte, found.is_self_recursive);
            }
        }
        ControlFlow::Continue(())
    }
}

/// False for queries that lock or change rows: those act for the statement itself.
fn may_be_computed_once(query: &Query) -> bool {
    let reads = !matches!(
        query.body.as_ref(),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
    );
    reads && query.locks.is_empty()
}

/// `SELECT * FROM (query) AS "thalweg materialized"`
fn wrap(cte: &mut Cte, is_self_recursive: bool) {
    let mut query = wrapper(MATERIALIZED);
    let mut inner = std::mem::replace(&mut cte.query, Box::new(query.clone()));
    if is_self_recursive {
        // The query refers to itself by the name that it has in its `WITH`.
        let mut named = wrapper(MATERIALIZED);
        let own = cte.alias.name.clone();
        if let Some(TableFactor::Table { name, alias, .. }) = source_of(&mut named) {
            (*name, *alias) = (ObjectName::from(vec![own]), None);
        }
        let recursive = Cte {
            alias: cte.alias.clone(),
            query: inner,
            from: None,
            materialized: None,
            closing_paren_token: cte.closing_paren_token.clone(),
        };
        named.with = Some(With {
            with_token: cte.closing_paren_token.clone(),
            recursive: true,
            cte_tables: vec![recursive],
        });
        inner = Box::new(named);
    }
    let alias = TableAlias {
        explicit: true,
        name: Ident::with_quote('"', MATERIALIZED),
        columns: Vec::new(),
        at: None,
    };
    if let Some(source) = source_of(&mut query) {
        *source = TableFactor::Derived {
            lateral: false,
            subquery: inner,
            alias: Some(alias),
            sample: None,
        };
    }
    *cte.query = query;
    cte.materialized = None;
}

/// `SELECT * FROM "name"`
fn wrapper(name: &str) -> Query {
    let text = format!("SELECT * FROM \"{name}\"");
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(&text);
    let query = parser.and_then(|mut parser| parser.parse_query());
    *query.expect("the text is a query")
}

fn source_of(query: &mut Query) -> Option<&mut TableFactor> {
    match query.body.as_mut() {
        SetExpr::Select(select) => select.from.first_mut().map(|from| &mut from.relation),
        _ => None,
    }
}
