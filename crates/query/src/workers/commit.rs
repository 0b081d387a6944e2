//! Commits a gateway's transaction: definitions first, then changes of rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_txn::{Catalog, CatalogChange, Durability, Transaction, no_table};
use thalweg_types::{Column, ColumnId, Error, Result, SqlState, TableSchema};

use super::{
    AtomicScope, Cluster, Definition, DefinitionQuorum, Load, NAMESPACE, Write, journal,
    lies_on_workers,
};
use crate::database::DatabaseShared;

/// Commits a transaction of a gateway.
pub(crate) async fn commit(
    shared: &Arc<DatabaseShared>,
    cluster: &Arc<Cluster>,
    mut transaction: Transaction,
    atomic_scope: AtomicScope,
    durability: Durability,
) -> Result<()> {
    let writes = take_writes(&mut transaction)?;
    let changes = transaction.catalog_changes();
    let alters = |change: &CatalogChange| match change {
        CatalogChange::AlterTable { schema, .. } => {
            let rewritten =
                |write: &Write| write.changes.table == schema.id && !write.changes.kill.is_empty();
            writes.iter().any(rewritten)
        }
        _ => false,
    };
    if changes.iter().any(alters) {
        return Err(Error::unsupported("ALTER TABLE that rewrites rows in a cluster")
            .with_hint("Create a new table and copy the rows."));
    }
    if changes.is_empty() {
        are_current(&writes, transaction.snapshot().catalog(), shared.engine.snapshot().catalog())?;
        shared.commit_here(transaction, durability).await?;
    } else {
        define(shared, cluster, transaction, &changes, durability).await?;
    }
    match writes.is_empty() {
        true => Ok(()),
        false => cluster.writes.write(writes, atomic_scope, durability).await,
    }
}

/// Commits a statement of a gateway that only adds rows, most of which were sent before.
pub(crate) async fn commit_load(
    shared: &Arc<DatabaseShared>,
    load: Box<dyn Load>,
    mut transaction: Transaction,
    durability: Durability,
) -> Result<()> {
    let writes = take_writes(&mut transaction)?;
    if !transaction.catalog_changes().is_empty() {
        return Err(Error::internal("a load defines nothing"));
    }
    are_current(&writes, transaction.snapshot().catalog(), shared.engine.snapshot().catalog())?;
    shared.commit_here(transaction, durability).await?;
    // If the caller is gone, some workers may have done their parts already, so this runs to its
    // end.
    shared.planners.executor().to_its_end(load.finish(writes, durability)).await
}

/// Takes a transaction's changes to rows on workers out of it.
///
/// # Errors
/// If it changed other rows.
fn take_writes(transaction: &mut Transaction) -> Result<Vec<Write>> {
    let catalog = Arc::clone(transaction.catalog());
    let on_workers =
        |id| catalog.table(id).is_some_and(|entry| lies_on_workers(entry.schema.as_ref()));
    let mut writes = Vec::new();
    for changes in transaction.take_rows(on_workers)? {
        let entry = catalog.table(changes.table).ok_or_else(|| no_table("of this statement"))?;
        writes.push(Write { table: Arc::clone(&entry.schema), changes });
    }
    match transaction.take_rows(|_| true)?.is_empty() {
        true => Ok(writes),
        false => Err(the_clusters_own()),
    }
}

/// # Errors
/// If the rows of a table were made and checked for another definition of it. On a single node, the
/// log's threads notice that.
fn are_current(writes: &[Write], before: &Catalog, now: &Catalog) -> Result<()> {
    for Write { table, .. } in writes {
        let version = |catalog: &Catalog| catalog.table(table.id).map(|entry| entry.version);
        if version(before) != version(now) {
            let message = format!("table \"{}\" was altered meanwhile", table.name);
            return Err(Error::new(SqlState::SERIALIZATION_FAILURE, message)
                .with_hint("Run the transaction again."));
        }
    }
    Ok(())
}

/// Commits the definitions of a transaction. The gateway's own log decides. A reachable worker that
/// cannot follow objects before; an unreachable one follows when it is back.
async fn define(
    shared: &Arc<DatabaseShared>,
    cluster: &Arc<Cluster>,
    mut transaction: Transaction,
    changes: &[CatalogChange],
    durability: Durability,
) -> Result<()> {
    let before = Arc::clone(transaction.snapshot().catalog());
    for change in changes {
        may_define(&before, change)?;
    }
    let looks = changes.iter().any(|change| looks_at_rows(&before, change));
    let quorum = if looks { DefinitionQuorum::Owners } else { DefinitionQuorum::Reachable };
    let turn = Arc::clone(&shared.defining).lock_owned().await;
    let number = shared.definitions.load(Ordering::Acquire) + 1;
    let definition = Definition::new(number, changes);
    cluster.definitions.can_define(&definition, quorum).await?;
    journal::append(&mut transaction, &definition)?;
    // From here on the log decides, and all nodes are informed even if the caller is gone.
    let (deciding, cluster) = (Arc::clone(shared), Arc::clone(cluster));
    let decided = async move {
        let _turn = turn;
        deciding.commit_here(transaction, durability).await?;
        deciding.definitions.store(number, Ordering::Release);
        cluster.definitions.define(&definition).await;
        Ok::<_, Error>(())
    };
    shared.planners.executor().to_its_end(decided).await
}

/// # Errors
/// If the change is possible on a single node only.
fn may_define(before: &Catalog, change: &CatalogChange) -> Result<()> {
    match change {
        CatalogChange::CreateNamespace { name } | CatalogChange::DropNamespace { name }
            if name == NAMESPACE =>
        {
            Err(the_clusters_own())
        }
        CatalogChange::CreateTable { schema } | CatalogChange::AlterTable { schema, .. }
            if !lies_on_workers(schema) =>
        {
            Err(the_clusters_own())
        }
        CatalogChange::DropTable { id }
            if before.table(*id).is_some_and(|was| !lies_on_workers(&was.schema)) =>
        {
            Err(the_clusters_own())
        }
        CatalogChange::CreateTable { schema } => keys_hold(schema),
        CatalogChange::AlterTable { schema, .. } => {
            keys_hold(schema)?;
            before.table(schema.id).map_or(Ok(()), |was| stays_in_place(&was.schema, schema))
        }
        _ => Ok(()),
    }
}

/// True if existing rows may conflict with a change: new keys, new checks, and columns that no
/// longer allow NULL.
fn looks_at_rows(before: &Catalog, change: &CatalogChange) -> bool {
    let CatalogChange::AlterTable { schema, .. } = change else { return false };
    // A table of the same transaction has no existing rows.
    let Some(was) = before.table(schema.id).map(|entry| &entry.schema) else { return false };
    let has_key = |columns: &[ColumnId]| was.keys().any(|key| key.columns.as_slice() == columns);
    let has_check = |name: &str| was.checks.iter().any(|check| check.name == name);
    let had_nulls = |column: &Column| match was.position(column.id) {
        Some(place) => was.columns[place].nullable,
        None => column.default.is_none(),
    };
    schema.keys().any(|key| !has_key(&key.columns))
        || schema.checks.iter().any(|check| !has_check(&check.name))
        || schema.columns.iter().any(|column| !column.nullable && had_nulls(column))
}

fn the_clusters_own() -> Error {
    let message = format!("permission denied for schema {NAMESPACE}");
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
        .with_detail("What is in it belongs to the cluster.")
}

/// Refuses keys without the shard key: equal keys must be on one worker to be noticed.
fn keys_hold(table: &TableSchema) -> Result<()> {
    for key in table.keys() {
        if table.shard_key.is_some_and(|column| key.columns.contains(&column)) {
            continue;
        }
        let message = format!(
            "the key \"{}\" of table \"{}\" does not contain the shard key, which a cluster needs",
            key.name, table.name
        );
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
            "Rows with equal keys must meet on one worker: name a column of every key with WITH \
             (shard_key = '...').",
        ));
    }
    Ok(())
}

/// Refuses a change of the shard key, since rows cannot move between workers yet.
fn stays_in_place(before: &TableSchema, after: &TableSchema) -> Result<()> {
    if before.shard_key == after.shard_key {
        return Ok(());
    }
    let message = format!("the shard key of table \"{}\" cannot change in a cluster", after.name);
    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_hint("Create a new table with the other key and copy the rows."))
}
