//! Pushes a domain down through a subquery's plan, until nothing in it refers to outer rows.
//!
//! The resulting plan answers the subquery for all bindings at once: for every binding `d` in the
//! domain, the rows whose keys are `d` are the rows that the subquery gives under `d`.

use std::sync::Arc;

use datafusion::common::{Column, DataFusionError, NullEquality, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, EmptyRelation, Expr, ExprSchemable, Filter, Join, JoinType,
    LogicalPlan, Projection, Sort, SortExpr, SubqueryAlias, Union, Unnest, Values, lit, when,
};

use super::domain::{Domain, Names, columns_of, join, null_safe_equalities, project};
use super::ranked;

/// A subquery's plan for all bindings.
pub(super) struct Dependent {
    /// Holds the columns that the subquery's plan had, and the keys.
    pub(super) plan: LogicalPlan,
    /// One column for each binding of the domain.
    pub(super) keys: Vec<Column>,
}

/// Pushes a domain down; `names` makes the names of its keys.
pub(super) struct Push<'a> {
    pub(super) domain: &'a Domain,
    pub(super) names: &'a mut Names,
}

impl Push<'_> {
    /// Answers `plan` for every binding of the domain.
    pub(super) fn push(&mut self, plan: &LogicalPlan) -> Result<Dependent> {
        if !self.domain.is_used_by(plan)? {
            return self.cross(plan);
        }
        match plan {
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::SubqueryAlias(alias) => self.alias(alias),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Dependent { plan, keys } = self.push(input)?;
                let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(plan)));
                Ok(Dependent { plan, keys })
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => self.distinct_on(distinct),
            LogicalPlan::Sort(sort) => self.sort(sort),
            LogicalPlan::Limit(limit) => ranked::push_limit(self, limit),
            LogicalPlan::Window(window) => ranked::push_window(self, window),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Values(values) => self.values(values),
            // This node marks LATERAL. It goes, since the plan below stops depending on outer rows.
            LogicalPlan::Subquery(subquery) => self.push(&subquery.subquery),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            other => Err(DataFusionError::NotImplemented(format!(
                "a reference to an outer query's column within {} is not supported",
                other.display()
            ))),
        }
    }

    /// `expression` with the outer references replaced by the keys.
    pub(super) fn bind(&self, expression: &Expr, keys: &[Column]) -> Result<Expr> {
        self.domain.bind(expression.clone(), keys)
    }

    /// Like [`Push::bind`] for the column of `schema` at `place`, whose name must stay.
    fn bind_named(
        &self,
        expression: &Expr,
        keys: &[Column],
        plan: &LogicalPlan,
        place: usize,
    ) -> Result<Expr> {
        let bound = self.bind(expression, keys)?;
        if bound == *expression {
            return Ok(bound);
        }
        let (qualifier, field) = plan.schema().qualified_field(place);
        Ok(bound.unalias().alias_qualified(qualifier.cloned(), field.name()))
    }

    pub(super) fn bind_sort(&self, sort: &[SortExpr], keys: &[Column]) -> Result<Vec<SortExpr>> {
        sort.iter().map(|by| Ok(by.with_expr(self.bind(&by.expr, keys)?))).collect()
    }

    /// A plan that refers to no binding gives the same rows under each.
    fn cross(&mut self, plan: &LogicalPlan) -> Result<Dependent> {
        let (domain, keys) = self.domain.plan(self.names)?;
        let is_one_empty_row =
            matches!(plan, LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }));
        if is_one_empty_row {
            return Ok(Dependent { plan: domain, keys });
        }
        let plan = join(Arc::new(domain), Arc::new(plan.clone()), JoinType::Inner, vec![])?;
        Ok(Dependent { plan, keys })
    }

    fn filter(&mut self, filter: &Filter) -> Result<Dependent> {
        let Dependent { plan, keys } = self.push(&filter.input)?;
        let predicate = self.bind(&filter.predicate, &keys)?;
        let plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?);
        Ok(Dependent { plan, keys })
    }

    fn projection(&mut self, projection: &Projection) -> Result<Dependent> {
        let Dependent { plan, keys } = self.push(&projection.input)?;
        let this = LogicalPlan::Projection(projection.clone());
        let mut expressions = vec![];
        for (place, expression) in projection.expr.iter().enumerate() {
            expressions.push(self.bind_named(expression, &keys, &this, place)?);
        }
        expressions.extend(keys.iter().cloned().map(Expr::Column));
        Ok(Dependent { plan: project(expressions, plan)?, keys })
    }

    fn alias(&mut self, alias: &SubqueryAlias) -> Result<Dependent> {
        let Dependent { plan, keys } = self.push(&alias.input)?;
        // A join beneath may have left keys of its other side, or the same name twice.
        let columns = columns_of(alias.input.schema());
        let plan = project(columns.chain(keys.iter().cloned().map(Expr::Column)), plan)?;
        let plan = SubqueryAlias::try_new(Arc::new(plan), alias.alias.clone())?;
        let keys =
            keys.into_iter().map(|key| Column::new(Some(alias.alias.clone()), key.name)).collect();
        Ok(Dependent { plan: LogicalPlan::SubqueryAlias(plan), keys })
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> Result<Dependent> {
        if matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]) {
            return Err(DataFusionError::NotImplemented(
                "grouping sets over an outer query's columns are not supported".to_owned(),
            ));
        }
        let Dependent { plan: input, keys } = self.push(&aggregate.input)?;
        let this = LogicalPlan::Aggregate(aggregate.clone());
        let mut groups: Vec<Expr> = keys.iter().cloned().map(Expr::Column).collect();
        for (place, expression) in aggregate.group_expr.iter().enumerate() {
            groups.push(self.bind_named(expression, &keys, &this, place)?);
        }
        let mut aggregates = vec![];
        for (place, expression) in aggregate.aggr_expr.iter().enumerate() {
            let place = aggregate.group_expr.len() + place;
            aggregates.push(self.bind_named(expression, &keys, &this, place)?);
        }
        let plan = Aggregate::try_new(Arc::new(input), groups, aggregates)?;
        let plan = LogicalPlan::Aggregate(plan);
        if aggregate.group_expr.is_empty() {
            self.restore_empty_groups(aggregate, plan, &keys)
        } else {
            Ok(Dependent { plan, keys })
        }
    }

    /// An aggregate without GROUP BY gives a row even for no input, so each binding must have one:
    /// bindings missing from `grouped` come back with the aggregates' values for no rows.
    fn restore_empty_groups(
        &mut self,
        aggregate: &Aggregate,
        grouped: LogicalPlan,
        keys: &[Column],
    ) -> Result<Dependent> {
        let present = Column::new_unqualified(self.names.fresh("present"));
        let columns = columns_of(grouped.schema());
        let marker = lit(true).alias(&present.name);
        let grouped = project(columns.chain([marker]), grouped)?;

        let (domain, domain_keys) = self.domain.plan(self.names)?;
        let pairs = domain_keys.iter().cloned().zip(keys.iter().cloned());
        let conditions = null_safe_equalities(domain.schema(), grouped.schema(), pairs)?;
        let joined = join(Arc::new(domain), Arc::new(grouped), JoinType::Left, conditions)?;

        let mut expressions: Vec<Expr> = domain_keys.iter().cloned().map(Expr::Column).collect();
        for (expression, (qualifier, field)) in
            aggregate.aggr_expr.iter().zip(aggregate.schema.iter())
        {
            let column = Expr::Column(Column::from((qualifier, field)));
            let Expr::AggregateFunction(function) = expression.clone().unalias() else {
                expressions.push(column);
                continue;
            };
            let of_nothing = function.func.default_value(field.data_type())?;
            if of_nothing.is_null() {
                expressions.push(column);
                continue;
            }
            let absent = Expr::Column(present.clone()).is_null();
            let value = when(absent, lit(of_nothing)).otherwise(column)?;
            expressions.push(value.alias_qualified(qualifier.cloned(), field.name()));
        }
        Ok(Dependent { plan: project(expressions, joined)?, keys: domain_keys })
    }

    fn distinct_on(&mut self, distinct: &DistinctOn) -> Result<Dependent> {
        let Dependent { plan, keys } = self.push(&distinct.input)?;
        let this = LogicalPlan::Distinct(Distinct::On(distinct.clone()));
        let key_columns = || keys.iter().cloned().map(Expr::Column);
        let mut on: Vec<Expr> = key_columns().collect();
        for expression in &distinct.on_expr {
            on.push(self.bind(expression, &keys)?);
        }
        let mut select = vec![];
        for (place, expression) in distinct.select_expr.iter().enumerate() {
            select.push(self.bind_named(expression, &keys, &this, place)?);
        }
        select.extend(key_columns());
        let sort = match &distinct.sort_expr {
            Some(sort) => {
                let by_keys = key_columns().map(|key| key.sort(true, false));
                Some(by_keys.chain(self.bind_sort(sort, &keys)?).collect())
            }
            None => None,
        };
        let plan = DistinctOn::try_new(on, select, sort, Arc::new(plan))?;
        Ok(Dependent { plan: LogicalPlan::Distinct(Distinct::On(plan)), keys })
    }

    fn sort(&mut self, sort: &Sort) -> Result<Dependent> {
        assert!(sort.fetch.is_none(), "only the optimizer gives a sort a limit");
        let Dependent { plan, keys } = self.push(&sort.input)?;
        let expr = self.bind_sort(&sort.expr, &keys)?;
        let plan = LogicalPlan::Sort(Sort { expr, input: Arc::new(plan), fetch: None });
        Ok(Dependent { plan, keys })
    }

    fn union(&mut self, union: &Union) -> Result<Dependent> {
        let names: Vec<String> =
            self.domain.outer_columns().map(|_| self.names.fresh("outer")).collect();
        let mut inputs = vec![];
        for input in &union.inputs {
            let Dependent { plan, keys } = self.push(input)?;
            let keys = keys.into_iter().zip(&names);
            let keys = keys.map(|(key, name)| Expr::Column(key).alias(name));
            inputs.push(Arc::new(project(columns_of(input.schema()).chain(keys), plan)?));
        }
        let plan = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        let mut expressions = vec![];
        for (place, (qualifier, field)) in union.schema.iter().enumerate() {
            let column = Expr::Column(Column::from(plan.schema().qualified_field(place)));
            expressions.push(column.alias_qualified(qualifier.cloned(), field.name()));
        }
        let width = union.schema.fields().len();
        for (place, name) in names.iter().enumerate() {
            let column = Column::from(plan.schema().qualified_field(width + place));
            expressions.push(Expr::Column(column).alias(name));
        }
        let keys = names.into_iter().map(Column::new_unqualified).collect();
        Ok(Dependent { plan: project(expressions, plan)?, keys })
    }

    /// Rows of expressions over outer columns: each row is a projection of the domain.
    fn values(&mut self, values: &Values) -> Result<Dependent> {
        let mut keys = vec![];
        let mut rows = vec![];
        for row in &values.values {
            let (domain, row_keys) = self.domain.plan(self.names)?;
            if keys.is_empty() {
                keys = row_keys.clone();
            }
            let mut expressions = vec![];
            for (expression, (qualifier, field)) in row.iter().zip(values.schema.iter()) {
                let bound = self.bind(expression, &row_keys)?;
                let bound = bound.cast_to(field.data_type(), domain.schema())?;
                expressions.push(bound.alias_qualified(qualifier.cloned(), field.name()));
            }
            let renamed = row_keys.into_iter().zip(&keys);
            expressions.extend(renamed.map(|(from, to)| Expr::Column(from).alias(&to.name)));
            rows.push(Arc::new(project(expressions, domain)?));
        }
        let plan = match <[_; 1]>::try_from(rows) {
            Ok([row]) => Arc::unwrap_or_clone(row),
            Err(rows) => LogicalPlan::Union(Union::try_new_with_loose_types(rows)?),
        };
        Ok(Dependent { plan, keys })
    }

    fn unnest(&mut self, unnest: &Unnest) -> Result<Dependent> {
        let Dependent { plan, keys } = self.push(&unnest.input)?;
        let columns = columns_of(unnest.input.schema());
        let plan = project(columns.chain(keys.iter().cloned().map(Expr::Column)), plan)?;
        let plan =
            Unnest::try_new(Arc::new(plan), unnest.exec_columns.clone(), unnest.options.clone())?;
        Ok(Dependent { plan: LogicalPlan::Unnest(plan), keys })
    }

    fn join(&mut self, original: &Join) -> Result<Dependent> {
        use JoinType::*;
        let left_depends = self.domain.is_used_by(&original.left)?;
        let right_depends = self.domain.is_used_by(&original.right)?;
        // The side whose rows are preserved carries the keys for each binding.
        let (push_left, push_right) = match original.join_type {
            Inner => (left_depends || !right_depends, right_depends),
            Left | LeftSemi | LeftAnti | LeftMark => (true, right_depends),
            Right | RightSemi | RightAnti | RightMark => (left_depends, true),
            Full => (true, true),
        };
        let (left, left_keys) = self.side(&original.left, push_left)?;
        let (right, right_keys) = self.side(&original.right, push_right)?;
        let right_carries = matches!(original.join_type, Right | RightSemi | RightAnti | RightMark);
        let keys = match (&left_keys, &right_keys) {
            (Some(keys), None) => keys.clone(),
            (None, Some(keys)) => keys.clone(),
            (Some(left), Some(right)) => if right_carries { right } else { left }.clone(),
            (None, None) => unreachable!("one side always carries the keys"),
        };

        let mut conditions = vec![];
        if let (Some(left_keys), Some(right_keys)) = (&left_keys, &right_keys) {
            let pairs = left_keys.iter().cloned().zip(right_keys.iter().cloned());
            conditions.extend(null_safe_equalities(left.schema(), right.schema(), pairs)?);
        }
        let mut on = vec![];
        for (left, right) in &original.on {
            if self.domain.is_used_in(left)? || self.domain.is_used_in(right)? {
                assert_eq!(original.null_equality, NullEquality::NullEqualsNothing);
                let equality = left.clone().eq(right.clone());
                conditions.push(self.bind(&equality, &keys)?);
            } else {
                on.push((left.clone(), right.clone()));
            }
        }
        if let Some(filter) = &original.filter {
            conditions.push(self.bind(filter, &keys)?);
        }
        if on.is_empty() && conditions.is_empty() && original.join_type != Inner {
            conditions.push(lit(true));
        }
        let joined = LogicalPlan::Join(Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            conjunction(conditions),
            original.join_type,
            original.join_constraint,
            original.null_equality,
            original.null_aware,
        )?);
        match (original.join_type, left_keys, right_keys) {
            (Full, Some(left), Some(right)) => self.merge_keys(original, joined, left, right),
            _ => Ok(Dependent { plan: joined, keys }),
        }
    }

    fn side(
        &mut self,
        plan: &LogicalPlan,
        pushed: bool,
    ) -> Result<(LogicalPlan, Option<Vec<Column>>)> {
        if !pushed {
            return Ok((plan.clone(), None));
        }
        let Dependent { plan, keys } = self.push(plan)?;
        Ok((plan, Some(keys)))
    }

    /// After a full join either side's keys may be missing.
    fn merge_keys(
        &mut self,
        original: &Join,
        joined: LogicalPlan,
        left: Vec<Column>,
        right: Vec<Column>,
    ) -> Result<Dependent> {
        let mut keys = vec![];
        let mut expressions: Vec<Expr> = columns_of(&original.schema).collect();
        for (left, right) in left.into_iter().zip(right) {
            let name = self.names.fresh("outer");
            let key = coalesce(vec![Expr::Column(left), Expr::Column(right)]);
            expressions.push(key.alias(&name));
            keys.push(Column::new_unqualified(name));
        }
        Ok(Dependent { plan: project(expressions, joined)?, keys })
    }
}
