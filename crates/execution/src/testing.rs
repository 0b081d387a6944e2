//! Sessions for tests.

use datafusion::execution::session_state::SessionStateBuilder;
use thalweg_dialect::passes::{PASSES, Passes};

/// A session with the passes that need no table of ours.
pub(crate) fn with_passes_of_dialect(builder: SessionStateBuilder) -> SessionStateBuilder {
    let placed = PASSES.iter().filter_map(|pass| pass.placed(&(), false));
    Passes::assemble(placed).expect("all passes have positions").install(builder)
}
