//! What goes wrong, and when: all of it follows from a seed.

use std::collections::HashSet;
use std::time::Duration;

use thalweg_env::SeededRandom;

/// Which way to a worker something happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Calls of gateways and of other workers.
    Inward,
    /// The worker's own calls of its gateway.
    Out,
    /// The worker is cut off.
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Each piece of what comes to a worker, and goes from it, waits for so long.
    Slow {
        worker: usize,
        time: Duration,
    },
    /// Nothing is delivered, and nothing refused.
    BlackHole {
        worker: usize,
        side: Side,
    },
    /// Connections break, and no new ones are made.
    Cut {
        worker: usize,
        side: Side,
    },
    /// All is well with a worker's wires again. What a black hole took is delivered late.
    Mend {
        worker: usize,
    },
    /// SIGKILL; the worker stays away.
    Kill {
        worker: usize,
    },
    Restart {
        worker: usize,
    },
    /// SIGKILL, and another one on its directory.
    RestartGateway,
    /// Clients' connections break.
    CutClients,
    SlowClients {
        time: Duration,
    },
    MendClients,
}

/// Something goes wrong, and for so long nothing else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub trouble: Trouble,
    pub lasts: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Slow,
    BlackHole,
    Cut,
    Mend,
    Kill,
    Restart,
    RestartGateway,
    CutClients,
    SlowClients,
    MendClients,
}

/// Kinds are dealt out as cards are: each of a deck comes before any comes again.
const DECK: [Kind; 12] = [
    Kind::Slow,
    Kind::BlackHole,
    Kind::Mend,
    Kind::Cut,
    Kind::Mend,
    Kind::Kill,
    Kind::Restart,
    Kind::RestartGateway,
    Kind::CutClients,
    Kind::SlowClients,
    Kind::MendClients,
    Kind::Mend,
];
pub const DECK_STEPS: usize = DECK.len();

/// Longer than it takes until a node that is silent counts as gone.
const LONG: Duration = Duration::from_secs(6);

/// The state of the workers as a schedule leaves it.
struct Drawing {
    random: SeededRandom,
    down: Vec<bool>,
    troubled: Vec<bool>,
    has_long_hole: bool,
}

/// The schedule of a seed.
pub fn draw(seed: u64, steps: usize, workers: usize) -> Vec<Step> {
    let mut drawing = Drawing {
        random: SeededRandom::new(seed),
        down: vec![false; workers],
        troubled: vec![false; workers],
        has_long_hole: false,
    };
    let mut deck = Vec::new();
    let mut schedule = Vec::new();
    while schedule.len() < steps {
        if deck.is_empty() {
            deck = DECK.to_vec();
        }
        let card = deck.swap_remove(drawing.below(deck.len()));
        schedule.push(drawing.step(card));
    }
    schedule
}

impl Drawing {
    fn below(&self, limit: usize) -> usize {
        self.random.below(limit as u64) as usize
    }

    fn milliseconds(&self, least: u64, limit: u64) -> Duration {
        Duration::from_millis(least + self.random.below(limit - least))
    }

    fn step(&mut self, kind: Kind) -> Step {
        let trouble = self.trouble(kind);
        let mut lasts = self.milliseconds(50, 350);
        // One is long: more would be all that a short schedule has time for.
        if matches!(trouble, Trouble::BlackHole { .. }) && !self.has_long_hole {
            self.has_long_hole = true;
            lasts = LONG;
        }
        Step { trouble, lasts }
    }

    fn trouble(&mut self, kind: Kind) -> Trouble {
        let any = self.below(self.down.len());
        match kind {
            Kind::Slow => {
                self.troubled[any] = true;
                Trouble::Slow { worker: any, time: self.milliseconds(1, 30) }
            }
            Kind::BlackHole => {
                self.troubled[any] = true;
                Trouble::BlackHole { worker: any, side: self.side() }
            }
            Kind::Cut => {
                self.troubled[any] = true;
                Trouble::Cut { worker: any, side: self.side() }
            }
            Kind::Mend => {
                let worker = first(&self.troubled, any);
                self.troubled[worker] = false;
                Trouble::Mend { worker }
            }
            Kind::Kill => {
                self.down[any] = true;
                Trouble::Kill { worker: any }
            }
            // One that is up is killed first.
            Kind::Restart => {
                let worker = first(&self.down, any);
                self.down[worker] = false;
                Trouble::Restart { worker }
            }
            Kind::RestartGateway => Trouble::RestartGateway,
            Kind::CutClients => Trouble::CutClients,
            Kind::SlowClients => Trouble::SlowClients { time: self.milliseconds(1, 10) },
            Kind::MendClients => Trouble::MendClients,
        }
    }

    fn side(&self) -> Side {
        [Side::Inward, Side::Out, Side::Both][self.below(3)]
    }
}

/// The first worker of which this is so, or else the one that was drawn.
fn first(which: &[bool], drawn: usize) -> usize {
    which.iter().position(|is_so| *is_so).unwrap_or(drawn)
}

#[test]
fn a_seed_gives_its_schedule_again() {
    assert_eq!(draw(7, 100, 4), draw(7, 100, 4));
    assert_ne!(draw(7, 100, 4), draw(8, 100, 4));
    // A shorter one is the beginning of a longer one, so that what failed can be made shorter.
    assert_eq!(draw(7, 100, 4)[..30], draw(7, 30, 4));
}

#[test]
fn everything_goes_wrong_within_a_deck() {
    for seed in 0..100 {
        let schedule = draw(seed, DECK_STEPS, 4);
        let kinds: HashSet<_> =
            schedule.iter().map(|step| std::mem::discriminant(&step.trouble)).collect();
        assert_eq!(kinds.len(), 10, "seed {seed}");
    }
}
