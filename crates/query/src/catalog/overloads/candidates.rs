//! The choice among the overloads of a name.

use super::generic::{accepts, actual};
use super::{Overload, UNKNOWN, category, is_preferred};

/// An overload with as many arguments as the call.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) arguments: Vec<i64>,
    pub(super) result: i64,
    /// True if the last arguments are items of an array.
    pub(super) is_variadic: bool,
}

impl Candidate {
    /// The overload with actual types in place of generic ones.
    pub(super) fn with_types(&self, given: &[i64]) -> Option<Overload> {
        actual(&self.arguments, self.result, given)
    }

    fn count(&self, counts: impl Fn(usize, i64) -> bool) -> usize {
        self.arguments.iter().enumerate().filter(|(at, one)| counts(*at, **one)).count()
    }
}

/// The overload that PostgreSQL calls; `None` if there is none, or several are as good.
pub(super) fn chosen<'a>(all: Vec<&'a Candidate>, given: &[i64]) -> Option<&'a Candidate> {
    let takes = |candidate: &&Candidate| accepts(&candidate.arguments, given);
    let mut left: Vec<&Candidate> = all.into_iter().filter(takes).collect();
    // An overload with fixed arguments is better than a variadic one with equal types.
    if left.iter().any(|candidate| !candidate.is_variadic) {
        let fixed: Vec<Vec<i64>> = left
            .iter()
            .filter(|candidate| !candidate.is_variadic)
            .map(|candidate| candidate.arguments.clone())
            .collect();
        left.retain(|one| !one.is_variadic || !fixed.contains(&one.arguments));
    }
    let is_known = |at: usize| given[at] != UNKNOWN;
    let left = best(left, |at, wanted| is_known(at) && wanted == given[at]);
    let left = best(left, |at, wanted| {
        let is_preferred = is_preferred(wanted) && category(wanted) == category(given[at]);
        is_known(at) && (wanted == given[at] || is_preferred)
    });
    if let [only] = left.as_slice() {
        return Some(only);
    }
    if (0..given.len()).all(is_known) {
        return None;
    }
    let left = of_categories(left, given);
    match left.as_slice() {
        [only] => Some(only),
        _ => of_one_type(&left, given),
    }
}

/// True if several overloads take such arguments.
pub(super) fn are_several(all: &[Candidate], given: &[i64]) -> bool {
    all.iter().filter(|candidate| accepts(&candidate.arguments, given)).nth(1).is_some()
}

/// The candidates with the most arguments that count.
fn best(left: Vec<&Candidate>, counts: impl Fn(usize, i64) -> bool) -> Vec<&Candidate> {
    let most = left.iter().map(|candidate| candidate.count(&counts)).max();
    left.into_iter().filter(|candidate| Some(candidate.count(&counts)) == most).collect()
}

/// The candidates whose arguments at the unknown places have the category of all candidates there,
/// or are strings, and the category's preferred type if one has it.
fn of_categories<'a>(left: Vec<&'a Candidate>, given: &[i64]) -> Vec<&'a Candidate> {
    let mut wanted = Vec::new();
    for at in (0..given.len()).filter(|at| given[*at] == UNKNOWN) {
        let here = || left.iter().map(|candidate| candidate.arguments[at]);
        let Some(first) = here().next().map(category) else { return left };
        let category = match here().any(|one| category(one) == "S") {
            true => "S",
            false if here().all(|one| category(one) == first) => first,
            false => return left,
        };
        let prefers = here().any(|one| super::category(one) == category && is_preferred(one));
        wanted.push((at, category, prefers));
    }
    let fits = |candidate: &&Candidate| {
        wanted.iter().all(|&(at, wanted, prefers)| {
            let one = candidate.arguments[at];
            category(one) == wanted && (!prefers || is_preferred(one))
        })
    };
    let fitting: Vec<&Candidate> = left.iter().copied().filter(fits).collect();
    if fitting.is_empty() { left } else { fitting }
}

/// The only candidate that takes the type of all known arguments for the unknown ones too.
fn of_one_type<'a>(left: &[&'a Candidate], given: &[i64]) -> Option<&'a Candidate> {
    let mut known = given.iter().filter(|given| **given != UNKNOWN);
    let one = *known.next()?;
    if known.any(|other| *other != one) {
        return None;
    }
    let alike = vec![one; given.len()];
    let mut fitting = left.iter().filter(|candidate| accepts(&candidate.arguments, &alike));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}
