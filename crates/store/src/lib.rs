//! Tables in memory: chunks, keys, versions, compaction.
//!
//! A table has two halves. The writer's, [`Table`], belongs to the transaction thread. The
//! readers', [`TableState`], is a version that never changes: a snapshot is a clone of an `Arc` of
//! it. What the writer applies is noted in an [`Effect`], and either published to the readers' half
//! once it is durable, or undone.
//!
//! ```text
//!   Table::append / kill / …  ──►  Effect  ──►  Effect::publish ──►  Arc<TableState>  ──►  readers
//!                                         └──►  Table::undo
//! ```
//!
//! Rows lie in chunks of at most 65,536 rows. An [`OpenChunk`] grows while readers look at the rows
//! that their snapshot shows; a [`ClosedChunk`] is immutable, with zones and dictionaries. Dead
//! rows are marked in a [`Bitmap`] for each chunk and version.
//!
//! Promises: a `TableState` that somebody holds never changes; no reader waits for a writer, except
//! for the moment in which an index is changed; keys are unique among live rows; memory of dead
//! rows comes back through compaction ([`plan_compaction`]).
//!
//! Absent on purpose: I/O, time, threads, transactions. [`codec`] says how rows and chunks look as
//! bytes; where these go is somebody else's business.

#![deny(unsafe_code)]

mod arrow_types;
mod bitmap;
mod cell;
mod chunk;
mod closed;
pub mod codec;
mod compaction;
mod effect;
mod forward;
mod identity;
mod index;
mod open;
mod order;
mod overlay;
mod previous;
#[expect(unsafe_code, reason = "the one place where a writer and readers share memory")]
mod shared;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod widen;
mod workers;

pub use arrow_types::{TYPE_METADATA, arrow_schema, arrow_type};
pub use bitmap::Bitmap;
pub use chunk::Chunk;
pub use closed::{ClosedChunk, Codes, Dictionary, Zone};
pub use compaction::{Built, CompactionPlan, CompactionPolicy, plan_compaction};
pub use effect::Effect;
pub use identity::Identities;
pub use open::OpenChunk;
pub use order::{Hits, InOrder, KeyRange, is_ordered};
pub use state::{ChunkView, PRIVATE_CHUNKS, TableState};
pub use table::{
    Arrival, Demands, FullChunk, Piece, Placed, Put, Refusal, Refused, Table, key_text,
};
pub use workers::{ThisThread, Workers};
