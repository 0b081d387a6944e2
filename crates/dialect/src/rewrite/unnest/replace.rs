//! Replaces one subquery by columns that are joined to the plan it stands in.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, ExprSchema, Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, EmptyRelation, Expr, Filter, JoinType, Limit, LogicalPlan,
    Operator, lit, when,
};

use super::contains_subquery;
use super::dependent::{Dependent, Push};
use super::domain::{Domain, Names, columns_of, join, null_safe_equalities, project};
use super::single_row::single_row;

/// A plan whose expressions get their subqueries replaced, growing columns for their answers.
pub(super) struct Replace<'a> {
    pub(super) plan: Arc<LogicalPlan>,
    pub(super) names: &'a mut Names,
    /// Holds for the rows that the subquery is evaluated for.
    pub(super) guard: Option<Expr>,
}

/// A subquery without outer references: keys, and columns that depend on them.
struct Untied {
    plan: LogicalPlan,
    keys: Vec<Column>,
    /// The columns of the outer plan that the keys equal.
    outer: Vec<Column>,
}

impl Replace<'_> {
    /// The expression that takes the place of `subquery`.
    pub(super) fn replace(&mut self, subquery: Expr) -> Result<Expr> {
        match subquery {
            Expr::Exists(Exists { subquery, negated }) => {
                let exists = self.exists(&subquery.subquery)?;
                Ok(if negated { !exists } else { exists })
            }
            Expr::ScalarSubquery(subquery) => self.scalar(&subquery.subquery),
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let member = self.member(*expr, &subquery.subquery)?;
                Ok(if negated { !member } else { member })
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                match (op, quantifier) {
                    (Operator::Eq, SetQuantifier::Any) => self.member(*expr, &subquery.subquery),
                    (Operator::NotEq, SetQuantifier::All) => {
                        Ok(!self.member(*expr, &subquery.subquery)?)
                    }
                    _ => self.compare(*expr, op, &subquery.subquery, quantifier),
                }
            }
            other => Ok(other),
        }
    }

    fn untie(&mut self, subquery: &LogicalPlan) -> Result<Untied> {
        let mut outer = Arc::clone(&self.plan);
        if let Some(guard) = &self.guard {
            outer = Arc::new(LogicalPlan::Filter(Filter::try_new(guard.clone(), outer)?));
        }
        let domain = Domain::new(&outer, subquery)?;
        if domain.is_empty() {
            return Ok(Untied { plan: subquery.clone(), keys: vec![], outer: vec![] });
        }
        let mut push = Push { domain: &domain, names: self.names };
        let Dependent { plan, keys } = push.push(subquery)?;
        Ok(Untied { plan, keys, outer: domain.outer_columns().cloned().collect() })
    }

    /// Joins `answers`, which has at most one row for each binding and key of `more`.
    fn attach(&mut self, answers: LogicalPlan, pairs: Vec<(Column, Column)>) -> Result<()> {
        let conditions = null_safe_equalities(self.plan.schema(), answers.schema(), pairs)?;
        self.attach_on(answers, conditions)
    }

    fn attach_on(&mut self, answers: LogicalPlan, conditions: Vec<Expr>) -> Result<()> {
        let left = Arc::clone(&self.plan);
        self.plan = Arc::new(join(left, Arc::new(answers), JoinType::Left, conditions)?);
        Ok(())
    }

    fn exists(&mut self, subquery: &LogicalPlan) -> Result<Expr> {
        let untied = self.untie(subquery)?;
        let marker = Column::new_unqualified(self.names.fresh("exists"));
        let answers = if untied.keys.is_empty() {
            first_row(untied.plan)?
        } else {
            distinct(project(untied.keys.iter().cloned().map(Expr::Column), untied.plan)?)
        };
        // The join requires a name of its own for each key and the marker.
        let columns = untied.keys.iter().cloned().map(Expr::Column);
        let answers = project(columns.chain([lit(true).alias(&marker.name)]), answers)?;
        self.attach(answers, pair(untied.outer, untied.keys))?;
        Ok(Expr::Column(marker).is_not_null())
    }

    fn scalar(&mut self, subquery: &LogicalPlan) -> Result<Expr> {
        if let Some(value) = self.computed(subquery)? {
            return Ok(value);
        }
        let source = Column::from(subquery.schema().qualified_field(0));
        let untied = self.untie(subquery)?;
        let value = Column::new_unqualified(self.names.fresh("value"));
        let keys: Vec<Expr> = untied.keys.iter().cloned().map(Expr::Column).collect();
        if gives_at_most_one_row(subquery) {
            let named = Expr::Column(source).alias(&value.name);
            let answers = project(keys.into_iter().chain([named]), untied.plan)?;
            self.attach(answers, pair(untied.outer, untied.keys))?;
            return Ok(Expr::Column(value));
        }
        let rows = Column::new_unqualified(self.names.fresh("rows"));
        let first = first_value(Expr::Column(source), vec![]).alias(&value.name);
        let number = count(lit(1)).alias(&rows.name);
        let answers = Aggregate::try_new(Arc::new(untied.plan), keys, vec![first, number])?;
        self.attach(LogicalPlan::Aggregate(answers), pair(untied.outer, untied.keys))?;
        Ok(single_row(Expr::Column(value), Expr::Column(rows)))
    }

    /// `(SELECT expression)` becomes the expression, computed in place and not for rows that a CASE
    /// around it leaves out.
    fn computed(&self, subquery: &LogicalPlan) -> Result<Option<Expr>> {
        let Some(value) = without_source(subquery) else { return Ok(None) };
        let mut is_bound = true;
        let value = value.transform_up(|part| {
            let Expr::OuterReferenceColumn(_, column) = part else {
                return Ok(Transformed::no(part));
            };
            is_bound &= self.plan.schema().index_of_column(&column).is_ok();
            Ok(Transformed::yes(Expr::Column(column)))
        })?;
        Ok(is_bound.then_some(value.data))
    }

    /// `tested IN (subquery)`, with SQL's three answers.
    ///
    /// One join looks the value up among the members. If it finds nothing, another join tells, for
    /// the binding, whether there were any members and whether one was NULL.
    fn member(&mut self, tested: Expr, subquery: &LogicalPlan) -> Result<Expr> {
        let tested = self.as_column(tested)?;
        let source = Column::from(subquery.schema().qualified_field(0));
        let untied = self.untie(subquery)?;
        let keys: Vec<Expr> = untied.keys.iter().cloned().map(Expr::Column).collect();
        let member = Expr::Column(source);
        let may_be_null = self.plan.schema().field_from_column(&tested)?.is_nullable()
            || subquery.schema().field(0).is_nullable();

        let found = Column::new_unqualified(self.names.fresh("found"));
        let known = Filter::try_new(member.clone().is_not_null(), Arc::new(untied.plan.clone()))?;
        let value = self.names.fresh("member");
        let named = member.clone().alias(&value);
        let answers = project(keys.iter().cloned().chain([named]), LogicalPlan::Filter(known))?;
        let answers = distinct(answers);
        let marker = lit(true).alias(&found.name);
        let columns: Vec<Expr> = columns_of(answers.schema()).chain([marker]).collect();
        let answers = project(columns, answers)?;
        let pairs = pair(untied.outer.clone(), untied.keys.clone());
        let mut conditions = null_safe_equalities(self.plan.schema(), answers.schema(), pairs)?;
        let member_column = Expr::Column(Column::new_unqualified(value));
        conditions.push(Expr::Column(tested.clone()).eq(member_column));
        self.attach_on(answers, conditions)?;
        let is_found = Expr::Column(found).is_not_null();
        if !may_be_null {
            return Ok(is_found);
        }

        let members = Column::new_unqualified(self.names.fresh("members"));
        let not_null = Column::new_unqualified(self.names.fresh("members"));
        let counts = vec![count(lit(1)).alias(&members.name), count(member).alias(&not_null.name)];
        // The keys are the same columns as above: a second join needs names of its own.
        let (plan, keys) = self.rename_keys(untied.plan, &untied.keys, subquery)?;
        let groups = keys.iter().cloned().map(Expr::Column).collect();
        let counts = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(plan), groups, counts)?);
        self.attach(counts, pair(untied.outer, keys))?;
        let members = Expr::Column(members);
        let is_empty = members.clone().is_null().or(members.clone().eq(lit(0_i64)));
        let is_unknown = Expr::Column(tested).is_null().or(Expr::Column(not_null).lt(members));
        when(is_found, lit(true))
            .when(is_empty, lit(false))
            .when(is_unknown, lit(ScalarValue::Boolean(None)))
            .otherwise(lit(false))
    }

    /// `tested op ANY (subquery)` or `ALL`: the value is a binding like the others.
    fn compare(
        &mut self,
        tested: Expr,
        operator: Operator,
        subquery: &LogicalPlan,
        quantifier: SetQuantifier,
    ) -> Result<Expr> {
        let tested = self.as_column(tested)?;
        let field = Arc::clone(self.plan.schema().field_from_column(&tested)?);
        let source = Expr::Column(Column::from(subquery.schema().qualified_field(0)));
        let reference = Expr::OuterReferenceColumn(field, tested);
        let comparison =
            Expr::BinaryExpr(BinaryExpr::new(Box::new(reference), operator, Box::new(source)));
        let [answer, decided, unknown] =
            ["answer", "decided", "unknown"].map(|stem| self.names.fresh(stem));
        // A plan over the subquery that counts the results of the comparison for each binding.
        let marked = project([comparison.alias(&answer)], subquery.clone())?;
        let column = |name: &str| Expr::Column(Column::new_unqualified(name));
        let decides = match quantifier {
            SetQuantifier::Any => column(&answer),
            SetQuantifier::All => !column(&answer),
        };
        let count_if = |condition: Expr, name: &str| -> Result<Expr> {
            Ok(count(when(condition, lit(1)).end()?).alias(name))
        };
        let counts =
            vec![count_if(decides, &decided)?, count_if(column(&answer).is_null(), &unknown)?];
        let untied = self.untie(&marked)?;
        let groups = untied.keys.iter().cloned().map(Expr::Column).collect();
        let counts = Aggregate::try_new(Arc::new(untied.plan), groups, counts)?;
        self.attach(LogicalPlan::Aggregate(counts), pair(untied.outer, untied.keys))?;
        let any = quantifier == SetQuantifier::Any;
        when(column(&decided).gt(lit(0_i64)), lit(any))
            .when(column(&unknown).gt(lit(0_i64)), lit(ScalarValue::Boolean(None)))
            .otherwise(lit(!any))
    }

    /// `expression` as a column of the plan, so that it is computed once. It is NULL for rows that
    /// the subquery is not evaluated for.
    fn as_column(&mut self, expression: Expr) -> Result<Column> {
        if let Expr::Column(column) = expression {
            return Ok(column);
        }
        let expression = match &self.guard {
            Some(guard) => when(guard.clone(), expression).end()?,
            None => expression,
        };
        let name = self.names.fresh("tested");
        let mut expressions: Vec<Expr> = columns_of(self.plan.schema()).collect();
        expressions.push(expression.alias(&name));
        self.plan = Arc::new(project(expressions, Arc::unwrap_or_clone(Arc::clone(&self.plan)))?);
        Ok(Column::new_unqualified(name))
    }

    fn rename_keys(
        &mut self,
        plan: LogicalPlan,
        keys: &[Column],
        subquery: &LogicalPlan,
    ) -> Result<(LogicalPlan, Vec<Column>)> {
        let mut expressions: Vec<Expr> = columns_of(subquery.schema()).collect();
        let mut renamed = vec![];
        for key in keys {
            let name = self.names.fresh("outer");
            expressions.push(Expr::Column(key.clone()).alias(&name));
            renamed.push(Column::new_unqualified(name));
        }
        Ok((project(expressions, plan)?, renamed))
    }
}

/// The single value of a subquery that reads no rows, if repeated evaluation gives the same value.
pub(super) fn without_source(subquery: &LogicalPlan) -> Option<Expr> {
    let LogicalPlan::Projection(projection) = subquery else { return None };
    let (condition, input) = match projection.input.as_ref() {
        LogicalPlan::Filter(filter) => (Some(&filter.predicate), filter.input.as_ref()),
        input => (None, input),
    };
    let LogicalPlan::EmptyRelation(nothing) = input else { return None };
    let [value] = projection.expr.as_slice() else { return None };
    let is_plain = |expr: &Expr| !expr.is_volatile() && !contains_subquery(expr);
    if !nothing.produce_one_row || !is_plain(value) || !condition.is_none_or(is_plain) {
        return None;
    }
    let value = value.clone().unalias();
    match condition {
        None => Some(value),
        Some(condition) => when(condition.clone(), value).end().ok(),
    }
}

fn pair(outer: Vec<Column>, keys: Vec<Column>) -> Vec<(Column, Column)> {
    outer.into_iter().zip(keys).collect()
}

fn distinct(plan: LogicalPlan) -> LogicalPlan {
    LogicalPlan::Distinct(Distinct::All(Arc::new(plan)))
}

/// At most one row of `plan`.
fn first_row(plan: LogicalPlan) -> Result<LogicalPlan> {
    let fetch = Some(Box::new(lit(1_i64)));
    Ok(LogicalPlan::Limit(Limit { skip: None, fetch, input: Arc::new(plan) }))
}

/// True if the subquery's form alone shows that it never gives two rows.
fn gives_at_most_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => gives_at_most_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => gives_at_most_one_row(&alias.input),
        LogicalPlan::Filter(filter) => gives_at_most_one_row(&filter.input),
        LogicalPlan::Sort(sort) => gives_at_most_one_row(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => gives_at_most_one_row(input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Limit(limit) => {
            let one = Expr::Literal(ScalarValue::Int64(Some(1)), None);
            limit.fetch.as_deref() == Some(&one) || gives_at_most_one_row(&limit.input)
        }
        LogicalPlan::EmptyRelation(EmptyRelation { .. }) => true,
        _ => false,
    }
}
