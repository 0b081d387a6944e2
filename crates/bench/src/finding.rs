//! The findings of a workload, independent of their display.

use serde::{Deserialize, Serialize};

use crate::Samples;

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    Seconds,
    Megabytes,
    /// 1,024 bytes.
    Kibibytes,
    /// 1,048,576 bytes.
    Mebibytes,
    MegabytesPerSecond,
    RowsPerSecond,
    StatementsPerSecond,
    Count,
    /// A plain number that may have a fraction.
    Number,
}

/// The target for a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Wanted {
    /// Ours divided by the peer's is at most this.
    RatioAtMost(f64),
    /// Ours divided by the peer's is at least this.
    RatioAtLeast(f64),
    /// Ours is at most this.
    AtMost(f64),
    /// Ours is at least this.
    AtLeast(f64),
    /// No target; the number is shown for information.
    Nothing,
}

/// One measured thing, with a peer's measurements if there are any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub work: String,
    pub unit: Unit,
    pub ours: Samples,
    pub peer: Option<(String, Samples)>,
    pub wanted: Wanted,
    /// A sentence that helps to judge the number, or nothing.
    pub note: String,
}

impl Finding {
    /// A finding about Thalweg alone, without a peer, target or note.
    #[must_use]
    pub fn new(work: impl Into<String>, unit: Unit, ours: impl Into<Samples>) -> Finding {
        Finding {
            work: work.into(),
            unit,
            ours: ours.into(),
            peer: None,
            wanted: Wanted::Nothing,
            note: String::new(),
        }
    }

    /// Adds a peer's measurements; if there are none, the peer is not installed.
    #[must_use]
    pub fn beside(mut self, peer: &str, samples: Samples) -> Finding {
        self.peer = (!samples.is_empty()).then(|| (peer.to_owned(), samples));
        self
    }

    /// Sets the target that the finding is compared with.
    #[must_use]
    pub fn wanted(mut self, wanted: Wanted) -> Finding {
        self.wanted = wanted;
        self
    }

    /// Sets the note of the finding.
    #[must_use]
    pub fn noted(mut self, note: impl Into<String>) -> Finding {
        self.note = note.into();
        self
    }

    /// Ratio of our median to the peer's; `None` without a peer, or if its median is zero.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let (_, peer) = self.peer.as_ref()?;
        (peer.median() != 0.0).then(|| self.ours.median() / peer.median())
    }

    /// True if the number meets its target; `None` if this cannot be decided.
    #[must_use]
    pub fn reached(&self) -> Option<bool> {
        match self.wanted {
            Wanted::RatioAtMost(bound) => self.ratio().map(|ratio| ratio <= bound),
            Wanted::RatioAtLeast(bound) => self.ratio().map(|ratio| ratio >= bound),
            Wanted::AtMost(bound) => Some(self.ours.median() <= bound),
            Wanted::AtLeast(bound) => Some(self.ours.median() >= bound),
            Wanted::Nothing => None,
        }
    }
}

/// Numbers as functions of another one, as lines of a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    pub title: String,
    pub across: String,
    pub up: String,
    pub lines: Vec<Line>,
}

/// A named line of a plot, with its points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// All findings of one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    pub findings: Vec<Finding>,
    pub charts: Vec<Chart>,
}

impl Findings {
    /// Appends a finding; the report keeps the order.
    pub fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_needs_a_peer() {
        let alone = Finding::new("work", Unit::Seconds, 2.0).wanted(Wanted::RatioAtMost(1.0));
        assert_eq!((alone.ratio(), alone.reached()), (None, None));
        let beside = alone.clone().beside("peer", Samples::from(4.0));
        assert_eq!((beside.ratio(), beside.reached()), (Some(0.5), Some(true)));
        let faster = beside.wanted(Wanted::RatioAtLeast(1.0));
        assert_eq!(faster.reached(), Some(false));
        let nothing = alone.clone().beside("peer", Samples::from(0.0));
        assert_eq!((nothing.ratio(), nothing.reached()), (None, None));
        let absent = alone.beside("peer", Samples::default());
        assert_eq!(absent.peer, None);
    }
}
