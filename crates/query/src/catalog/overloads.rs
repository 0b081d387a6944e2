//! Resolution of operators and functions whose arguments are not all known, by PostgreSQL's rules
//! (chapter "Type Conversion" of its documentation).
//!
//! A parameter without a type is an argument of type [`UNKNOWN`]. The overload that PostgreSQL
//! chooses determines its type.

mod candidates;
mod generic;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use self::candidates::{Candidate, are_several, chosen};
use super::pg_catalog::types::{BASE, BaseType};

/// An operator a line: name, left type, right type, result.
const OPERATORS: &str = include_str!("overloads/operators.txt");

/// A function a line: name, kind (`f` scalar, `s` set, `a` aggregate, `w` window), result, variadic
/// type, number of defaults, types of the arguments.
const FUNCTIONS: &str = include_str!("overloads/functions.txt");

/// An implicit cast a line: source and target.
const CASTS: &str = include_str!("overloads/casts.txt");

/// The type of a literal in quotes and of a parameter whose type is not known yet.
pub(crate) const UNKNOWN: i64 = 705;

const TEXT: i64 = 25;

/// `int2vector` and `oidvector`: arrays of other items do not become them.
const VECTORS: [i64; 2] = [22, 30];

/// An operator or function whose arguments all have types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overload {
    pub(crate) arguments: Vec<i64>,
    pub(crate) result: i64,
}

/// Kinds of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar,
    /// A function that returns rows, an aggregate or a window function.
    Other,
}

static TYPES: LazyLock<HashMap<i64, &BaseType>> =
    LazyLock::new(|| BASE.iter().map(|base| (base.oid, base)).collect());

static IMPLICIT_CASTS: LazyLock<HashSet<(i64, i64)>> = LazyLock::new(|| {
    let pair = |line: &str| {
        let (source, target) = line.split_once(' ')?;
        Some((source.parse().ok()?, target.parse().ok()?))
    };
    CASTS.lines().map(|line| pair(line).expect("a line of casts.txt is two numbers")).collect()
});

static OPERATORS_BY_NAME: LazyLock<HashMap<&str, Vec<Candidate>>> = LazyLock::new(|| {
    let mut by_name: HashMap<&str, Vec<Candidate>> = HashMap::new();
    for line in OPERATORS.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let arguments = vec![number(fields[1]), number(fields[2])];
        let candidate = Candidate { arguments, result: number(fields[3]), is_variadic: false };
        by_name.entry(fields[0]).or_default().push(candidate);
    }
    by_name
});

struct Function {
    kind: Kind,
    result: i64,
    variadic: i64,
    defaults: usize,
    arguments: Vec<i64>,
}

static FUNCTIONS_BY_NAME: LazyLock<HashMap<&str, Vec<Function>>> = LazyLock::new(|| {
    let mut by_name: HashMap<&str, Vec<Function>> = HashMap::new();
    for line in FUNCTIONS.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let function = Function {
            kind: if fields[1] == "f" { Kind::Scalar } else { Kind::Other },
            result: number(fields[2]),
            variadic: number(fields[3]),
            defaults: number(fields[4]) as usize,
            arguments: fields[5].split(',').map(number).collect(),
        };
        by_name.entry(fields[0]).or_default().push(function);
    }
    by_name
});

fn number(text: &str) -> i64 {
    text.parse().expect("numbers of the tables of overloads are written in digits")
}

impl Function {
    /// The function as it is called with so many arguments; `None` if it takes another number.
    fn called_with(&self, count: usize) -> Option<Candidate> {
        let mut arguments = self.arguments.clone();
        let is_variadic = self.variadic != 0 && count + 1 > arguments.len();
        if is_variadic {
            arguments.pop();
            arguments.resize(count, self.variadic);
        } else if count > arguments.len() || count + self.defaults < arguments.len() {
            return None;
        }
        arguments.truncate(count);
        Some(Candidate { arguments, result: self.result, is_variadic })
    }
}

/// The binary operator for operands of these types.
pub(crate) fn operator(name: &str, left: i64, right: i64) -> Option<Overload> {
    let all = OPERATORS_BY_NAME.get(name)?;
    let given = [left, right];
    // PostgreSQL first tries the type of the known operand for the other one.
    let alike = match given {
        [UNKNOWN, known] | [known, UNKNOWN] => [known, known],
        given => given,
    };
    let exact = all.iter().find(|candidate| candidate.arguments == alike);
    match exact.filter(|_| alike[0] != UNKNOWN) {
        Some(exact) => exact.with_types(&given),
        None => chosen(all.iter().collect(), &given)?.with_types(&given),
    }
}

/// The function for arguments of these types.
pub(crate) fn function(name: &str, given: &[i64]) -> Option<Overload> {
    let all = FUNCTIONS_BY_NAME.get(name)?;
    let candidates: Vec<Candidate> =
        all.iter().filter_map(|function| function.called_with(given.len())).collect();
    let exact = candidates.iter().find(|candidate| candidate.arguments == given);
    match exact {
        Some(exact) => exact.with_types(given),
        None => chosen(candidates.iter().collect(), given)?.with_types(given),
    }
}

/// True if several binary operators are as good for operands of these types.
pub(crate) fn is_ambiguous_operator(name: &str, left: i64, right: i64) -> bool {
    let all = OPERATORS_BY_NAME.get(name).map_or(&[][..], Vec::as_slice);
    operator(name, left, right).is_none() && are_several(all, &[left, right])
}

/// True if several functions are as good for arguments of these types.
pub(crate) fn is_ambiguous_function(name: &str, given: &[i64]) -> bool {
    let all = FUNCTIONS_BY_NAME.get(name).map_or(&[][..], Vec::as_slice);
    let all: Vec<Candidate> =
        all.iter().filter_map(|function| function.called_with(given.len())).collect();
    function(name, given).is_none() && are_several(&all, given)
}

/// The kind of the functions of a name; `None` if there is none with parameters.
pub(crate) fn kind_of(name: &str) -> Option<Kind> {
    FUNCTIONS_BY_NAME.get(name)?.first().map(|function| function.kind)
}

/// The common type of values: of `CASE`, `coalesce`, `ARRAY[…]`, `IN (…)`, `VALUES` and `UNION`.
pub(crate) fn common_type(given: &[i64]) -> Option<i64> {
    let mut known = given.iter().copied().filter(|given| *given != UNKNOWN);
    let Some(mut common) = known.next() else { return Some(TEXT) };
    for next in known {
        if next == common {
            continue;
        }
        if category(next) != category(common) {
            return None;
        }
        let widens = !is_preferred(common) && coerces(common, next) && !coerces(next, common);
        if widens {
            common = next;
        }
    }
    Some(common)
}

/// The type of arrays of these items.
pub(crate) fn array_of(item: i64) -> Option<i64> {
    TYPES.get(&item).map(|known| known.array).filter(|array| *array != 0)
}

/// The type of an array's items.
pub(crate) fn item_of(array: i64) -> Option<i64> {
    let known = TYPES.get(&array)?;
    (known.category == "A" && known.item != 0).then_some(known.item)
}

fn category(oid: i64) -> &'static str {
    TYPES.get(&oid).map_or("U", |known| known.category)
}

fn is_preferred(oid: i64) -> bool {
    TYPES.get(&oid).is_some_and(|known| known.preferred)
}

/// True if a value of a type becomes one of another type by itself.
fn coerces(from: i64, to: i64) -> bool {
    if from == to || from == UNKNOWN || IMPLICIT_CASTS.contains(&(from, to)) {
        return true;
    }
    match (item_of(from), item_of(to)) {
        (Some(from), Some(item)) => !VECTORS.contains(&to) && coerces(from, item),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
