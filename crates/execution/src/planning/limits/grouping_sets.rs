//! Limits the number of grouping sets of a query, as PostgreSQL does. The check runs before sets
//! are expanded, since `CUBE` of sixteen expressions has 65,536 of them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, Statement, Visitor};
use thalweg_dialect::walk;
use thalweg_types::{Error, Result, SqlState};

/// Maximum number of sets of one `GROUP BY`.
const SETS_MAX: usize = 4_096;
/// Maximum number of elements of one `CUBE`.
const CUBE_MAX: usize = 12;

/// # Errors
/// 54001 where a query has too many grouping sets, 54011 where a `CUBE` has too many elements.
pub fn check(statement: &Statement) -> Result<()> {
    match walk::visit(statement, &mut Selects) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Selects;

impl Visitor for Selects {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        let GroupByExpr::Expressions(grouped, _) = &select.group_by else {
            return ControlFlow::Continue(());
        };
        let mut sets = 1_usize;
        for expression in grouped {
            match sets_of(expression) {
                Ok(each) => sets = sets.saturating_mul(each),
                Err(error) => return ControlFlow::Break(error),
            }
        }
        match sets > SETS_MAX {
            false => ControlFlow::Continue(()),
            true => ControlFlow::Break(Error::new(
                SqlState::STATEMENT_TOO_COMPLEX,
                format!("too many grouping sets present (maximum {SETS_MAX})"),
            )),
        }
    }
}

/// Number of sets that one element of `GROUP BY` stands for.
fn sets_of(expression: &Expr) -> Result<usize> {
    match expression {
        Expr::Cube(elements) if elements.len() > CUBE_MAX => {
            let message = format!("CUBE is limited to {CUBE_MAX} elements");
            Err(Error::new(SqlState::TOO_MANY_COLUMNS, message))
        }
        Expr::Cube(elements) => Ok(1 << elements.len()),
        Expr::Rollup(elements) => Ok(elements.len() + 1),
        Expr::GroupingSets(sets) => {
            let each = |set: &Vec<Expr>| {
                set.iter()
                    .map(sets_of)
                    .try_fold(1_usize, |all, each| each.map(|each| all.saturating_mul(each)))
            };
            sets.iter().map(each).try_fold(0_usize, |all, set| Ok(all.saturating_add(set?)))
        }
        _ => Ok(1),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_dialect::parse::parse_single;

    use super::*;
    use datafusion::sql::parser::Statement as Tree;

    fn refusal(grouped: &str) -> Option<SqlState> {
        let sql = format!("SELECT 1 FROM (SELECT 1 FROM t GROUP BY {grouped}) inner_query");
        let Tree::Statement(statement) = parse_single(&sql).unwrap().statement else { panic!() };
        check(&statement).err().map(|error| error.state())
    }

    #[test]
    fn sets_are_counted_before_they_are_written_out() {
        let names = |count: usize| {
            (0..count).map(|number| format!("c{number}")).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(refusal(&names(100)), None);
        assert_eq!(refusal(&format!("CUBE ({})", names(12))), None);
        let too_wide = Some(SqlState::TOO_MANY_COLUMNS);
        assert_eq!(refusal(&format!("CUBE ({})", names(13))), too_wide);
        let too_many = Some(SqlState::STATEMENT_TOO_COMPLEX);
        assert_eq!(refusal(&format!("CUBE ({}), CUBE ({})", names(7), names(6))), too_many);
        assert_eq!(refusal(&format!("CUBE ({}), ROLLUP (a, b)", names(11))), too_many);
        assert_eq!(refusal(&format!("CUBE ({}), ROLLUP (a)", names(11))), None);
        assert_eq!(refusal(&format!("ROLLUP ({})", names(4_096))), too_many);
    }
}
