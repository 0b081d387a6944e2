use datafusion::logical_expr::LogicalPlanBuilder;

use thalweg_values::errors::from_datafusion;

use super::*;

/// A plan that uses another one twice at each of so many levels.
fn doubled(levels: usize) -> LogicalPlan {
    let mut plan = LogicalPlanBuilder::empty(true).build().unwrap();
    for _ in 0..levels {
        let both = LogicalPlanBuilder::from(plan.clone()).union(plan).unwrap();
        plan = both.build().unwrap();
    }
    plan
}

#[test]
fn operators_count_as_often_as_they_are_used() {
    assert!(check_size(&doubled(10)).is_ok());
    let error = from_datafusion(check_size(&doubled(40)).unwrap_err(), "");
    assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX);
}
