//! Clauses of queries and expressions.

use datafusion::sql::sqlparser::ast::{
    Cte, DuplicateTreatment, Expr, Function, FunctionArgumentList, FunctionArguments, GroupByExpr,
    Join, JoinOperator, LimitClause, OrderBy, OrderByExpr, OrderByKind, Query, Select,
    SelectFlavor, TableAlias, TableFactor, TableWithJoins, WindowSpec, WindowType, With,
};
use thalweg_types::{Error, Result};

use super::absent;

pub(super) fn query(query: &Query) -> Result<()> {
    let Query {
        with,
        body: _,
        order_by,
        limit_clause,
        fetch: _,
        locks: _,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    absent([
        (for_clause.is_some(), "FOR XML, FOR JSON or FOR BROWSE"),
        (settings.is_some(), "SETTINGS"),
        (format_clause.is_some(), "FORMAT"),
        (!pipe_operators.is_empty(), "a pipe operator"),
    ])?;
    if let Some(With { with_token: _, recursive: _, cte_tables }) = with {
        for cte in cte_tables {
            let Cte { alias, query: _, from, materialized: _, closing_paren_token: _ } = cte;
            absent([(from.is_some(), "FROM behind a common table expression")])?;
            table_alias(Some(alias))?;
        }
    }
    match limit_clause {
        Some(LimitClause::LimitOffset { limit: _, offset: _, limit_by }) => {
            absent([(!limit_by.is_empty(), "LIMIT ... BY")])?;
        }
        Some(LimitClause::OffsetCommaLimit { offset: _, limit: _ }) => {
            return Err(Error::unsupported("LIMIT #,#").with_hint("Use LIMIT # OFFSET #."));
        }
        None => {}
    }
    let Some(OrderBy { kind, interpolate }) = order_by else { return Ok(()) };
    absent([(interpolate.is_some(), "INTERPOLATE")])?;
    match kind {
        OrderByKind::Expressions(orders) => in_order(orders),
        OrderByKind::All(_) => Err(Error::unsupported("ORDER BY ALL")),
    }
}

fn in_order(orders: &[OrderByExpr]) -> Result<()> {
    orders.iter().try_for_each(|OrderByExpr { expr: _, options: _, with_fill }| {
        absent([(with_fill.is_some(), "WITH FILL")])
    })
}

pub(super) fn select(select: &Select) -> Result<()> {
    let Select {
        select_token: _,
        // A comment, which an optimizer may read.
        optimizer_hints: _,
        distinct: _,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection: _,
        exclude,
        into: _,
        from,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window: _,
        qualify: _,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    absent([
        (select_modifiers.is_some(), "a modifier of SELECT"),
        (top.is_some(), "TOP"),
        (exclude.is_some(), "EXCLUDE"),
        (!lateral_views.is_empty(), "LATERAL VIEW"),
        (prewhere.is_some(), "PREWHERE"),
        (!connect_by.is_empty(), "CONNECT BY"),
        (!cluster_by.is_empty(), "CLUSTER BY"),
        (!distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!sort_by.is_empty(), "SORT BY"),
        (value_table_mode.is_some(), "SELECT AS VALUE or AS STRUCT"),
        (*flavor != SelectFlavor::Standard, "FROM before SELECT"),
    ])?;
    let (GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)) = group_by;
    absent([(!modifiers.is_empty(), "GROUP BY ... WITH")])?;
    from.iter().try_for_each(joined)
}

pub(super) fn joined(tables: &TableWithJoins) -> Result<()> {
    let TableWithJoins { relation: _, joins } = tables;
    joins.iter().try_for_each(|Join { relation: _, global, join_operator }| {
        absent([(*global, "GLOBAL JOIN")])?;
        let operator = match join_operator {
            JoinOperator::Join(_)
            | JoinOperator::Inner(_)
            | JoinOperator::Left(_)
            | JoinOperator::LeftOuter(_)
            | JoinOperator::Right(_)
            | JoinOperator::RightOuter(_)
            | JoinOperator::FullOuter(_)
            | JoinOperator::CrossJoin(_)
            | JoinOperator::LeftSemi(_)
            | JoinOperator::RightSemi(_)
            | JoinOperator::LeftAnti(_)
            | JoinOperator::RightAnti(_) => return Ok(()),
            JoinOperator::Semi(_) => "SEMI JOIN without LEFT or RIGHT",
            JoinOperator::Anti(_) => "ANTI JOIN without LEFT or RIGHT",
            JoinOperator::CrossApply | JoinOperator::OuterApply => "APPLY",
            JoinOperator::AsOf { match_condition: _, constraint: _ } => "ASOF JOIN",
            JoinOperator::StraightJoin(_) => "STRAIGHT_JOIN",
            JoinOperator::ArrayJoin
            | JoinOperator::LeftArrayJoin
            | JoinOperator::InnerArrayJoin => "ARRAY JOIN",
        };
        Err(Error::unsupported(operator))
    })
}

fn table_alias(alias: Option<&TableAlias>) -> Result<()> {
    let Some(TableAlias { explicit: _, name: _, columns: _, at }) = alias else { return Ok(()) };
    absent([(at.is_some(), "AT behind a table's alias")])
}

pub(super) fn table(factor: &TableFactor) -> Result<()> {
    match factor {
        TableFactor::Table {
            name: _,
            alias,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } => {
            absent([
                (!with_hints.is_empty(), "WITH behind a table"),
                (version.is_some(), "a version of a table"),
                (*with_ordinality && args.is_none(), "WITH ORDINALITY behind a table"),
                (!partitions.is_empty(), "PARTITION behind a table"),
                (json_path.is_some(), "a path behind a table"),
                (sample.is_some(), "TABLESAMPLE"),
                (!index_hints.is_empty(), "an index hint"),
                (args.as_ref().is_some_and(|args| args.settings.is_some()), "SETTINGS"),
            ])?;
            table_alias(alias.as_ref())
        }
        TableFactor::Derived { lateral: _, subquery: _, alias, sample } => {
            absent([(sample.is_some(), "TABLESAMPLE")])?;
            table_alias(alias.as_ref())
        }
        TableFactor::Function { lateral: _, name: _, args: _, with_ordinality: _, alias }
        | TableFactor::UNNEST {
            alias,
            array_exprs: _,
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: _,
        } => table_alias(alias.as_ref()),
        TableFactor::NestedJoin { table_with_joins, alias } => {
            table_alias(alias.as_ref())?;
            joined(table_with_joins)
        }
        TableFactor::UNNEST { .. } => Err(Error::unsupported("UNNEST ... WITH OFFSET")),
        TableFactor::TableFunction { .. } => Err(Error::unsupported("TABLE(...)")),
        TableFactor::JsonTable { .. } => Err(Error::unsupported("JSON_TABLE")),
        TableFactor::OpenJsonTable { .. } => Err(Error::unsupported("OPENJSON")),
        TableFactor::Pivot { .. } => Err(Error::unsupported("PIVOT")),
        TableFactor::Unpivot { .. } => Err(Error::unsupported("UNPIVOT")),
        TableFactor::MatchRecognize { .. } => Err(Error::unsupported("MATCH_RECOGNIZE")),
        TableFactor::XmlTable { .. } => Err(Error::unsupported("XMLTABLE")),
        TableFactor::SemanticView { .. } => Err(Error::unsupported("SEMANTIC_VIEW")),
    }
}

pub(super) fn expression(expr: &Expr) -> Result<()> {
    match expr {
        Expr::Function(function) => call(function),
        Expr::RLike { .. } => Err(Error::unsupported("RLIKE or REGEXP").with_hint("Use ~.")),
        Expr::Convert { .. } => Err(Error::unsupported("CONVERT").with_hint("Use CAST.")),
        Expr::Cast { kind: _, expr: _, data_type: _, array, format } => {
            absent([(*array, "CAST ... ARRAY"), (format.is_some(), "CAST ... FORMAT")])
        }
        Expr::MatchAgainst { .. } => Err(Error::unsupported("MATCH ... AGAINST")),
        Expr::MemberOf(_) => Err(Error::unsupported("MEMBER OF")),
        Expr::Prior(_) => Err(Error::unsupported("PRIOR")),
        Expr::OuterJoin(_) => Err(Error::unsupported("(+)")),
        Expr::JsonAccess { .. } => Err(Error::unsupported("a path behind a colon")),
        Expr::Lambda(_) => Err(Error::unsupported("a lambda function")),
        _ => Ok(()),
    }
}

fn call(function: &Function) -> Result<()> {
    let Function {
        name: _,
        uses_odbc_syntax,
        parameters,
        args,
        filter: _,
        null_treatment: _,
        over,
        within_group: _,
    } = function;
    absent([
        (*uses_odbc_syntax, "{fn ...}"),
        (*parameters != FunctionArguments::None, "parameters in front of arguments"),
    ])?;
    super::calls::check(function)?;
    if let FunctionArguments::List(list) = args {
        let FunctionArgumentList { duplicate_treatment, args: _, clauses: _ } = list;
        absent([(
            over.is_some() && duplicate_treatment.is_some_and(is_distinct),
            "DISTINCT for window functions",
        )])?;
    }
    if let Some(WindowType::WindowSpec(spec)) = over {
        let WindowSpec { window_name: _, partition_by: _, order_by, window_frame: _ } = spec;
        in_order(order_by)?;
    }
    Ok(())
}

fn is_distinct(treatment: DuplicateTreatment) -> bool {
    treatment == DuplicateTreatment::Distinct
}
