//! Recognizes statements about the row of one key, or a short range.
//!
//! The recognized parts are put together into a statement again. Only if that equals the original,
//! word for word, is the statement a point statement: then it has no part that was not understood.

mod ranges;

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, SchemaRef};
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, BinaryOperator, ConflictTarget, Delete, Expr, FromTable, Insert,
    ObjectName, OnConflictAction, OnInsert, Query, SelectItem, SetExpr, Statement, TableFactor,
    TableObject, TableWithJoins, Update,
};
use thalweg_types::{DataType, Key, TableSchema};
use thalweg_values::types::arrow_type;

use super::operands::{Assigned, Constant, KeyOperand, Sign};
use super::{Action, Conflict, NewRow, Point};
use crate::parameters::{number, placeholder};
use crate::statement::{Description, Execution, Shaper, Target, folded};

/// The statement as a point statement, if it is about a single row or a short range.
pub(crate) fn recognize(
    execution: &Execution<'_>,
    tree: &Tree,
    description: &Description,
) -> Option<Point> {
    let Tree::Statement(statement) = tree else { return None };
    let mut shape = Shape { execution, types: &description.parameters, constants: Vec::new() };
    let cluster = execution.names.cluster();
    let (table, key, action) = match statement.as_ref() {
        // If rows lie on workers, only queries for one row are point statements.
        Statement::Query(query) if cluster.is_present() => {
            let schema = description.schema.as_ref()?;
            shape.select(query, schema).filter(|(table, ..)| cluster.holds(table))
        }
        _ if cluster.is_present() => None,
        Statement::Query(query) => {
            let schema = description.schema.as_ref()?;
            shape.select(query, schema).or_else(|| shape.range(query, schema))
        }
        Statement::Insert(insert) => shape.insert(insert),
        Statement::Update(update) => shape.update(update),
        Statement::Delete(delete) => shape.delete(delete),
        _ => None,
    }?;
    Some(Point { table, key, action, constants: shape.constants })
}

struct Shape<'a> {
    execution: &'a Execution<'a>,
    types: &'a [Field],
    constants: Vec<Constant>,
}

type Recognized = (Arc<TableSchema>, Key, Action);

impl Shape<'_> {
    fn select(&mut self, query: &Query, schema: &SchemaRef) -> Option<Recognized> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let [from] = select.from.as_slice() else { return None };
        let (target, key) = self.target(table_name(from)?)?;
        let condition = select.selection.as_ref()?;
        let operands = self.key(&target, &key, condition)?;
        let items: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
        let written = format!("SELECT {} FROM {from} WHERE {condition}", items.join(", "));
        if query.to_string() != written {
            return None;
        }
        let columns = columns_of(&target, &select.projection, schema)?;
        let action = Action::Select { key: operands, columns, schema: Arc::clone(schema) };
        Some((Arc::clone(target.schema()), key, action))
    }

    fn insert(&mut self, insert: &Insert) -> Option<Recognized> {
        let TableObject::TableName(name) = &insert.table else { return None };
        let (target, key) = self.target(name)?;
        let source = insert.source.as_ref()?;
        let SetExpr::Values(values) = source.body.as_ref() else { return None };
        let [row] = values.rows.as_slice() else { return None };
        let mut given = Vec::with_capacity(row.content.len());
        for column in &insert.columns {
            given.push(target.position(&folded(column.0.last()?.as_ident()?)).ok()?);
        }
        let mut written = format!("INSERT INTO {name}");
        if given.is_empty() {
            given = (0..row.content.len()).collect();
            written.push_str(&format!(" {source}"));
        } else {
            let names: Vec<String> = insert.columns.iter().map(ToString::to_string).collect();
            written.push_str(&format!(" ({}) {source}", names.join(", ")));
        }
        let conflict = match &insert.on {
            None => Conflict::Refuse,
            Some(on) => {
                written.push_str(&on.to_string());
                self.conflict(&target, &key, on)?
            }
        };
        if insert.to_string() != written || source.to_string() != values.to_string() {
            return None;
        }
        let columns = &target.schema().columns;
        let distinct = (1..given.len()).all(|at| !given[..at].contains(&given[at]));
        let fits = given.len() == row.content.len() && given.iter().all(|at| *at < columns.len());
        if !fits || !distinct || given.iter().any(|at| columns[*at].identity.is_some()) {
            return None;
        }
        let operands = given.iter().zip(&row.content);
        let operands = operands
            .map(|(column, value)| self.operand(value, &columns[*column].data_type))
            .collect::<Option<_>>()?;
        let shaper = self.shaper(&target, &given)?;
        let action = Action::Insert { row: NewRow { operands, shaper }, conflict };
        Some((Arc::clone(target.schema()), key, action))
    }

    /// `ON CONFLICT (key) DO NOTHING`, or `DO UPDATE SET column = excluded.column, …`.
    fn conflict(&self, target: &Target, key: &Key, on: &OnInsert) -> Option<Conflict> {
        let OnInsert::OnConflict(on) = on else { return None };
        let Some(ConflictTarget::Columns(named)) = &on.conflict_target else { return None };
        let positions = target.schema().key_positions(key);
        let named: Vec<usize> =
            named.iter().map(|name| target.position(&folded(name)).ok()).collect::<Option<_>>()?;
        if named.len() != positions.len() || !positions.iter().all(|at| named.contains(at)) {
            return None;
        }
        let update = match &on.action {
            OnConflictAction::DoNothing => return Some(Conflict::Skip),
            OnConflictAction::DoUpdate(update) => update,
        };
        if update.selection.is_some() {
            return None;
        }
        let mut columns = Vec::with_capacity(update.assignments.len());
        for assignment in &update.assignments {
            let (column, value) = self.assignment(target, assignment)?;
            let Expr::CompoundIdentifier(parts) = value else { return None };
            let [table, name] = parts.as_slice() else { return None };
            if folded(table) != "excluded" || target.position(&folded(name)).ok()? != column {
                return None;
            }
            columns.push(column);
        }
        let all: Vec<usize> = (0..target.schema().columns.len()).collect();
        Some(Conflict::Update { columns, shaper: self.shaper(target, &all)? })
    }

    fn update(&mut self, update: &Update) -> Option<Recognized> {
        let (target, key) = self.target(table_name(&update.table)?)?;
        let condition = update.selection.as_ref()?;
        let operands = self.key(&target, &key, condition)?;
        let set: Vec<String> = update.assignments.iter().map(ToString::to_string).collect();
        let table = &update.table;
        if update.to_string() != format!("UPDATE {table} SET {} WHERE {condition}", set.join(", "))
        {
            return None;
        }
        let mut assignments = Vec::with_capacity(update.assignments.len());
        for assignment in &update.assignments {
            let (column, value) = self.assignment(&target, assignment)?;
            let is_new = assignments.iter().all(|(known, _)| *known != column);
            let identity = target.schema().columns[column].identity.is_some();
            if !is_new || identity {
                return None;
            }
            assignments.push((column, self.assigned(&target, column, value)?));
        }
        let all: Vec<usize> = (0..target.schema().columns.len()).collect();
        let shaper = self.shaper(&target, &all)?;
        let action = Action::Update { key: operands, assignments, shaper };
        Some((Arc::clone(target.schema()), key, action))
    }

    fn delete(&mut self, delete: &Delete) -> Option<Recognized> {
        let FromTable::WithFromKeyword(tables) = &delete.from else { return None };
        let [table] = tables.as_slice() else { return None };
        let (target, key) = self.target(table_name(table)?)?;
        let condition = delete.selection.as_ref()?;
        let operands = self.key(&target, &key, condition)?;
        if delete.to_string() != format!("DELETE FROM {table} WHERE {condition}") {
            return None;
        }
        let action = Action::Delete { key: operands };
        Some((Arc::clone(target.schema()), key, action))
    }

    /// A table with a primary key.
    fn target(&self, name: &ObjectName) -> Option<(Target, Key)> {
        let target = Target::find(&self.execution.names.catalog(), name).ok()?;
        let key = target.schema().primary_key.clone()?;
        Some((target, key))
    }

    /// The operands of `a = $1 AND b = 2`, in the order of the key's columns.
    fn key(&mut self, target: &Target, key: &Key, condition: &Expr) -> Option<Vec<KeyOperand>> {
        let mut equal = Vec::new();
        self.equalities(target, condition, &mut equal)?;
        let positions = target.schema().key_positions(key);
        if equal.len() != positions.len() {
            return None;
        }
        let operand = |position: &usize| {
            let (_, at) = *equal.iter().find(|(column, _)| column == position)?;
            let data_type = &target.schema().columns[*position].data_type;
            let other = self.other(at, data_type);
            (other.is_some() || self.has_type(at, data_type)).then_some(KeyOperand { at, other })
        };
        positions.iter().map(operand).collect()
    }

    fn equalities(
        &mut self,
        target: &Target,
        condition: &Expr,
        found: &mut Vec<(usize, usize)>,
    ) -> Option<()> {
        let Expr::BinaryOp { left, op, right } = condition else { return None };
        match op {
            BinaryOperator::And => {
                self.equalities(target, left, found)?;
                self.equalities(target, right, found)
            }
            BinaryOperator::Eq => {
                let Expr::Identifier(name) = left.as_ref() else { return None };
                let column = target.position(&folded(name)).ok()?;
                let operand = self.operand(right, &target.schema().columns[column].data_type)?;
                found.push((column, operand));
                Some(())
            }
            _ => None,
        }
    }

    fn assignment<'e>(
        &self,
        target: &Target,
        assignment: &'e Assignment,
    ) -> Option<(usize, &'e Expr)> {
        let AssignmentTarget::ColumnName(name) = &assignment.target else { return None };
        let [name] = name.0.as_slice() else { return None };
        Some((target.position(&folded(name.as_ident()?)).ok()?, &assignment.value))
    }

    /// An operand, or a sum of it and the column's old value.
    fn assigned(&mut self, target: &Target, column: usize, value: &Expr) -> Option<Assigned> {
        let data_type = &target.schema().columns[column].data_type;
        let Expr::BinaryOp { left, op, right } = value else {
            return self.operand(value, data_type).map(Assigned::Operand);
        };
        let sign = match op {
            BinaryOperator::Plus => Sign::Plus,
            BinaryOperator::Minus => Sign::Minus,
            _ => return None,
        };
        let Expr::Identifier(name) = left.as_ref() else { return None };
        let is_integer = matches!(data_type, DataType::Int2 | DataType::Int4 | DataType::Int8);
        if !is_integer || target.position(&folded(name)).ok()? != column {
            return None;
        }
        let operand = self.operand(right, data_type)?;
        self.has_type(operand, data_type).then_some(Assigned::Sum(operand, sign))
    }

    /// A parameter, or a literal for a column of this type.
    fn operand(&mut self, expr: &Expr, column: &DataType) -> Option<usize> {
        if let Some(placeholder) = placeholder(expr) {
            let at = number(placeholder).ok()? - 1;
            return (at < self.types.len()).then_some(at);
        }
        self.constants.push(Constant::of(expr, column)?);
        Some(self.types.len() + self.constants.len() - 1)
    }

    /// True if an operand has a column's type. Constants always do.
    fn has_type(&self, operand: usize, column: &DataType) -> bool {
        self.types.get(operand).is_none_or(|known| &arrow_type(column) == known.data_type())
    }

    /// The type of a column if its operand may have another one: many clients give each integer the
    /// narrowest type that holds it, and each numeric has its own digits.
    fn other(&self, operand: usize, column: &DataType) -> Option<ArrowType> {
        use ArrowType::{Decimal128, Int16, Int32, Int64};
        let own = arrow_type(column);
        let differs = matches!(
            (self.types.get(operand)?.data_type(), &own),
            (Int16, Int32 | Int64) | (Int32, Int64) | (Decimal128(..), Decimal128(..))
        );
        differs.then_some(own)
    }

    fn shaper(&self, target: &Target, given: &[usize]) -> Option<Shaper> {
        let id = target.id();
        let counters = self.execution.names.with(|t| Ok(t.state(id)?.identities().clone()));
        Shaper::new(&self.execution.state, target.schema(), given, counters.ok()?).ok()
    }
}

/// The columns that a query returns, if it returns nothing else and the client expects their types.
fn columns_of(target: &Target, items: &[SelectItem], schema: &SchemaRef) -> Option<Vec<usize>> {
    let mut columns = Vec::new();
    for item in items {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                columns.push(target.position(&folded(name)).ok()?);
            }
            SelectItem::Wildcard(_) if item.to_string() == "*" => {
                columns.extend(0..target.schema().columns.len());
            }
            _ => return None,
        }
    }
    let fits = columns.iter().zip(schema.fields()).all(|(column, field)| {
        arrow_type(&target.schema().columns[*column].data_type) == *field.data_type()
    });
    (fits && columns.len() == schema.fields().len()).then_some(columns)
}

/// The name of a table without joins and without an alias.
fn table_name(table: &TableWithJoins) -> Option<&ObjectName> {
    match &table.relation {
        TableFactor::Table { name, alias: None, .. } if table.to_string() == name.to_string() => {
            Some(name)
        }
        _ => None,
    }
}
