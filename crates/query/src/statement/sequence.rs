//! `CREATE SEQUENCE`, `ALTER SEQUENCE`, `DROP SEQUENCE`, and the defaults that use sequences.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::Expr as PlanExpr;
use datafusion::sql::sqlparser::ast::{
    AlterTable, DataType as SqlType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, SequenceOptions as Written, Value,
};
use thalweg_dialect::parse::{
    SequenceClause, altered_sequence, created_clauses, redundant_options,
};
use thalweg_dialect::walk;
use thalweg_txn::{
    Catalog, CatalogChange, Dependency, Object, Position, Privilege, Referenced, Securable,
    Sequence, SequenceCounter, SequenceOptions, no_table,
};
use thalweg_types::{ColumnId, DataType, Error, Result, SqlState, TableId, TableSchema};
use thalweg_values::errors::from_datafusion;
use thalweg_values::types::column_type;

use super::target::QualifiedName;
use super::{Execution, Target, folded, identity, owner};
use crate::catalog::SearchPath;
use crate::outcome::Outcome;
use crate::privileges;
use crate::sequences::{OIDS, not_a_sequence, sequence_named};
use crate::temporary_objects::{ALIAS, new_id};

/// The clauses of a definition, at most one of each kind.
#[derive(Default)]
pub(super) struct Clauses {
    pub(super) data_type: Option<DataType>,
    increment: Option<i64>,
    /// The inner `None` for `NO MINVALUE`.
    min: Option<Option<i64>>,
    max: Option<Option<i64>>,
    start: Option<i64>,
    /// The inner `None` for the start value.
    restart: Option<Option<i64>>,
    cache: Option<i64>,
    cycles: Option<bool>,
    pub(super) owned_by: Option<Option<ObjectName>>,
    /// The name of an identity column's sequence.
    pub(super) name: Option<ObjectName>,
}

impl Clauses {
    pub(super) fn of(written: Vec<SequenceClause>) -> Result<Clauses> {
        let mut clauses = Clauses::default();
        for clause in written {
            clauses.add(clause)?;
        }
        Ok(clauses)
    }

    fn add(&mut self, clause: SequenceClause) -> Result<()> {
        fn once<T>(place: &mut Option<T>, value: T) -> Result<()> {
            match place.replace(value) {
                None => Ok(()),
                Some(_) => Err(redundant_options()),
            }
        }
        let bound = |written: Option<Expr>| written.as_ref().map(number).transpose();
        match clause {
            SequenceClause::As(of) => once(&mut self.data_type, sequence_type(&of)?),
            SequenceClause::Increment(by) => once(&mut self.increment, number(&by)?),
            SequenceClause::Min(min) => once(&mut self.min, bound(min)?),
            SequenceClause::Max(max) => once(&mut self.max, bound(max)?),
            SequenceClause::Start(start) => once(&mut self.start, number(&start)?),
            SequenceClause::Restart(at) => once(&mut self.restart, bound(at)?),
            SequenceClause::Cache(cache) => once(&mut self.cache, number(&cache)?),
            SequenceClause::Cycle(cycles) => once(&mut self.cycles, cycles),
            SequenceClause::OwnedBy(column) => once(&mut self.owned_by, column),
            SequenceClause::Name(name) => once(&mut self.name, name),
            SequenceClause::RenameTo(_)
            | SequenceClause::OwnerTo(_)
            | SequenceClause::SetSchema(_) => {
                let message = "RENAME, OWNER and SET SCHEMA are statements of their own";
                Err(Error::new(SqlState::SYNTAX_ERROR, message))
            }
        }
    }

    /// The options of a new sequence.
    pub(super) fn created(&self) -> Result<(SequenceOptions, Position)> {
        let data_type = self.data_type.clone().unwrap_or(DataType::Int8);
        let increment = self.increment.unwrap_or(1);
        let (least, greatest) = range(&data_type);
        let ascends = increment > 0;
        let min = self.min.flatten().unwrap_or(if ascends { 1 } else { least });
        let max = self.max.flatten().unwrap_or(if ascends { greatest } else { -1 });
        let options = SequenceOptions {
            data_type,
            start: self.start.unwrap_or(if ascends { min } else { max }),
            increment,
            min,
            max,
            cache: self.cache.unwrap_or(1),
            cycles: self.cycles.unwrap_or(false),
        };
        let position = Position { last: options.start, is_called: false };
        check(&options, position)?;
        Ok((options, position))
    }

    /// The options of an altered sequence, and its position.
    fn altered(
        &self,
        before: &SequenceOptions,
        at: Position,
    ) -> Result<(SequenceOptions, Position)> {
        let mut options = before.clone();
        let (old_least, old_greatest) = range(&before.data_type);
        if let Some(data_type) = &self.data_type {
            options.data_type = data_type.clone();
        }
        options.increment = self.increment.unwrap_or(before.increment);
        let (least, greatest) = range(&options.data_type);
        let ascends = options.increment > 0;
        let changes_type = self.data_type.is_some();
        // A bound that was the old type's becomes the new type's.
        match self.max {
            Some(Some(max)) => options.max = max,
            Some(None) => options.max = if ascends { greatest } else { -1 },
            None if changes_type && before.max == old_greatest => {
                options.max = if ascends { greatest } else { -1 };
            }
            None => {}
        }
        match self.min {
            Some(Some(min)) => options.min = min,
            Some(None) => options.min = if ascends { 1 } else { least },
            None if changes_type && before.min == old_least => {
                options.min = if ascends { 1 } else { least };
            }
            None => {}
        }
        options.start = self.start.unwrap_or(before.start);
        options.cache = self.cache.unwrap_or(before.cache);
        options.cycles = self.cycles.unwrap_or(before.cycles);
        let position = match self.restart {
            Some(at) => Position { last: at.unwrap_or(options.start), is_called: false },
            None => at,
        };
        check(&options, position)?;
        Ok((options, position))
    }
}

fn range(data_type: &DataType) -> (i64, i64) {
    match data_type {
        DataType::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DataType::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

/// # Errors
/// 22023 for the first option that does not fit the others, in PostgreSQL's words.
fn check(options: &SequenceOptions, position: Position) -> Result<()> {
    let SequenceOptions { data_type, start, increment, min, max, cache, .. } = options;
    let last = position.last;
    let (least, greatest) = range(data_type);
    let of_type = format!("is out of range for sequence data type {data_type}");
    let checks = [
        (*increment == 0, "INCREMENT must not be zero".to_owned()),
        (*max < least || *max > greatest, format!("MAXVALUE ({max}) {of_type}")),
        (*min < least || *min > greatest, format!("MINVALUE ({min}) {of_type}")),
        (min >= max, format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")),
        (start < min, format!("START value ({start}) cannot be less than MINVALUE ({min})")),
        (start > max, format!("START value ({start}) cannot be greater than MAXVALUE ({max})")),
        (last < *min, format!("RESTART value ({last}) cannot be less than MINVALUE ({min})")),
        (last > *max, format!("RESTART value ({last}) cannot be greater than MAXVALUE ({max})")),
        (*cache <= 0, format!("CACHE ({cache}) must be greater than zero")),
    ];
    match checks.into_iter().find(|(is_wrong, _)| *is_wrong) {
        Some((_, message)) => Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)),
        None => Ok(()),
    }
}

fn sequence_type(written: &SqlType) -> Result<DataType> {
    match column_type(written)? {
        data_type @ (DataType::Int2 | DataType::Int4 | DataType::Int8) => Ok(data_type),
        _ => {
            let message = "sequence type must be smallint, integer, or bigint";
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

fn number(written: &Expr) -> Result<i64> {
    let text = written.to_string().replace([' ', '+'], "");
    text.parse().map_err(|_| {
        let message = format!("value \"{text}\" is out of range for type bigint");
        Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message)
    })
}

pub(super) fn create(
    execution: &Execution<'_>,
    (name, is_temporary): (&ObjectName, bool),
    if_not_exists: bool,
    (data_type, options): (Option<&SqlType>, &[Written]),
    owned_by: Option<&ObjectName>,
) -> Result<Outcome> {
    let outcome = Outcome::command("CREATE SEQUENCE");
    let name = QualifiedName::to_create(execution, name, is_temporary)?;
    let catalog = execution.names.catalog();
    if if_not_exists && catalog.object(&name.namespace, &name.name).is_some() {
        let notice = format!("relation \"{}\" already exists, skipping", name.name);
        return Ok(outcome.with_notice(notice));
    }
    let clauses = Clauses::of(created_clauses(data_type, options, owned_by))?;
    let (options, position) = clauses.created()?;
    let owned_by = match &clauses.owned_by {
        Some(Some(column)) => Some(owning_column(execution, &name, None, column)?),
        _ => None,
    };
    let sequence = Sequence {
        id: new_id(execution, &name.namespace)?,
        options,
        owned_by,
        counter: Arc::new(SequenceCounter::new(position)),
    };
    privileges::create(execution.names, define(&name, sequence, false))?;
    Ok(outcome)
}

pub(super) fn define(name: &QualifiedName, sequence: Sequence, replace: bool) -> CatalogChange {
    CatalogChange::Define {
        namespace: name.namespace.clone(),
        name: name.name.clone(),
        object: Object::Sequence(sequence),
        replace,
    }
}

/// The column of `OWNED BY table.column`. The table must have the sequence's schema and owner;
/// `existing` is false for a sequence that the current role creates.
fn owning_column(
    execution: &Execution<'_>,
    sequence: &QualifiedName,
    existing: Option<&Securable>,
    column: &ObjectName,
) -> Result<(TableId, ColumnId)> {
    let mut table = column.clone();
    let last = table.0.pop();
    let last = last.as_ref().and_then(|part| part.as_ident());
    let (Some(column), false) = (last, table.0.is_empty()) else {
        let hint = "Specify OWNED BY table.column or OWNED BY NONE.";
        return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option").with_hint(hint));
    };
    let catalog = execution.names.catalog();
    let target = Target::find(&catalog, &table)?;
    let schema = target.schema();
    let securable = Securable::relation(&schema.namespace, &schema.name);
    let owner = match existing {
        Some(sequence) => catalog.access(sequence).owner,
        None => execution.names.identity().current,
    };
    let refused = |message: &str| Err(Error::new(SqlState::OBJECT_NOT_IN_STATE, message));
    if catalog.access(&securable).owner != owner {
        return refused("sequence must have same owner as table it is linked to");
    }
    if schema.namespace != sequence.namespace {
        return refused("sequence must be in same schema as table it is linked to");
    }
    let position = target.position(&folded(column))?;
    Ok((schema.id, schema.columns[position].id))
}

/// `ALTER SEQUENCE`; `None` for an `ALTER TABLE`.
pub(super) fn alter(execution: &Execution<'_>, alter: &AlterTable) -> Option<Result<Outcome>> {
    let clauses = altered_sequence(alter)?;
    Some(clauses.and_then(|clauses| alter_with(execution, alter, clauses)))
}

fn alter_with(
    execution: &Execution<'_>,
    alter: &AlterTable,
    clauses: Vec<SequenceClause>,
) -> Result<Outcome> {
    let outcome = Outcome::command("ALTER SEQUENCE");
    let catalog = execution.names.catalog();
    let name = QualifiedName::existing(&catalog, &alter.name)?;
    let sequence = match catalog.object(&name.namespace, &name.name) {
        None if alter.if_exists => {
            let notice = format!("relation \"{}\" does not exist, skipping", name.name);
            return Ok(outcome.with_notice(notice));
        }
        None => {
            name.find(&catalog)?;
            return Err(no_table(&name.name));
        }
        Some(Object::Sequence(sequence)) => sequence.clone(),
        Some(_) => return Err(not_a_sequence(&name.name)),
    };
    if let [SequenceClause::OwnerTo(owner)] = clauses.as_slice() {
        if sequence.owned_by.is_some() {
            return Err(linked(&catalog, &name.name, &sequence, "change owner of"));
        }
        owner::of_relation(execution, &name, owner)?;
        return Ok(outcome);
    }
    let object = Securable::relation(&name.namespace, &name.name);
    execution.names.rights().owns(&object)?;
    let change = match clauses.as_slice() {
        [SequenceClause::RenameTo(new)] => {
            execution.names.rights().on_namespace(&name.namespace, Privilege::Create)?;
            define(&QualifiedName { name: folded(new), ..name }, sequence, true)
        }
        [SequenceClause::SetSchema(_)] if sequence.owned_by.is_some() => {
            return Err(linked(&catalog, &name.name, &sequence, "move"));
        }
        [SequenceClause::SetSchema(new)] => {
            let namespace = folded(new);
            refuse_move(&catalog, &name.namespace, &namespace)?;
            execution.names.rights().on_namespace(&namespace, Privilege::Create)?;
            define(&QualifiedName { namespace, ..name }, sequence, true)
        }
        _ => {
            let clauses = Clauses::of(clauses)?;
            let is_identity = identity::owner_of_identity(&catalog, &sequence).is_some();
            if clauses.owned_by.is_some() && is_identity {
                return Err(linked(&catalog, &name.name, &sequence, "give away"));
            }
            if clauses.name.is_some() {
                let message = "invalid sequence option SEQUENCE NAME";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            altered(execution, &name, sequence, &object, clauses)?
        }
    };
    execution.names.with(|t| t.change_catalog(change))?;
    Ok(outcome)
}

/// # Errors
/// 3F000 if there is no such namespace; 0A000 if one of the two holds temporary objects.
fn refuse_move(catalog: &Catalog, from: &str, to: &str) -> Result<()> {
    let is_temporary = thalweg_txn::is_temporary_namespace;
    if is_temporary(from) || is_temporary(to) || to == ALIAS {
        let message = "cannot move objects into or out of temporary schemas";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    match catalog.has_namespace(to) {
        true => Ok(()),
        false => Err(thalweg_txn::no_namespace(to)),
    }
}

pub(super) fn altered(
    execution: &Execution<'_>,
    name: &QualifiedName,
    mut sequence: Sequence,
    object: &Securable,
    clauses: Clauses,
) -> Result<CatalogChange> {
    let (options, position) = clauses.altered(&sequence.options, sequence.counter.position())?;
    sequence.options = options;
    if clauses.restart.is_some() {
        // Numbers that others take before the commit come from the counter so far.
        sequence.counter = Arc::new(SequenceCounter::new(position));
    }
    match &clauses.owned_by {
        None => {}
        Some(None) => sequence.owned_by = None,
        Some(Some(column)) => {
            sequence.owned_by = Some(owning_column(execution, name, Some(object), column)?);
        }
    }
    Ok(define(name, sequence, true))
}

/// The error of a change that only the table of an owned sequence may cause.
fn linked(catalog: &Catalog, name: &str, sequence: &Sequence, what: &str) -> Error {
    let table = sequence.owned_by.and_then(|(table, _)| catalog.table(table));
    let table = table.map_or("", |entry| entry.schema.name.as_str());
    let message = match what {
        "move" => "cannot move an owned sequence into another schema".to_owned(),
        "give away" => "cannot change ownership of identity sequence".to_owned(),
        _ => format!("cannot change owner of sequence \"{name}\""),
    };
    let detail = format!("Sequence \"{name}\" is linked to table \"{table}\".");
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(detail)
}

/// A column's default that uses a sequence.
pub(super) struct SequenceDefault {
    pub(super) table: Arc<TableSchema>,
    pub(super) column: ColumnId,
    sequence: TableId,
}

impl SequenceDefault {
    /// The defaults that use a sequence.
    pub(super) fn all(catalog: &Catalog, sequence: TableId) -> Vec<SequenceDefault> {
        let uses = |text: &String| uses(text, sequence);
        let mut found = Vec::new();
        for entry in catalog.tables() {
            let columns = entry.schema.columns.iter();
            // An identity column's numbers go away with the column.
            let columns = columns.filter(|column| column.declared_default().is_some_and(uses));
            found.extend(columns.map(|column| SequenceDefault {
                table: Arc::clone(&entry.schema),
                column: column.id,
                sequence,
            }));
        }
        found
    }

    pub(super) fn dependency(&self, catalog: &Catalog) -> Dependency {
        let column = catalog.describe_referenced(&Referenced::Column(self.table.id, self.column));
        let on = catalog.describe_referenced(&Referenced::Sequence(self.sequence));
        Dependency { dependent: format!("default value for {column}"), on }
    }

    /// Takes the default away.
    pub(super) fn drop(&self, execution: &Execution<'_>) -> Result<()> {
        let catalog = execution.names.catalog();
        let Some(entry) = catalog.table(self.table.id) else { return Ok(()) };
        let mut schema = entry.schema.as_ref().clone();
        if let Some(position) = schema.position(self.column) {
            schema.columns[position].default = None;
        }
        let change = CatalogChange::AlterTable { schema, added: None, expected: None };
        execution.names.with(|t| t.change_catalog(change))
    }
}

/// True if a stored default calls a function on the sequence.
fn uses(default: &str, id: TableId) -> bool {
    let call = format!("val({}", OIDS + i64::from(id.0));
    default.match_indices(&call).any(|(at, _)| {
        let rest = &default[at + call.len()..];
        !rest.starts_with(|next: char| next.is_ascii_digit())
    })
}

/// The sequence of a name, if the current role may drop it.
pub(super) fn find_to_drop(execution: &Execution<'_>, name: &QualifiedName) -> Result<Referenced> {
    let catalog = execution.names.catalog();
    let id = match catalog.object(&name.namespace, &name.name) {
        Some(Object::Sequence(sequence)) => {
            identity::refuse_drop(&catalog, &name.name, sequence)?;
            sequence.id
        }
        Some(other) => {
            let hint = format!("Use DROP {} to remove it.", other.kind().to_uppercase());
            return Err(not_a_sequence(&name.name).with_hint(hint));
        }
        None if name.namespace.is_empty() || catalog.has_namespace(&name.namespace) => {
            let message = format!("sequence \"{}\" does not exist", name.name);
            return Err(Error::new(SqlState::UNDEFINED_TABLE, message));
        }
        None => return Err(thalweg_txn::no_namespace(&name.namespace)),
    };
    execution.names.rights().may_drop(&name.namespace, &name.name)?;
    Ok(Referenced::Sequence(id))
}

/// Gives the sequences of a column to the column that replaces it. The numbers of an identity
/// column get the column's type.
pub(super) fn reown(
    execution: &Execution<'_>,
    table: TableId,
    (old, new): (ColumnId, ColumnId),
) -> Result<()> {
    let catalog = execution.names.catalog();
    for (namespace, name, sequence) in catalog.sequences() {
        if sequence.owned_by == Some((table, old)) {
            let name = QualifiedName { namespace: namespace.to_owned(), name: name.to_owned() };
            let mut sequence = Sequence { owned_by: Some((table, new)), ..sequence.clone() };
            if let Some((_, column)) = identity::owner_of_identity(&catalog, &sequence) {
                let data_type = Some(identity::integer(&column.data_type)?);
                let clauses = Clauses { data_type, ..Clauses::default() };
                let position = sequence.counter.position();
                sequence.options = clauses.altered(&sequence.options, position)?.0;
            }
            execution.names.with(|t| t.change_catalog(define(&name, sequence, true)))?;
        }
    }
    Ok(())
}

/// Replaces the names of sequences in a default by their numbers, which survive renames. A text
/// that is cast to `text` is looked up in each call, as in PostgreSQL.
///
/// # Errors
/// If a name is not that of a sequence.
pub(super) fn with_numbers(catalog: &Catalog, expression: &Expr) -> Result<Expr> {
    let mut expression = expression.clone();
    let visited =
        walk::visit_expressions_mut(&mut expression, |expr| match number_call(catalog, expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        });
    match visited {
        ControlFlow::Continue(()) => Ok(expression),
        ControlFlow::Break(error) => Err(error),
    }
}

/// True if an expression calls a function on sequences.
pub(super) fn takes_numbers(expression: &PlanExpr) -> Result<bool> {
    let is_call = |expr: &PlanExpr| match expr {
        PlanExpr::ScalarFunction(call) => {
            Ok(matches!(call.name(), "nextval" | "currval" | "lastval" | "setval"))
        }
        _ => Ok(false),
    };
    expression.exists(is_call).map_err(|error| from_datafusion(error, ""))
}

fn number_call(catalog: &Catalog, expr: &mut Expr) -> Result<()> {
    let Expr::Function(function) = expr else { return Ok(()) };
    let Some(argument) = sequence_argument(function) else { return Ok(()) };
    let text = match &*argument {
        Expr::Value(value) => &value.value,
        Expr::Cast { expr, data_type, .. } if is_regclass(data_type) => match expr.as_ref() {
            Expr::Value(value) => &value.value,
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    let Value::SingleQuotedString(text) = text else { return Ok(()) };
    let oid = OIDS + i64::from(sequence_named(catalog, &SearchPath::current(), text)?.id.0);
    *argument = Expr::Value(Value::Number(oid.to_string(), false).into());
    // The stored text has one spelling, by which defaults are recognized.
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
    function.name = ObjectName::from(vec![Ident::new(name.unwrap_or_default())]);
    Ok(())
}

fn is_regclass(data_type: &SqlType) -> bool {
    let text = data_type.to_string().to_lowercase();
    matches!(text.as_str(), "regclass" | "pg_catalog.regclass")
}

/// The argument of a function on sequences that names the sequence.
fn sequence_argument(function: &mut Function) -> Option<&mut Expr> {
    let name = folded(function.name.0.last()?.as_ident()?);
    if !matches!(name.as_str(), "nextval" | "currval" | "setval") {
        return None;
    }
    let FunctionArguments::List(list) = &mut function.args else { return None };
    match list.args.first_mut()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_uses_the_sequence_of_its_number() {
        let id = TableId(2);
        assert!(uses("nextval(16386)", id));
        assert!(uses("'A' || setval(16386, 4)", id));
        assert!(!uses("nextval(163860)", id));
        assert!(!uses("nextval(16387)", id));
    }
}
