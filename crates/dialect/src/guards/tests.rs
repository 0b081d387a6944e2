use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{col, lit};

use super::*;

fn schema() -> DFSchema {
    let columns = ["a", "b"].map(|name| Field::new(name, DataType::Int32, true));
    DFSchema::try_from(Schema::new(columns.to_vec())).unwrap()
}

fn quotient() -> Expr {
    (col("b") / col("a")).gt(lit(1))
}

#[test]
fn what_cannot_fail_stays_as_it_is() {
    let schema = schema();
    let condition = col("a").gt(lit(1)).and(col("b").lt(lit(2)).or(col("a").is_null()));
    let guarded = Guards { schema: &schema }.condition(condition.clone()).unwrap();
    assert_eq!(guarded, condition);
}

#[test]
fn what_may_fail_comes_last_wherever_it_stood() {
    let schema = schema();
    for condition in
        [quotient().and(col("a").not_eq(lit(0))), col("a").not_eq(lit(0)).and(quotient())]
    {
        let guarded = Guards { schema: &schema }.condition(condition).unwrap();
        let Expr::Case(case) = guarded else { panic!("no guard") };
        assert_eq!(case.else_expr.as_deref(), Some(&quotient()));
    }
}

#[test]
fn values_keep_their_nulls() {
    let schema = schema();
    let value = col("a").eq(lit(0)).or(quotient());
    let guarded = guarded_expression(value, &schema).unwrap();
    let Expr::Case(case) = guarded else { panic!("no guard") };
    assert!(case.expr.is_some(), "a nullable operand is compared, so that NULL is told apart");
}
