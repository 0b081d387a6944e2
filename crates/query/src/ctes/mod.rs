//! `WITH` queries that are computed once and read several times.
//!
//! As in PostgreSQL, a `WITH` query is *materialised* where the statement refers to it more than
//! once or says `MATERIALIZED`; any other becomes part of the query that refers to it.
//!
//! - `marking`: a pass over the parsed statement that finds them and wraps them in a derived table
//!   of a reserved name.
//! - `relation`: plans such a derived table as the scan of a [`relation::MaterializedTable`].
//!   Passes over the statement's plan do not walk the table's own plan, so plans stay as large as
//!   the statement.
//! - `scan`: the operator. All scans of one `WITH` query share its rows, which are computed as far
//!   as a scan asks for them.

mod marking;
mod relation;
mod scan;

pub(crate) use marking::mark;
pub(crate) use relation::{MaterializedTable, register, visit_materialized};

/// The alias of a derived table that is computed once.
const MATERIALIZED: &str = "thalweg materialized";
