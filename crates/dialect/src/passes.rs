//! Passes over plans: rows of a table, and the lists of passes that are assembled from it.
//!
//! DataFusion has three lists of passes: analyzer rules and optimizer rules over logical plans, and
//! rules over physical plans. Each pass of ours is a row ([`Pass`]) with its position in one of
//! these lists and the reason for the pass. The rows of this crate are [`PASSES`]; crates above add
//! rows of the same type. [`Passes::assemble`] puts all rows into their positions.
//!
//! Several rows with one position run in the order of the table. An upgrade of DataFusion may
//! remove or rename the pass that a row refers to. Assembling then fails, and names every such row.

mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use datafusion::DATAFUSION_VERSION;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use thalweg_types::Error;

pub use self::table::PASSES;

/// A rule of the analyzer.
pub type AnalyzerPass = Arc<dyn AnalyzerRule + Send + Sync>;
/// A rule of the optimizer of logical plans.
pub type LogicalPass = Arc<dyn OptimizerRule + Send + Sync>;
/// A rule over physical plans.
pub type PhysicalPass = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// A row of the table of passes. `C` is what the pass is made from.
pub struct Pass<C: ?Sized + 'static = ()> {
    /// The name of the pass in plans of `EXPLAIN VERBOSE`. A guard has a name in the table only.
    pub name: &'static str,
    pub kind: Kind,
    pub position: Position,
    pub nodes: Nodes,
    /// Why the pass exists, in one sentence.
    pub reason: &'static str,
    pub upstream: Upstream,
    /// Makes the pass; `None` if the context has no such pass.
    pub rule: fn(&C) -> Option<Rule>,
}

/// The list that a pass belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Analyzer,
    Logical,
    Physical,
}

/// The position of a pass among the passes of its kind. Anchors are names of passes, of DataFusion
/// or of earlier rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    First,
    Last,
    Before(&'static str),
    After(&'static str),
    /// The position of a guard, which replaces the anchor and calls it.
    Around(&'static str),
}

/// The nodes whose planners have a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    All,
    /// Nodes that hold the rows of their tables.
    Local,
    /// Gateways, whose rows are on workers.
    Gateway,
}

/// The discussion of the reason for a pass in the project whose behaviour the pass corrects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// Links to issues or pull requests.
    Links(&'static [&'static str]),
    /// A search found no issue.
    NoneFound,
}

/// A pass, or a guard around one.
#[derive(Clone)]
pub enum Rule {
    Analyzer(AnalyzerPass),
    Logical(LogicalPass),
    LogicalGuard(fn(LogicalPass) -> LogicalPass),
    Physical(PhysicalPass),
    PhysicalGuard(fn(PhysicalPass) -> PhysicalPass),
}

/// A row whose pass was made, without the columns for readers.
#[derive(Clone)]
pub struct Placed {
    pub name: &'static str,
    pub position: Position,
    pub rule: Rule,
}

/// The lists of passes of a planner.
#[derive(Debug)]
pub struct Passes {
    pub analyzer: Vec<AnalyzerPass>,
    pub logical: Vec<LogicalPass>,
    pub physical: Vec<PhysicalPass>,
}

impl<C: ?Sized> Pass<C> {
    /// Makes the pass for planners of gateways (`is_gateway`), or of nodes with rows. `None` if
    /// they do not have it.
    #[must_use]
    pub fn placed(&self, context: &C, is_gateway: bool) -> Option<Placed> {
        let is_here = match self.nodes {
            Nodes::All => true,
            Nodes::Local => !is_gateway,
            Nodes::Gateway => is_gateway,
        };
        let rule = (self.rule)(context).filter(|_| is_here)?;
        Some(Placed { name: self.name, position: self.position, rule })
    }
}

impl Rule {
    /// The list that the pass belongs to.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Rule::Analyzer(_) => Kind::Analyzer,
            Rule::Logical(_) | Rule::LogicalGuard(_) => Kind::Logical,
            Rule::Physical(_) | Rule::PhysicalGuard(_) => Kind::Physical,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Analyzer => "analyzer",
            Kind::Logical => "logical",
            Kind::Physical => "physical",
        })
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Nodes::All => "all",
            Nodes::Local => "with rows",
            Nodes::Gateway => "gateways",
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::First => f.write_str("first"),
            Position::Last => f.write_str("last"),
            Position::Before(anchor) => write!(f, "before {anchor}"),
            Position::After(anchor) => write!(f, "after {anchor}"),
            Position::Around(anchor) => write!(f, "around {anchor}"),
        }
    }
}

impl Passes {
    /// DataFusion's passes with these rows in their positions.
    ///
    /// # Errors
    /// If rows have positions that do not exist. The error names all of them.
    pub fn assemble(rows: impl IntoIterator<Item = Placed>) -> Result<Passes, MisplacedPasses> {
        let mut analyzer = List::new(Analyzer::new().rules, |rule| rule.name());
        let mut logical = List::new(Optimizer::new().rules, |rule| rule.name());
        let mut physical = List::new(PhysicalOptimizer::new().rules, |rule| rule.name());
        let mut misplaced = Vec::new();
        for Placed { name, position, rule } in rows {
            let placed = match rule {
                Rule::Analyzer(rule) => analyzer.insert(position, rule),
                Rule::Logical(rule) => logical.insert(position, rule),
                Rule::LogicalGuard(guard) => logical.wrap(position, guard),
                Rule::Physical(rule) => physical.insert(position, rule),
                Rule::PhysicalGuard(guard) => physical.wrap(position, guard),
            };
            if let Err(fault) = placed {
                misplaced.push(Misplaced { pass: name, position, fault });
            }
        }
        match misplaced.is_empty() {
            true => Ok(Passes {
                analyzer: analyzer.into_rules(),
                logical: logical.into_rules(),
                physical: physical.into_rules(),
            }),
            false => Err(MisplacedPasses(misplaced)),
        }
    }

    /// Sets the lists of passes of a planner.
    #[must_use]
    pub fn install(self, builder: SessionStateBuilder) -> SessionStateBuilder {
        builder
            .with_analyzer_rules(self.analyzer)
            .with_optimizer_rules(self.logical)
            .with_physical_optimizer_rules(self.physical)
    }
}

/// One list of passes that rows are inserted into.
struct List<R> {
    slots: Vec<Slot<R>>,
    name: fn(&R) -> &str,
}

struct Slot<R> {
    rule: R,
    /// The position of the row that the pass came from; `None` for a pass of DataFusion.
    position: Option<Position>,
}

impl<R: Clone> List<R> {
    fn new(rules: Vec<R>, name: fn(&R) -> &str) -> List<R> {
        let slots = rules.into_iter().map(|rule| Slot { rule, position: None }).collect();
        List { slots, name }
    }

    fn insert(&mut self, position: Position, rule: R) -> Result<(), Fault> {
        let is_after = |slot: &Slot<R>| slot.position == Some(position);
        let place = match position {
            Position::First => self.slots.iter().take_while(|slot| is_after(slot)).count(),
            Position::Last => self.slots.len(),
            Position::Before(anchor) => self.find(anchor)?,
            Position::After(anchor) => {
                let first = self.find(anchor)? + 1;
                first + self.slots[first..].iter().take_while(|slot| is_after(slot)).count()
            }
            Position::Around(_) => return Err(Fault::NoGuard),
        };
        self.slots.insert(place, Slot { rule, position: Some(position) });
        Ok(())
    }

    fn wrap(&mut self, position: Position, guard: fn(R) -> R) -> Result<(), Fault> {
        let Position::Around(anchor) = position else { return Err(Fault::GuardOfNone) };
        let place = self.find(anchor)?;
        let slot = &mut self.slots[place];
        slot.rule = guard(slot.rule.clone());
        Ok(())
    }

    fn find(&self, anchor: &str) -> Result<usize, Fault> {
        let mut found =
            (0..self.slots.len()).filter(|place| (self.name)(&self.slots[*place].rule) == anchor);
        let first = found.next().ok_or(Fault::NoAnchor)?;
        match found.next() {
            None => Ok(first),
            Some(_) => Err(Fault::SeveralAnchors),
        }
    }

    fn into_rules(self) -> Vec<R> {
        self.slots.into_iter().map(|slot| slot.rule).collect()
    }
}

/// Rows whose positions do not exist.
#[derive(Debug, PartialEq, Eq)]
pub struct MisplacedPasses(Vec<Misplaced>);

#[derive(Debug, PartialEq, Eq)]
struct Misplaced {
    pass: &'static str,
    position: Position,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    NoAnchor,
    SeveralAnchors,
    /// A pass that is no guard stands around another pass.
    NoGuard,
    /// A guard does not stand around a pass.
    GuardOfNone,
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Misplaced { pass, position, fault } = self;
        write!(f, "pass {pass} wants to stand {position}, ")?;
        match fault {
            Fault::NoAnchor => write!(f, "which DataFusion {DATAFUSION_VERSION} does not have"),
            Fault::SeveralAnchors => {
                write!(f, "which DataFusion {DATAFUSION_VERSION} has several times")
            }
            Fault::NoGuard => f.write_str("but is no guard"),
            Fault::GuardOfNone => f.write_str("but is a guard"),
        }
    }
}

impl fmt::Display for MisplacedPasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, misplaced) in self.0.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}{misplaced}")?;
        }
        Ok(())
    }
}

impl std::error::Error for MisplacedPasses {}

impl From<MisplacedPasses> for Error {
    fn from(misplaced: MisplacedPasses) -> Error {
        Error::internal(misplaced.to_string())
    }
}
