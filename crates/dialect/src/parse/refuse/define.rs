//! Clauses of `CREATE`, `ALTER TABLE` and `ANALYZE`. The patterns name every field of the parser's
//! tree.

use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, Analyze, CheckConstraint, ColumnDef,
    ColumnOption, ColumnOptionDef, ConstraintCharacteristics, CreateIndex, CreateTable,
    CreateTableLikeKind, CreateTableOptions, CreateView, DeferrableInitial, HiveDistributionStyle,
    HiveFormat, Ident, IndexColumn, NullsDistinctOption, OrderByExpr, PrimaryKeyConstraint,
    RenameTableNameKind, TableConstraint, UniqueConstraint, ViewColumnDef,
};
use thalweg_types::{Error, Result};

use super::absent;
use crate::parse::{altered_identity, altered_sequence, identity_option};
use crate::rewrite::check_collation;

pub(super) fn table(create: &CreateTable) -> Result<()> {
    #[rustfmt::skip]
    let CreateTable {
        or_replace: _, temporary: _, external, dynamic, global: _, if_not_exists: _,
        transient, volatile, iceberg, snapshot, name: _, columns, constraints,
        hive_distribution, hive_formats, table_options, file_format, location, query: _,
        without_rowid, like, clone, version, comment, on_commit: _, on_cluster,
        primary_key, order_by, partition_by: _, cluster_by, clustered_by, inherits: _,
        partition_of: _, for_values: _, strict, copy_grants, enable_schema_evolution,
        change_tracking, data_retention_time_in_days, max_data_extension_time_in_days,
        default_ddl_collation, with_aggregation_policy, with_row_access_policy,
        with_storage_lifecycle_policy, with_tags, external_volume, base_location,
        catalog, catalog_sync, storage_serialization_policy, target_lag, warehouse,
        refresh_mode, initialize, require_user, diststyle, distkey, sortkey, backup,
    } = create;
    absent([
        (*external, "CREATE EXTERNAL TABLE without a location"),
        (*dynamic, "DYNAMIC"),
        (*transient, "TRANSIENT"),
        (*volatile, "VOLATILE"),
        (*iceberg, "ICEBERG"),
        (*snapshot, "SNAPSHOT"),
        (!matches!(hive_distribution, HiveDistributionStyle::NONE), "PARTITIONED BY"),
        (hive_formats.as_ref().is_some_and(has_hive_format), "STORED AS or LOCATION"),
        (file_format.is_some(), "STORED AS"),
        (location.is_some(), "LOCATION"),
        (*without_rowid, "WITHOUT ROWID"),
        (matches!(like, Some(CreateTableLikeKind::Plain(_))), "LIKE without parentheses"),
        (clone.is_some(), "CLONE"),
        (version.is_some(), "a version of a table"),
        (comment.is_some(), "COMMENT"),
        (on_cluster.is_some(), "ON CLUSTER"),
        (primary_key.is_some(), "PRIMARY KEY behind the columns"),
        (order_by.is_some(), "ORDER BY in CREATE TABLE"),
        (cluster_by.is_some(), "CLUSTER BY"),
        (clustered_by.is_some(), "CLUSTERED BY"),
        (*strict, "STRICT"),
        (*copy_grants, "COPY GRANTS"),
    ])?;
    absent([
        (enable_schema_evolution.is_some(), "ENABLE_SCHEMA_EVOLUTION"),
        (change_tracking.is_some(), "CHANGE_TRACKING"),
        (data_retention_time_in_days.is_some(), "DATA_RETENTION_TIME_IN_DAYS"),
        (max_data_extension_time_in_days.is_some(), "MAX_DATA_EXTENSION_TIME_IN_DAYS"),
        (default_ddl_collation.is_some(), "DEFAULT_DDL_COLLATION"),
        (with_aggregation_policy.is_some(), "AGGREGATION POLICY"),
        (with_row_access_policy.is_some(), "ROW ACCESS POLICY"),
        (with_storage_lifecycle_policy.is_some(), "STORAGE LIFECYCLE POLICY"),
        (with_tags.is_some(), "TAG"),
        (external_volume.is_some(), "EXTERNAL_VOLUME"),
        (base_location.is_some(), "BASE_LOCATION"),
        (catalog.is_some(), "CATALOG"),
        (catalog_sync.is_some(), "CATALOG_SYNC"),
        (storage_serialization_policy.is_some(), "STORAGE_SERIALIZATION_POLICY"),
        (target_lag.is_some(), "TARGET_LAG"),
        (warehouse.is_some(), "WAREHOUSE"),
        (refresh_mode.is_some(), "REFRESH_MODE"),
        (initialize.is_some(), "INITIALIZE"),
        (*require_user, "REQUIRE USER"),
        (diststyle.is_some(), "DISTSTYLE"),
        (distkey.is_some(), "DISTKEY"),
        (sortkey.is_some(), "SORTKEY"),
        (backup.is_some(), "BACKUP"),
    ])?;
    options(table_options)?;
    columns.iter().try_for_each(column)?;
    constraints.iter().try_for_each(constraint)
}

fn options(options: &CreateTableOptions) -> Result<()> {
    absent([
        (matches!(options, CreateTableOptions::Options(_)), "OPTIONS"),
        (matches!(options, CreateTableOptions::TableProperties(_)), "TBLPROPERTIES"),
    ])
}

fn has_hive_format(format: &HiveFormat) -> bool {
    let HiveFormat { row_format, serde_properties, storage, location } = format;
    row_format.is_some() || serde_properties.is_some() || storage.is_some() || location.is_some()
}

pub(super) fn column(column: &ColumnDef) -> Result<()> {
    let ColumnDef { name: _, data_type: _, options } = column;
    options.iter().try_for_each(|ColumnOptionDef { name: _, option }| match option {
        ColumnOption::Null
        | ColumnOption::NotNull
        | ColumnOption::Default(_)
        | ColumnOption::ForeignKey(_) => Ok(()),
        option if identity_option(option).is_some() => Ok(()),
        ColumnOption::Generated { .. } => Err(Error::unsupported("a computed column")),
        ColumnOption::PrimaryKey(key) => primary_key(key),
        ColumnOption::Unique(key) => unique(key),
        ColumnOption::Check(check) => checked(check),
        ColumnOption::Collation(collation) => check_collation(collation),
        ColumnOption::Comment(_) => Err(Error::unsupported("COMMENT")),
        ColumnOption::Materialized(_) => Err(Error::unsupported("MATERIALIZED")),
        ColumnOption::Ephemeral(_) => Err(Error::unsupported("EPHEMERAL")),
        ColumnOption::Alias(_) => Err(Error::unsupported("ALIAS")),
        ColumnOption::CharacterSet(_) => Err(Error::unsupported("CHARACTER SET")),
        ColumnOption::OnUpdate(_) => Err(Error::unsupported("ON UPDATE")),
        ColumnOption::Options(_) => Err(Error::unsupported("OPTIONS")),
        ColumnOption::Identity(_) => Err(Error::unsupported("IDENTITY in place of GENERATED")),
        ColumnOption::OnConflict(_) => Err(Error::unsupported("ON CONFLICT in a column")),
        ColumnOption::Policy(_) => Err(Error::unsupported("POLICY")),
        ColumnOption::Tags(_) => Err(Error::unsupported("TAG")),
        ColumnOption::Srid(_) => Err(Error::unsupported("SRID")),
        ColumnOption::Invisible => Err(Error::unsupported("INVISIBLE")),
        ColumnOption::DialectSpecific(tokens) => {
            let words: Vec<String> = tokens.iter().map(ToString::to_string).collect();
            Err(Error::unsupported(words.join(" ")))
        }
    })
}

fn constraint(constraint: &TableConstraint) -> Result<()> {
    match constraint {
        TableConstraint::PrimaryKey(key) => primary_key(key),
        TableConstraint::Unique(key) => unique(key),
        TableConstraint::Check(check) => checked(check),
        TableConstraint::ForeignKey(key) => {
            absent([(key.index_name.is_some(), "the name of a foreign key's index")])
        }
        // Refused where the table is made.
        _ => Ok(()),
    }
}

fn checked(check: &CheckConstraint) -> Result<()> {
    let CheckConstraint { name: _, expr: _, enforced } = check;
    absent([(*enforced == Some(false), "NOT ENFORCED"), (enforced.is_some(), "ENFORCED")])
}

fn primary_key(key: &PrimaryKeyConstraint) -> Result<()> {
    let PrimaryKeyConstraint {
        name: _,
        index_name,
        index_type,
        columns,
        index_options,
        characteristics,
    } = key;
    keyed(index_name.as_ref(), index_type.is_some(), !index_options.is_empty(), columns)?;
    enforced(characteristics.as_ref())
}

fn unique(key: &UniqueConstraint) -> Result<()> {
    let UniqueConstraint {
        name: _,
        index_name,
        index_type_display: _,
        index_type,
        columns,
        index_options,
        characteristics,
        nulls_distinct,
    } = key;
    absent([(*nulls_distinct == NullsDistinctOption::NotDistinct, "NULLS NOT DISTINCT")])?;
    keyed(index_name.as_ref(), index_type.is_some(), !index_options.is_empty(), columns)?;
    enforced(characteristics.as_ref())
}

fn keyed(
    name: Option<&Ident>,
    has_type: bool,
    options: bool,
    columns: &[IndexColumn],
) -> Result<()> {
    absent([
        (name.is_some(), "the name of a key's index"),
        (has_type, "the type of a key's index"),
        (options, "an option of a key's index"),
    ])?;
    columns.iter().try_for_each(|column| {
        let IndexColumn { column: OrderByExpr { expr: _, options, with_fill }, operator_class } =
            column;
        absent([
            (options.asc.is_some() || options.nulls_first.is_some(), "an order in a key"),
            (with_fill.is_some(), "WITH FILL"),
            (operator_class.is_some(), "an operator class in a key"),
        ])
    })
}

fn enforced(characteristics: Option<&ConstraintCharacteristics>) -> Result<()> {
    let Some(ConstraintCharacteristics { deferrable, initially, enforced }) = characteristics
    else {
        return Ok(());
    };
    absent([
        (*enforced == Some(false), "NOT ENFORCED"),
        (*deferrable == Some(true), "DEFERRABLE"),
        (*initially == Some(DeferrableInitial::Deferred), "INITIALLY DEFERRED"),
    ])
}

pub(super) fn index(create: &CreateIndex) -> Result<()> {
    let CreateIndex {
        name: _,
        table_name: _,
        // Looked at where the index is made, as are the operator classes.
        using: _,
        columns,
        unique: _,
        concurrently: _,
        if_not_exists: _,
        include: _,
        nulls_distinct: _,
        with: _,
        predicate: _,
        index_options,
        alter_options,
    } = create;
    absent([
        (!index_options.is_empty(), "an option of CREATE INDEX"),
        (!alter_options.is_empty(), "ALGORITHM or LOCK"),
    ])?;
    columns.iter().try_for_each(|IndexColumn { column, operator_class: _ }| {
        let OrderByExpr { expr: _, options: _, with_fill } = column;
        absent([(with_fill.is_some(), "WITH FILL")])
    })
}

pub(super) fn view(create: &CreateView) -> Result<()> {
    let CreateView {
        or_alter,
        or_replace: _,
        materialized: _,
        secure,
        name: _,
        name_before_not_exists: _,
        columns,
        query: _,
        options: _,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists: _,
        temporary: _,
        copy_grants,
        to,
        params,
    } = create;
    absent([
        (*or_alter, "CREATE OR ALTER"),
        (*secure, "SECURE"),
        (!cluster_by.is_empty(), "CLUSTER BY"),
        (comment.is_some(), "COMMENT"),
        (*with_no_schema_binding, "WITH NO SCHEMA BINDING"),
        (*copy_grants, "COPY GRANTS"),
        (to.is_some(), "TO in CREATE VIEW"),
        (params.is_some(), "ALGORITHM, DEFINER or SQL SECURITY"),
    ])?;
    columns.iter().try_for_each(|ViewColumnDef { name: _, data_type, options }| {
        absent([
            (data_type.is_some(), "the type of a view's column"),
            (options.is_some(), "an option of a view's column"),
        ])
    })
}

pub(super) fn alter(alter: &AlterTable) -> Result<()> {
    let AlterTable {
        name: _,
        if_exists: _,
        // Tables have no children here.
        only: _,
        operations,
        location,
        on_cluster,
        table_type,
        end_token: _,
    } = alter;
    absent([
        (location.is_some(), "LOCATION"),
        (on_cluster.is_some(), "ON CLUSTER"),
        (table_type.is_some(), "ALTER of a table of another kind"),
    ])?;
    if altered_sequence(alter).is_some() || altered_identity(alter).is_some() {
        return Ok(());
    }
    operations.iter().try_for_each(operation)
}

/// Every field of the operations that Thalweg runs. Others are refused by their names.
fn operation(operation: &AlterTableOperation) -> Result<()> {
    match operation {
        AlterTableOperation::AddColumn {
            column_keyword: _,
            if_not_exists: _,
            column_def,
            column_position,
        } => {
            absent([(column_position.is_some(), "FIRST or AFTER")])?;
            column(column_def)
        }
        AlterTableOperation::AddConstraint { constraint: added, not_valid } => {
            let refuses = !matches!(added, TableConstraint::ForeignKey(_));
            absent([(*not_valid && refuses, "NOT VALID")])?;
            constraint(added)
        }
        // Without a behaviour the statement restricts; where the statement runs it looks for what
        // depends on the column or the constraint.
        AlterTableOperation::DropColumn {
            has_column_keyword: _,
            column_names: _,
            if_exists: _,
            drop_behavior: _,
        }
        | AlterTableOperation::DropConstraint { if_exists: _, name: _, drop_behavior: _ }
        | AlterTableOperation::ValidateConstraint { name: _ }
        | AlterTableOperation::RenameColumn { old_column_name: _, new_column_name: _ }
        | AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(_) }
        | AlterTableOperation::OwnerTo { new_owner: _ } => Ok(()),
        AlterTableOperation::AlterColumn { column_name: _, op } => match op {
            AlterColumnOperation::SetNotNull
            | AlterColumnOperation::DropNotNull
            | AlterColumnOperation::SetDefault { value: _ }
            | AlterColumnOperation::DropDefault
            | AlterColumnOperation::SetDataType { data_type: _, using: _, had_set: _ } => Ok(()),
            AlterColumnOperation::AddGenerated { generated_as: _, sequence_options: _ } => {
                Err(Error::unsupported("ALTER COLUMN ... ADD GENERATED"))
            }
        },
        other => Err(Error::unsupported(format!("ALTER TABLE ... {other}"))),
    }
}

pub(super) fn analyze(analyze: &Analyze) -> Result<()> {
    let Analyze {
        table_name: _,
        partitions,
        for_columns,
        columns: _,
        cache_metadata,
        noscan,
        compute_statistics,
        has_table_keyword,
    } = analyze;
    absent([
        (partitions.is_some(), "ANALYZE ... PARTITION"),
        (*for_columns, "ANALYZE ... FOR COLUMNS"),
        (*cache_metadata, "ANALYZE ... CACHE METADATA"),
        (*noscan, "ANALYZE ... NOSCAN"),
        (*compute_statistics, "ANALYZE ... COMPUTE STATISTICS"),
        (*has_table_keyword, "ANALYZE TABLE"),
    ])
}
