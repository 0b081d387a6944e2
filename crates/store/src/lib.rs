//! Tables in memory: chunks, keys, versions, compaction.
//!
//! A table has two halves. The writer's, [`Table`], belongs to the transaction thread. The
//! readers', [`TableState`], is an immutable version: a snapshot is a clone of an `Arc` of it. An
//! [`Effect`] records the changes that the writer applies. It is published to the readers' half
//! once it is durable, or undone.
//!
//! ```text
//!   Table::append / kill / …  ──►  Effect  ──►  Effect::publish ──►  Arc<TableState>  ──►  readers
//!                                         └──►  Table::undo
//! ```
//!
//! Rows lie in chunks of at most 65,536 rows. An [`OpenChunk`] grows while readers see the rows
//! that their snapshot shows; a [`ClosedChunk`] is immutable, with zones and dictionaries. A
//! [`Bitmap`] for each chunk and version marks dead rows.
//!
//! Invariants: a `TableState` never changes while it is shared; no reader waits for a writer,
//! except for the moment in which an index is changed; keys are unique among live rows; compaction
//! frees the memory of dead rows ([`plan_compaction`]).
//!
//! Absent on purpose: I/O, time, threads, transactions. [`codec`] defines the bytes of rows and
//! chunks; other crates write them.

#![deny(unsafe_code)]

mod bitmap;
mod cell;
mod chunk;
mod closed;
pub mod codec;
mod compaction;
mod effect;
mod fork_join;
mod forward;
mod identity;
mod index;
mod index_order;
mod open;
mod overlay;
mod previous;
#[expect(unsafe_code, reason = "the one place where a writer and readers share memory")]
mod shared;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod widen;

pub use bitmap::Bitmap;
pub use chunk::Chunk;
pub use closed::{ClosedChunk, Codes, ColumnHandle, Dictionary, Zone};
pub use compaction::{Built, CompactionPlan, CompactionPolicy, plan_compaction};
pub use effect::Effect;
pub use fork_join::{ForkJoin, ThisThread};
pub use identity::Identities;
pub use index_order::{Hits, InOrder, KeyRange, is_ordered};
pub use open::OpenChunk;
pub use state::{ChunkView, PRIVATE_CHUNKS, TableState};
pub use table::{
    Arrival, Demands, FullChunk, Piece, Placed, Put, Refusal, Refused, Table, key_text,
};
pub use thalweg_columns::{arrow_schema, arrow_type};
