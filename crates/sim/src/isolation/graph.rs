//! A graph of dependencies, and its cycles, which reveal anomalies.

use std::collections::VecDeque;

use super::{Anomaly, Violation, wrong};

/// The reason why one transaction precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge {
    /// It wrote the version that the other replaced.
    Write,
    /// It wrote a value that the other read.
    Read,
    /// It had ended before the other began.
    Time,
    /// It did not see a write of the other: an anti-dependency.
    Miss,
}

/// Nodes are transactions, followed by moments. A transaction that ended precedes a moment, which
/// precedes all that began after it, so that time needs only a few edges instead of all pairs.
pub struct Graph {
    transactions: usize,
    edges: Vec<Vec<(usize, Edge)>>,
}

impl Graph {
    /// A graph of that many transactions without dependencies.
    pub fn new(transactions: usize) -> Graph {
        Graph { transactions, edges: vec![Vec::new(); transactions] }
    }

    /// Adds a dependency; one of a transaction on itself is ignored.
    pub fn add(&mut self, from: usize, to: usize, edge: Edge) {
        if from != to {
            self.edges[from].push((to, edge));
        }
    }

    /// Adds the begin and end times of transactions.
    pub fn add_times(&mut self, times: Vec<(usize, u64, u64)>) {
        let begins = times.iter().map(|(place, begun, _)| (*begun, true, *place));
        let ends = times.iter().map(|(place, _, ended)| (*ended, false, *place));
        // At equal times begins sort before ends, so that nothing counts as ended.
        let mut events: Vec<(u64, bool, usize)> = begins.chain(ends).collect();
        events.sort_by_key(|(moment, begins, place)| (*moment, !begins, *place));
        let mut moment: Option<usize> = None;
        for (_, begins, place) in events {
            if begins {
                if let Some(moment) = moment {
                    self.edges[moment].push((place, Edge::Time));
                }
                continue;
            }
            let next = self.edges.len();
            self.edges.push(Vec::new());
            self.edges[place].push((next, Edge::Time));
            if let Some(moment) = moment {
                self.edges[moment].push((next, Edge::Time));
            }
            moment = Some(next);
        }
    }

    /// Searches for cycles, from the simplest kind to the most complex one.
    pub fn check(&self, tell: impl Fn(usize) -> String) -> Result<(), Violation> {
        let kinds = [
            (Anomaly::G0, Edge::Write),
            (Anomaly::G1c, Edge::Read),
            (Anomaly::G1c, Edge::Time),
            (Anomaly::GSingle, Edge::Miss),
        ];
        for (anomaly, most) in kinds {
            let Some(cycle) = self.cycle(most) else { continue };
            let misses = cycle.iter().filter(|(_, edge)| *edge == Edge::Miss).count();
            let anomaly = if misses > 1 { Anomaly::GNonadjacent } else { anomaly };
            let mut what = String::from("a cycle:");
            for (place, edge) in cycle {
                let name = if place < self.transactions { tell(place) } else { "a moment".into() };
                what.push_str(&format!("\n  {name}\n    {edge:?}"));
            }
            return wrong(anomaly, what);
        }
        Ok(())
    }

    /// A short cycle of edges up to a kind, without two consecutive anti-dependencies:
    /// transactions, each with the edge to the next.
    fn cycle(&self, most: Edge) -> Option<Vec<(usize, Edge)>> {
        let suspects = self.may_be_on_cycles(most);
        // Looks for a shortest cycle, because edges of time create long detours.
        let from = |start: usize| self.shortest_cycle(start, most, &suspects);
        let starts = (0..self.transactions).filter(|place| suspects[*place]);
        starts.filter_map(from).min_by_key(Vec::len)
    }

    /// Marks the nodes that may lie on a cycle: removes nodes without a predecessor or without a
    /// successor until none is left.
    fn may_be_on_cycles(&self, most: Edge) -> Vec<bool> {
        let count = self.edges.len();
        let mut left = vec![true; count];
        for backwards in [false, true] {
            let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
            let mut before = vec![0_usize; count];
            for (from, to, _) in self.all(most).filter(|(from, to, _)| left[*from] && left[*to]) {
                let (from, to) = if backwards { (to, from) } else { (from, to) };
                next[from].push(to);
                before[to] += 1;
            }
            let first = |node: &usize| left[*node] && before[*node] == 0;
            let mut free: Vec<usize> = (0..count).filter(first).collect();
            while let Some(node) = free.pop() {
                left[node] = false;
                for to in &next[node] {
                    before[*to] -= 1;
                    if before[*to] == 0 {
                        free.push(*to);
                    }
                }
            }
        }
        left
    }

    fn all(&self, most: Edge) -> impl Iterator<Item = (usize, usize, Edge)> + '_ {
        let of = |(from, edges): (usize, &'_ Vec<(usize, Edge)>)| {
            edges.iter().map(move |(to, edge)| (from, *to, *edge)).collect::<Vec<_>>()
        };
        self.edges.iter().enumerate().flat_map(of).filter(move |(_, _, edge)| *edge <= most)
    }

    /// The shortest path from a node back to it. A node is visited once after an anti-dependency
    /// and once after another edge, because an anti-dependency may follow only the latter.
    fn shortest_cycle(
        &self,
        start: usize,
        most: Edge,
        suspects: &[bool],
    ) -> Option<Vec<(usize, Edge)>> {
        type Place = (usize, bool);
        let index = |(node, missed): Place| 2 * node + usize::from(missed);
        // A cycle without two consecutive anti-dependencies has a node after another kind of edge.
        // The search starts at every node, so it suffices to start with this state.
        let first: Place = (start, false);
        let mut came: Vec<Option<(Place, Edge)>> = vec![None; 2 * self.edges.len()];
        let mut waiting = VecDeque::from([first]);
        while let Some(place) = waiting.pop_front() {
            for (to, edge) in &self.edges[place.0] {
                let misses = *edge == Edge::Miss;
                let next: Place = (*to, misses);
                if *edge > most || (misses && place.1) || !suspects[*to] {
                    continue;
                }
                if next == first {
                    let mut cycle = vec![(place.0, *edge)];
                    let mut at = place;
                    while let Some((before, edge)) = came[index(at)] {
                        cycle.push((before.0, edge));
                        at = before;
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if came[index(next)].is_none() {
                    came[index(next)] = Some((place, *edge));
                    waiting.push_back(next);
                }
            }
        }
        None
    }
}
