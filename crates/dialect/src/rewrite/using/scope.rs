//! The columns that an item of FROM shows: its relations, and the keys that joins have merged.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins,
};

use super::super::build::{call, column_of};
use super::super::names::normalized;
use super::super::relations::{Relations, label};

/// A key that stands for those of several relations.
#[derive(Clone)]
pub(in super::super) struct Merged {
    pub(super) name: String,
    pub(super) value: Expr,
    /// The relations that have a key of this name.
    pub(super) relations: Vec<Ident>,
}

/// A relation, and its columns where they are known.
#[derive(Clone)]
pub(in super::super) struct Relation {
    pub(in super::super) name: Ident,
    pub(in super::super) columns: Option<Vec<String>>,
}

/// A part of what `*` shows.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "a statement has few, and not for long")]
pub(super) enum Shown {
    Key(Merged),
    /// A relation without its merged keys.
    Rest(Relation),
}

/// The relations of one item of FROM, and the keys that they share.
#[derive(Clone)]
pub(in super::super) struct Scope {
    /// In the order in which `*` shows them.
    pub(super) shown: Vec<Shown>,
}

/// The side of a join that has the keys of all rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
    Both,
}

impl Side {
    pub(super) fn of(operator: &JoinOperator) -> Option<Side> {
        match operator {
            JoinOperator::Join(_)
            | JoinOperator::Inner(_)
            | JoinOperator::Left(_)
            | JoinOperator::LeftOuter(_)
            | JoinOperator::CrossJoin(_) => Some(Side::Left),
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => Some(Side::Right),
            JoinOperator::FullOuter(_) => Some(Side::Both),
            _ => None,
        }
    }
}

pub(in super::super) fn constraint_of(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// True if an outer join may put NULLs in the place of a relation's rows.
pub(in super::super) fn may_lack_rows(from: &TableWithJoins, place: usize) -> bool {
    from.joins.iter().enumerate().any(|(before, join)| {
        let is_right = place == before + 1;
        let is_left = place <= before;
        match &join.join_operator {
            JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_) => false,
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => is_right,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => is_left,
            _ => is_left || is_right,
        }
    })
}

impl Scope {
    /// `None` if neither the statement nor the known tables determine it.
    pub(in super::super) fn of(from: &TableWithJoins, relations: &Relations) -> Option<Scope> {
        let mut scope = Scope::of_factor(&from.relation, relations)?;
        for join in &from.joins {
            let right = Scope::of_factor(&join.relation, relations)?;
            scope = scope.joined(join, &right)?;
        }
        Some(scope)
    }

    pub(super) fn of_factor(factor: &TableFactor, relations: &Relations) -> Option<Scope> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            return Scope::of(table_with_joins, relations);
        }
        let relation = Relation { name: label(factor)?, columns: relations.columns_of(factor) };
        Some(Scope { shown: vec![Shown::Rest(relation)] })
    }

    /// This scope and one more, behind a join of both.
    pub(super) fn joined(&self, join: &Join, right: &Scope) -> Option<Scope> {
        let side = Side::of(&join.join_operator)?;
        let keys = self.keys(join, right)?;
        let mut shown = Vec::new();
        for name in &keys {
            let (left_key, right_key) = (self.key(name)?, right.key(name)?);
            let value = match side {
                Side::Left => left_key.value,
                Side::Right => right_key.value,
                Side::Both => call("coalesce", vec![left_key.value, right_key.value]),
            };
            let relations = [left_key.relations, right_key.relations].concat();
            shown.push(Shown::Key(Merged { name: name.clone(), value, relations }));
        }
        let rest = self.shown.iter().chain(&right.shown);
        let rest = rest.filter(|shown| match shown {
            Shown::Key(merged) => !keys.contains(&merged.name),
            Shown::Rest(_) => true,
        });
        shown.extend(rest.cloned());
        Some(Scope { shown })
    }

    /// The keys that a join merges.
    pub(super) fn keys(&self, join: &Join, right: &Scope) -> Option<Vec<String>> {
        match constraint_of(&join.join_operator) {
            Some(JoinConstraint::Using(names)) => {
                names.iter().map(|name| Some(normalized(name.0.last()?.as_ident()?))).collect()
            }
            Some(JoinConstraint::Natural) => {
                let (left, right) = (self.columns()?, right.columns()?);
                Some(left.into_iter().filter(|column| right.contains(column)).collect())
            }
            _ => Some(Vec::new()),
        }
    }

    pub(in super::super) fn relations(&self) -> impl Iterator<Item = &Relation> {
        self.shown.iter().filter_map(|shown| match shown {
            Shown::Rest(relation) => Some(relation),
            Shown::Key(_) => None,
        })
    }

    pub(super) fn merged(&self) -> impl Iterator<Item = &Merged> {
        self.shown.iter().filter_map(|shown| match shown {
            Shown::Key(merged) => Some(merged),
            Shown::Rest(_) => None,
        })
    }

    /// The names and values of the columns that `*` shows, if the columns of all relations are
    /// known.
    pub(in super::super) fn items(&self) -> Option<Vec<(String, Expr)>> {
        let mut items = Vec::new();
        for shown in &self.shown {
            match shown {
                Shown::Key(merged) => items.push((merged.name.clone(), merged.value.clone())),
                Shown::Rest(relation) => {
                    let keys = self.keys_of(relation);
                    let own = relation.columns.as_ref()?.iter();
                    let own = own.filter(|column| !keys.contains(&column.as_str()));
                    let value = |name: &String| column_of(&relation.name, name);
                    items.extend(own.map(|name| (name.clone(), value(name))));
                }
            }
        }
        Some(items)
    }

    pub(in super::super) fn columns(&self) -> Option<Vec<String>> {
        Some(self.items()?.into_iter().map(|(name, _)| name).collect())
    }

    /// The columns of a relation that are merged with those of others.
    pub(super) fn keys_of(&self, relation: &Relation) -> Vec<&str> {
        let merged = self.merged().filter(|merged| merged.relations.contains(&relation.name));
        merged.map(|merged| merged.name.as_str()).collect()
    }

    /// The key `name`, if it is clear which relation has it.
    pub(super) fn key(&self, name: &str) -> Option<Merged> {
        if let Some(merged) = self.merged().find(|merged| merged.name == name) {
            return Some(merged.clone());
        }
        let has = |relation: &&Relation| {
            relation.columns.as_ref().is_some_and(|columns| columns.iter().any(|own| own == name))
        };
        let knowing = self.relations().filter(has).collect::<Vec<_>>();
        let unknown = self.relations().filter(|relation| relation.columns.is_none());
        let candidates = if knowing.is_empty() { unknown.collect() } else { knowing };
        let [only] = candidates.as_slice() else { return None };
        let relations = vec![only.name.clone()];
        Some(Merged { name: name.to_owned(), value: column_of(&only.name, name), relations })
    }
}
