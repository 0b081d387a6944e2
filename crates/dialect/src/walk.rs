//! Walks over syntax trees, compiled once for all visitors.
//!
//! `sqlparser` compiles the walk over every kind of node again for each type of visitor, which made
//! an eighth of the program. Here one type of visitor passes each node on through a table of
//! methods. Functions have the names and the order of visits of `sqlparser`'s.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

/// Shows a tree to a visitor. Returns the reason if the visitor ended the walk.
#[expect(clippy::disallowed_methods, reason = "the one place that may")]
pub fn visit<N: Visit, V: Visitor>(node: &N, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut ending = Ending { visitor, reason: None };
    let _ = node.visit(&mut Reader(&mut ending));
    ending.reason.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Shows a tree to a visitor that may change it. Returns the reason if the visitor ended the walk.
#[expect(clippy::disallowed_methods, reason = "the one place that may")]
pub fn visit_mut<N: VisitMut, V: VisitorMut>(
    node: &mut N,
    visitor: &mut V,
) -> ControlFlow<V::Break> {
    let mut ending = Ending { visitor, reason: None };
    let _ = node.visit(&mut Writer(&mut ending));
    ending.reason.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Shows the names of all relations in a tree, each before what is inside it.
pub fn visit_relations<N: Visit, B>(
    node: &N,
    visit_one: impl FnMut(&ObjectName) -> ControlFlow<B>,
) -> ControlFlow<B> {
    visit(node, &mut Relations(visit_one))
}

/// Shows the names of all relations in a tree, to be changed, each after what is inside it.
pub fn visit_relations_mut<N: VisitMut, B>(
    node: &mut N,
    visit_one: impl FnMut(&mut ObjectName) -> ControlFlow<B>,
) -> ControlFlow<B> {
    visit_mut(node, &mut Relations(visit_one))
}

/// Shows all expressions in a tree, each before those inside it.
pub fn visit_expressions<N: Visit, B>(
    node: &N,
    visit_one: impl FnMut(&Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    visit(node, &mut Expressions(visit_one))
}

/// Shows all expressions in a tree, to be changed, each after those inside it.
pub fn visit_expressions_mut<N: VisitMut, B>(
    node: &mut N,
    visit_one: impl FnMut(&mut Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    visit_mut(node, &mut Expressions(visit_one))
}

struct Relations<F>(F);

impl<B, F: FnMut(&ObjectName) -> ControlFlow<B>> Visitor for Relations<F> {
    type Break = B;

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<B> {
        (self.0)(relation)
    }
}

impl<B, F: FnMut(&mut ObjectName) -> ControlFlow<B>> VisitorMut for Relations<F> {
    type Break = B;

    fn post_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<B> {
        (self.0)(relation)
    }
}

struct Expressions<F>(F);

impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Expressions<F> {
    type Break = B;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        (self.0)(expr)
    }
}

impl<B, F: FnMut(&mut Expr) -> ControlFlow<B>> VisitorMut for Expressions<F> {
    type Break = B;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
        (self.0)(expr)
    }
}

/// A visitor with the reason for which it ended the walk: [`Reader`] and [`Writer`] know no type of
/// reasons.
struct Ending<'a, V, B> {
    visitor: &'a mut V,
    reason: Option<B>,
}

impl<V, B> Ending<'_, V, B> {
    fn keep(&mut self, flow: ControlFlow<B>) -> ControlFlow<()> {
        flow.map_break(|reason| self.reason = Some(reason))
    }
}

/// The only visitor that `sqlparser` sees of those that read.
struct Reader<'a>(&'a mut dyn Visitor<Break = ()>);

/// The only visitor that `sqlparser` sees of those that may change the tree.
struct Writer<'a>(&'a mut dyn VisitorMut<Break = ()>);

/// Makes a visitor of [`Ending`] and of the type that passes nodes on to it.
macro_rules! pass_on {
    ($trait:ident, $passing:ident: $($method:ident($node:ty)),+) => {
        impl<V: $trait> $trait for Ending<'_, V, V::Break> {
            type Break = ();

            $(fn $method(&mut self, node: $node) -> ControlFlow<()> {
                let flow = self.visitor.$method(node);
                self.keep(flow)
            })+
        }

        impl $trait for $passing<'_> {
            type Break = ();

            $(fn $method(&mut self, node: $node) -> ControlFlow<()> {
                self.0.$method(node)
            })+
        }
    };
}

pass_on!(
    Visitor, Reader:
    pre_visit_query(&Query), post_visit_query(&Query),
    pre_visit_select(&Select), post_visit_select(&Select),
    pre_visit_relation(&ObjectName), post_visit_relation(&ObjectName),
    pre_visit_table_factor(&TableFactor), post_visit_table_factor(&TableFactor),
    pre_visit_expr(&Expr), post_visit_expr(&Expr),
    pre_visit_statement(&Statement), post_visit_statement(&Statement),
    pre_visit_value(&ValueWithSpan), post_visit_value(&ValueWithSpan)
);

pass_on!(
    VisitorMut, Writer:
    pre_visit_query(&mut Query), post_visit_query(&mut Query),
    pre_visit_select(&mut Select), post_visit_select(&mut Select),
    pre_visit_relation(&mut ObjectName), post_visit_relation(&mut ObjectName),
    pre_visit_table_factor(&mut TableFactor), post_visit_table_factor(&mut TableFactor),
    pre_visit_expr(&mut Expr), post_visit_expr(&mut Expr),
    pre_visit_statement(&mut Statement), post_visit_statement(&mut Statement),
    pre_visit_value(&mut ValueWithSpan), post_visit_value(&mut ValueWithSpan)
);

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Value;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    const SQL: &str = "WITH w AS (SELECT a + 1 AS b FROM t) \
                       SELECT b FROM w, (SELECT 2 FROM s) AS q WHERE b IN (SELECT 3 FROM u)";

    fn statement() -> Statement {
        Parser::parse_sql(&PostgreSqlDialect {}, SQL).expect("the text is valid").remove(0)
    }

    /// Notes the beginning and the end of each node, and ends the walk at a relation.
    #[derive(Default)]
    struct Noting {
        notes: Vec<String>,
        last: Option<&'static str>,
    }

    impl Noting {
        fn note(&mut self, note: &str, node: &impl ToString) -> ControlFlow<String> {
            let text = node.to_string();
            self.notes.push(format!("{note} {text}"));
            match self.last {
                Some(last) if last == text => ControlFlow::Break(text),
                _ => ControlFlow::Continue(()),
            }
        }
    }

    macro_rules! noting {
        ($trait:ident: $($method:ident($node:ty)),+) => {
            impl $trait for Noting {
                type Break = String;

                $(fn $method(&mut self, node: $node) -> ControlFlow<String> {
                    self.note(stringify!($method), node)
                })+
            }
        };
    }

    noting!(
        Visitor:
        pre_visit_query(&Query), post_visit_query(&Query),
        pre_visit_select(&Select), post_visit_select(&Select),
        pre_visit_relation(&ObjectName), post_visit_relation(&ObjectName),
        pre_visit_table_factor(&TableFactor), post_visit_table_factor(&TableFactor),
        pre_visit_expr(&Expr), post_visit_expr(&Expr),
        pre_visit_statement(&Statement), post_visit_statement(&Statement),
        pre_visit_value(&ValueWithSpan), post_visit_value(&ValueWithSpan)
    );
    noting!(
        VisitorMut:
        pre_visit_query(&mut Query), post_visit_query(&mut Query),
        pre_visit_select(&mut Select), post_visit_select(&mut Select),
        pre_visit_relation(&mut ObjectName), post_visit_relation(&mut ObjectName),
        pre_visit_table_factor(&mut TableFactor), post_visit_table_factor(&mut TableFactor),
        pre_visit_expr(&mut Expr), post_visit_expr(&mut Expr),
        pre_visit_statement(&mut Statement), post_visit_statement(&mut Statement),
        pre_visit_value(&mut ValueWithSpan), post_visit_value(&mut ValueWithSpan)
    );

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the walk of sqlparser is what is compared with")]
    fn visits_are_those_of_sqlparser() {
        for last in [None, Some("u"), Some("a"), Some("2")] {
            let (mut own, mut other) =
                (Noting { last, ..Noting::default() }, Noting { last, ..Noting::default() });
            let ended = visit(&statement(), &mut own);
            assert_eq!(ended, Visit::visit(&statement(), &mut other));
            assert_eq!(ended.is_break(), last.is_some());
            assert_eq!(own.notes, other.notes);

            let (mut own, mut other) =
                (Noting { last, ..Noting::default() }, Noting { last, ..Noting::default() });
            let ended = visit_mut(&mut statement(), &mut own);
            assert_eq!(ended, VisitMut::visit(&mut statement(), &mut other));
            assert_eq!(own.notes, other.notes);
        }
    }

    #[test]
    fn closures_see_each_node_once() {
        let mut relations = Vec::new();
        let walked: ControlFlow<()> = visit_relations(&statement(), |name| {
            relations.push(name.to_string());
            ControlFlow::Continue(())
        });
        assert!(walked.is_continue());
        assert_eq!(relations, ["t", "w", "s", "u"]);

        let mut changed = statement();
        let walked: ControlFlow<()> = visit_expressions_mut(&mut changed, |expr| {
            if matches!(expr, Expr::Value(value) if matches!(value.value, Value::Number(..))) {
                *expr = Expr::Nested(Box::new(expr.clone()));
            }
            ControlFlow::Continue(())
        });
        assert!(walked.is_continue());
        let text = changed.to_string();
        assert!(text.contains("a + (1)") && text.contains("(2)") && text.contains("(3)"), "{text}");
    }
}
