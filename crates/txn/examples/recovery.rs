//! Measures the cost of opening a database: `cargo run --release -p thalweg-txn --example recovery
//! DIR`.
//!
//! In an empty directory it first loads TPC-H's lineitem, once to be recovered from the log alone
//! and once from a checkpoint; in a directory from an earlier run it only opens these databases.

#[path = "../../store/examples/line_items/mod.rs"]
mod line_items;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use line_items::{line_item_batch, line_item_schema};
use thalweg_env::{Clock, Env, RealClock};
use thalweg_store::ClosedChunk;
use thalweg_txn::{CatalogChange, DEFAULT_NAMESPACE, Durability, Engine, Options, Transaction};
use thalweg_types::{Result, RowId, TableSchema};
use tpchgen::generators::{LineItem, LineItemGenerator};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const OPENINGS: usize = 5;

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).map_or_else(|| "recovery".into(), PathBuf::from);
    for (name, with_checkpoint) in [("log", false), ("checkpoint", true)] {
        let path = directory.join(name);
        if !path.exists() {
            load(&path, with_checkpoint)?;
        }
        open(name, &path)?;
    }
    Ok(())
}

fn options(path: &Path) -> Options {
    // No checkpoint but the one asked for.
    Options { directory: Some(path.into()), checkpoint_bytes: u64::MAX, ..Options::default() }
}

fn load(path: &Path, with_checkpoint: bool) -> Result<()> {
    let engine = Engine::open(Env::real(), options(path))?;
    let schema = TableSchema {
        id: engine.allocate_table_id(),
        namespace: DEFAULT_NAMESPACE.to_owned(),
        ..TableSchema::clone(&line_item_schema())
    };
    let mut transaction = Transaction::new(engine.snapshot());
    transaction.change_catalog(CatalogChange::CreateTable { schema: schema.clone() })?;
    let items = LineItemGenerator::new(1.0, 1, 1).iter();
    let mut items = items.peekable();
    while items.peek().is_some() {
        let some: Vec<LineItem<'_>> = items.by_ref().take(RowId::CHUNK_ROWS).collect();
        let chunk = ClosedChunk::build(&schema, &line_item_batch(&schema, &some));
        transaction.append_staged(schema.id, engine.stage(Arc::new(chunk))?)?;
    }
    engine.commit_and_wait(transaction.into_write_set()?, Durability::Fsync)?;
    if with_checkpoint {
        engine.checkpoint()?;
    }
    engine.close()
}

fn open(name: &str, path: &Path) -> Result<()> {
    let clock = RealClock::new();
    let bytes = bytes_below(path) as f64;
    for _ in 0..OPENINGS {
        let started = clock.monotonic();
        let engine = Engine::open(Env::real(), options(path))?;
        let seconds = (clock.monotonic() - started).as_secs_f64();
        let snapshot = engine.snapshot();
        let rows: usize = snapshot.tables().map(|(_, state)| state.rows()).sum();
        println!(
            "{name}: {rows} rows in {seconds:.2} s, {:.2} M rows/s, {:.0} MB/s",
            rows as f64 / 1e6 / seconds,
            bytes / 1e6 / seconds
        );
        engine.close()?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "it looks at the directory's files")]
fn bytes_below(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let entries =
        entries.flatten().filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    entries.map(|(path, data)| if data.is_dir() { bytes_below(&path) } else { data.len() }).sum()
}
