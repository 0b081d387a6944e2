//! Functions that give rows: names of their columns, arguments from other tables, and row numbers.

use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, Expr, Function, FunctionArg, FunctionArgExpr, Ident, ObjectName, Query,
    Select, SelectItem, TableAlias, TableAliasColumnDef, TableFactor, UnaryOperator, Value,
    Visitor, VisitorMut,
};
use thalweg_types::{Error, Result, SqlState};

use super::arrays;
use super::build::{call, cast, text};
use super::figure::quoted;
use super::names::normalized;
use super::own_expressions;
use super::rows::parse_query;

/// Functions that give rows, and those that give the same as an array.
const SET_FUNCTIONS: [(&str, &str); 14] = [
    ("generate_series", "generate_series"),
    ("generate_subscripts", "array_subscripts"),
    ("json_array_elements", "json_elements"),
    ("json_array_elements_text", "json_elements_text"),
    ("json_object_keys", "json_keys"),
    ("jsonb_array_elements", "jsonb_elements"),
    ("jsonb_array_elements_text", "jsonb_elements_text"),
    ("jsonb_object_keys", "jsonb_keys"),
    ("jsonb_path_query", "jsonb_path_items"),
    ("pg_partition_ancestors", "partition_ancestors"),
    ("regexp_matches", "regexp_all_matches"),
    ("regexp_split_to_table", "regexp_split_to_array"),
    ("string_to_table", "string_to_array"),
    ("unnest", ""),
];

/// Functions that give rows of keys and values, and those that give either as an array.
const MEMBER_FUNCTIONS: [(&str, [&str; 2]); 4] = [
    ("json_each", ["json_names", "json_members"]),
    ("json_each_text", ["json_names", "json_members_text"]),
    ("jsonb_each", ["jsonb_names", "jsonb_members"]),
    ("jsonb_each_text", ["jsonb_text_names", "jsonb_members_text"]),
];

/// Such functions in a list of columns, and those that give an array of rows.
const PAIR_FUNCTIONS: [(&str, &str); 4] = [
    ("json_each", "json_pairs"),
    ("json_each_text", "json_pairs_text"),
    ("jsonb_each", "jsonb_pairs"),
    ("jsonb_each_text", "jsonb_pairs_text"),
];

/// Functions that give arrays of JSON. Their items lose that type when they become rows.
const ARRAYS_OF_JSON: [(&str, SqlType); 5] = [
    ("json_elements", SqlType::JSON),
    ("json_members", SqlType::JSON),
    ("jsonb_elements", SqlType::JSONB),
    ("jsonb_members", SqlType::JSONB),
    ("jsonb_path_items", SqlType::JSONB),
];

/// Functions that give rows to the planner itself.
const OF_PLANNER: [&str; 2] = ["generate_series", "range"];

/// The name of the column with the items of a JSON array.
pub(super) const ITEM: &str = "value";

/// The alias of a rewritten series.
const COUNTED: &str = "__counted";

/// A call in FROM, taken apart.
struct Source {
    function: String,
    arguments: Vec<String>,
    /// True if an argument is a column of another table.
    depends: bool,
    alias: Option<TableAlias>,
    with_ordinality: bool,
    /// The bounds, the step and the type of rows that are whole numbers between two given ones.
    counts: Option<(Vec<String>, &'static str)>,
}

impl Source {
    fn of(factor: &mut TableFactor) -> Option<Source> {
        let (name, arguments, alias, with_ordinality) = match factor {
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                (name, expressions(&args.args)?, alias, *with_ordinality)
            }
            TableFactor::Function { name, alias, args, with_ordinality, .. } => {
                (name, expressions(args)?, alias, *with_ordinality)
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                return Some(Source {
                    function: "unnest".to_owned(),
                    arguments: array_exprs.iter().map(ToString::to_string).collect(),
                    depends: array_exprs.iter().any(has_column),
                    alias: alias.take(),
                    with_ordinality: *with_ordinality,
                    counts: None,
                });
            }
            _ => return None,
        };
        let function = normalized(name.0.last()?.as_ident()?);
        if array_function(&function).is_none() && member_functions(&function).is_none() {
            return None;
        }
        if alias.as_ref().is_some_and(|alias| alias.name.value == COUNTED) {
            return None;
        }
        Some(Source {
            depends: arguments.iter().any(|argument| has_column(argument)),
            counts: if function == "generate_series" { counted(&arguments) } else { None },
            arguments: arguments.iter().map(ToString::to_string).collect(),
            function,
            alias: alias.take(),
            with_ordinality,
        })
    }

    /// The arrays whose items are the rows.
    fn arrays(&self) -> Vec<String> {
        let arguments = self.arguments.join(", ");
        if let Some(arrays) = member_functions(&self.function) {
            return arrays.map(|array| format!("{array}({arguments})")).to_vec();
        }
        match array_function(&self.function) {
            Some("") | None => self.arguments.clone(),
            Some(array) => vec![format!("{array}({arguments})")],
        }
    }
}

/// PostgreSQL's name for the column of a function's rows.
fn column_of(function: &str) -> &str {
    if function.contains("array_elements") { ITEM } else { function }
}

fn expressions(arguments: &[FunctionArg]) -> Option<Vec<&Expr>> {
    arguments
        .iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect()
}

fn array_function(name: &str) -> Option<&'static str> {
    SET_FUNCTIONS.iter().find(|(function, _)| *function == name).map(|(_, array)| *array)
}

/// The name of a function in FROM, if it stands for the values of its one column and the column has
/// another name.
pub(super) fn name_of_items(factor: &TableFactor) -> Option<&Ident> {
    let (name, alias) = match factor {
        TableFactor::Table {
            name,
            alias: Some(alias),
            args: Some(_),
            with_ordinality: false,
            ..
        }
        | TableFactor::Function { name, alias: Some(alias), with_ordinality: false, .. } => {
            (name, alias)
        }
        _ => return None,
    };
    let function = normalized(name.0.last()?.as_ident()?);
    let is_bare = alias.columns.is_empty() && normalized(&alias.name) != ITEM;
    let gives_items = array_function(&function).is_some() && column_of(&function) == ITEM;
    (is_bare && gives_items).then_some(&alias.name)
}

/// True if a function gives arrays of one dimension, from which rows are made here.
pub(super) fn gives_one_dimension(name: &str) -> bool {
    let of_rows = SET_FUNCTIONS.iter().map(|(_, array)| *array);
    let of_members = MEMBER_FUNCTIONS.iter().flat_map(|(_, arrays)| *arrays);
    let of_pairs = PAIR_FUNCTIONS.iter().map(|(_, array)| *array);
    of_rows.chain(of_members).chain(of_pairs).any(|array| array == name)
}

fn member_functions(name: &str) -> Option<[&'static str; 2]> {
    MEMBER_FUNCTIONS.iter().find(|(function, _)| *function == name).map(|(_, arrays)| *arrays)
}

/// Gives a function in FROM the column names that PostgreSQL gives it. Most become subqueries,
/// lateral ones if the arguments are columns.
pub(super) fn name_function(factor: &mut TableFactor) -> Result<()> {
    if let TableFactor::NestedJoin { table_with_joins, alias: Some(alias) } = factor {
        // `(a JOIN b …) AS j` shows the columns of both under one name.
        let rows = format!("SELECT * FROM {table_with_joins}");
        *factor = derived(&rows, alias.clone(), false)?;
        return Ok(());
    }
    let Some(source) = Source::of(factor) else {
        return match factor {
            // DataFusion would drop the numbers silently.
            TableFactor::Table { args: Some(_), with_ordinality: true, .. }
            | TableFactor::Function { with_ordinality: true, .. } => {
                Err(Error::unsupported("WITH ORDINALITY for this function"))
            }
            factor => single_row(factor),
        };
    };
    let arrays = source.arrays();
    let mut named = named_columns(source.alias.clone(), &source, arrays.len());
    if source.with_ordinality {
        if named.columns.len() == arrays.len() {
            named.columns.push(column(quoted("ordinality")));
        }
        *factor = derived(&numbered_rows(&arrays), named, source.depends)?;
    } else if let Some((numbers, data_type)) = &source.counts {
        if numbers.get(2).is_some_and(|step| step.parse() == Ok(0_i64)) {
            let error_text = "step size cannot equal zero";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text));
        }
        // Rows are made one after the other, and never lie in memory as a whole.
        let series = format!("generate_series({})", numbers.join(", "));
        let rows = format!("SELECT CAST(n AS {data_type}) FROM {series} AS {COUNTED}(n)");
        *factor = derived(&rows, named, false)?;
    } else if source.function == "unnest" && !source.depends && arrays.len() == 1 {
        if let TableFactor::UNNEST { alias, array_exprs, .. } = factor {
            *alias = Some(named);
            array_exprs.iter_mut().for_each(arrays::flatten);
        }
    } else {
        let calls: Vec<String> = arrays.iter().map(|array| rows_of(array)).collect();
        *factor = derived(&format!("SELECT {}", calls.join(", ")), named, source.depends)?;
    }
    Ok(())
}

/// A function of values in FROM gives one row; one of JSON gives rows of the listed columns.
fn single_row(factor: &mut TableFactor) -> Result<()> {
    let (name, arguments, alias) = match &*factor {
        TableFactor::Table { name, alias, args: Some(args), .. } => (name, &args.args, alias),
        TableFactor::Function { name, alias, args, .. } => (name, args, alias),
        _ => return Ok(()),
    };
    let Some(function) = name.0.last().and_then(|part| part.as_ident()).map(normalized) else {
        return Ok(());
    };
    let Some(values) = expressions(arguments) else { return Ok(()) };
    if OF_PLANNER.contains(&function.as_str()) {
        return Ok(());
    }
    let depends = values.iter().any(|value| has_column(value));
    let values = values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let rows = match function.as_str() {
        "json_to_record" => format!("SELECT {values} AS \"__row\""),
        // Texts of nested values are written as `jsonb` writes them.
        "jsonb_to_record" => format!("SELECT CAST({values} AS jsonb) AS \"__row\""),
        "jsonb_to_recordset" => {
            format!("SELECT unnest(jsonb_elements({values})) AS \"__row\"")
        }
        "json_to_recordset" => {
            format!("SELECT unnest(json_elements({values})) AS \"__row\"")
        }
        _ => {
            let mut alias = alias.clone().unwrap_or_else(|| named(quoted(function.clone())));
            if alias.columns.is_empty() {
                alias.columns.push(column(alias.name.clone()));
            }
            *factor = derived(&format!("SELECT {name}({values})"), alias, depends)?;
            return Ok(());
        }
    };
    let listed = alias.as_ref().map(|alias| &alias.columns).filter(|columns| !columns.is_empty());
    let (Some(alias), Some(listed)) = (alias, listed) else {
        let error_text = "a column definition list is required for functions returning \"record\"";
        return Err(Error::new(SqlState::SYNTAX_ERROR, error_text));
    };
    let member = |column: &TableAliasColumnDef| {
        let data_type = column.data_type.as_ref()?;
        let key = text(normalized(&column.name));
        let value = match data_type {
            SqlType::JSON | SqlType::JSONB => format!("nullif((\"__row\" -> {key}), 'null')"),
            SqlType::Array(_) => format!("json_array_text(\"__row\" -> {key})"),
            _ => format!("(\"__row\" ->> {key})"),
        };
        Some(format!("CAST({value} AS {data_type})"))
    };
    let Some(members) = listed.iter().map(member).collect::<Option<Vec<_>>>() else {
        let error_text = "a column definition list is required for functions returning \"record\"";
        return Err(Error::new(SqlState::SYNTAX_ERROR, error_text));
    };
    let members = members.join(", ");
    let mut plain = named(alias.name.clone());
    plain.columns = listed.iter().map(|listed| column(listed.name.clone())).collect();
    *factor = derived(&format!("SELECT {members} FROM ({rows}) AS \"__rows\""), plain, depends)?;
    Ok(())
}

fn named(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: vec![], at: None }
}

/// `SELECT generate_series(1, 3)` gives three rows, not one array, and so does an expression of it.
///
/// # Errors
/// If the rows would depend on a condition.
pub(super) fn expand_series(select: &mut Select) -> Result<()> {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            check_conditional(expr)?;
            let _ = walk::visit_mut(expr, &mut Expand::default());
        }
    }
    Ok(())
}

/// Refuses functions that give rows inside of CASE and COALESCE, as PostgreSQL does: their number
/// of rows would depend on which of the results is taken.
fn check_conditional(expr: &Expr) -> Result<()> {
    let mut found = None;
    let _ = own_expressions::look_at(expr, |part| {
        let around = match part {
            Expr::Case { .. } => "CASE",
            Expr::Function(function) if is_named(function, "coalesce") => "COALESCE",
            _ => return ControlFlow::Continue(()),
        };
        match gives_rows(part) {
            true => {
                found = Some(around);
                ControlFlow::Break(())
            }
            false => ControlFlow::Continue(()),
        }
    });
    match found {
        Some(around) => Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("set-returning functions are not allowed in {around}"),
        )),
        None => Ok(()),
    }
}

fn is_named(function: &Function, wanted: &str) -> bool {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(normalized);
    name.is_some_and(|name| name == wanted)
}

/// True if an expression gives rows, and not one value.
pub(super) fn gives_rows(expr: &Expr) -> bool {
    own_expressions::look_at(expr, |expr| match expr {
        Expr::Function(function)
            if set_function(&function.name).or_else(|| pairs_of(&function.name)).is_some() =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Replaces functions that give rows by the rows of arrays.
#[derive(Default)]
struct Expand {
    /// Number of enclosing queries: they expand their own.
    queries: usize,
    /// Number of enclosing calls of `unnest`: their arguments are arrays already.
    arrays: usize,
}

impl VisitorMut for Expand {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.arrays += usize::from(is_unnest(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.arrays -= usize::from(is_unnest(expr));
        if self.queries == 0
            && self.arrays == 0
            && let Some(rows) = rows_in_place(expr)
        {
            *expr = rows;
        }
        ControlFlow::Continue(())
    }
}

fn is_unnest(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if set_function(&function.name) == Some(""))
}

/// The rows of a call as an array that is unnested, if there is a function for the array.
fn rows_in_place(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    let array = set_function(&function.name).or_else(|| pairs_of(&function.name));
    let array = array.filter(|array| !array.is_empty())?;
    if function.over.is_some() {
        return None;
    }
    let renamed = ObjectName::from(vec![Ident::new(array)]);
    let rows = call("unnest", vec![Expr::Function(Function { name: renamed, ..function.clone() })]);
    Some(match type_of_items(array) {
        Some(data_type) => cast(rows, data_type.clone()),
        None => rows,
    })
}

/// The rows of arrays side by side, and the number of each.
fn numbered_rows(arrays: &[String]) -> String {
    let lengths: Vec<String> = arrays.iter().map(|array| format!("cardinality({array})")).collect();
    let most = match lengths.as_slice() {
        [length] => length.clone(),
        lengths => format!("greatest({})", lengths.join(", ")),
    };
    let rows: Vec<String> = arrays.iter().map(|array| rows_of(array)).collect();
    let numbers = format!("unnest(generate_series(CAST(1 AS bigint), {most}))");
    format!("SELECT {}, {numbers} AS \"ordinality\"", rows.join(", "))
}

/// The items of an array, a call of a function, as rows.
fn rows_of(array: &str) -> String {
    let function = array.split('(').next().unwrap_or_default();
    match type_of_items(function) {
        Some(data_type) => format!("CAST(unnest({array}) AS {data_type})"),
        None => format!("unnest({array})"),
    }
}

fn type_of_items(function: &str) -> Option<&'static SqlType> {
    ARRAYS_OF_JSON.iter().find(|(known, _)| *known == function).map(|(_, data_type)| data_type)
}

/// The function that gives pairs of keys and values as an array.
fn pairs_of(name: &ObjectName) -> Option<&'static str> {
    let name = normalized(name.0.last()?.as_ident()?);
    PAIR_FUNCTIONS.iter().find(|(function, _)| *function == name).map(|(_, array)| *array)
}

/// The function that gives the same rows as an array.
fn set_function(name: &ObjectName) -> Option<&'static str> {
    array_function(&normalized(name.0.last()?.as_ident()?))
}

/// `(rows) AS alias`
fn derived(rows: &str, alias: TableAlias, lateral: bool) -> Result<TableFactor> {
    let subquery = Box::new(parse_query(rows)?);
    Ok(TableFactor::Derived { lateral, subquery, alias: Some(alias), sample: None })
}

/// The column of a function with one column has the name of the function.
fn named_columns(alias: Option<TableAlias>, source: &Source, width: usize) -> TableAlias {
    let is_named = alias.is_some();
    let mut alias = alias.unwrap_or_else(|| named(quoted(source.function.clone())));
    if alias.columns.is_empty() && member_functions(&source.function).is_some() {
        alias.columns.extend(["key", "value"].map(|name| column(quoted(name))));
    }
    if alias.columns.is_empty() && width == 1 {
        let name = match is_named && column_of(&source.function) == source.function {
            true => alias.name.clone(),
            false => quoted(column_of(&source.function)),
        };
        alias.columns.push(column(name));
    }
    alias
}

fn column(name: Ident) -> TableAliasColumnDef {
    TableAliasColumnDef { name, data_type: None }
}

/// True if `expr` names a column of some other table.
pub(super) fn has_column(expr: &Expr) -> bool {
    struct Columns;
    impl Visitor for Columns {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk::visit(expr, &mut Columns).is_break()
}

/// The arguments, if they are whole numbers that are written out, and the type of the series.
fn counted(arguments: &[&Expr]) -> Option<(Vec<String>, &'static str)> {
    let numbers: Vec<(String, bool)> =
        arguments.iter().map(|argument| whole_number(argument)).collect::<Option<_>>()?;
    let is_wide = |(number, is_wide): &(String, bool)| *is_wide || number.parse::<i32>().is_err();
    let data_type = if numbers.iter().any(is_wide) { "bigint" } else { "integer" };
    Some((numbers.into_iter().map(|(number, _)| number).collect(), data_type))
}

/// A number, and true if it is cast to `bigint`, as parameters are.
fn whole_number(expr: &Expr) -> Option<(String, bool)> {
    match expr {
        Expr::Nested(inner) => whole_number(inner),
        Expr::Cast { expr, data_type: SqlType::BigInt(None) | SqlType::Int8(None), .. } => {
            whole_number(expr).map(|(number, _)| (number, true))
        }
        _ => is_number(expr).then(|| (expr.to_string(), false)),
    }
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_number(expr),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.to_string().parse::<i64>().is_ok(),
            _ => false,
        },
        _ => false,
    }
}
