//! The values that a path finds in a document.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;
use thalweg_formats::text::{JsonParts, json_items, json_parts};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::bounded_output::allow_together;
use thalweg_values::statement_control::check_cancelled;

use super::super::SMALL_BYTES_MAX;
use super::super::tree::compared as compared_numbers;
use super::parse::{Comparison, Expression, Path, Place, Predicate, Start, Step};

/// Maximum number of items. A path such as `$[0, 0][0, 0]` finds more of them than the document
/// has.
const ITEMS_MAX: usize = 1_000_000;

/// Size of an item on its way from a document to the result, where vectors of items grow.
const FOUND_BYTES: usize = 112;

/// The reason why there are no values.
pub(super) enum Fault {
    /// The document has another shape than the path requires; a predicate is unknown then.
    Shape(Error),
    /// An error that silent mode does not suppress.
    Error(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Error(error)
    }
}

fn shape(state: SqlState, cause: impl Into<String>) -> Fault {
    Fault::Shape(Error::new(state, cause))
}

/// The JSON text of one value. Parts of the document are borrowed, however often a path finds them;
/// computed values are numbers, texts or truth values, and owned.
pub(super) type Item<'d> = Cow<'d, str>;

type Found<'d> = std::result::Result<Vec<Item<'d>>, Fault>;

/// A path, and the document it is applied to.
pub(super) struct Search<'d> {
    pub(super) path: &'d Path,
    pub(super) document: &'d str,
    /// An object of the variables.
    pub(super) variables: Option<&'d str>,
}

impl<'d> Search<'d> {
    pub(super) fn run(&self) -> Found<'d> {
        self.values(&self.path.expression, &self.document.into())
    }

    fn values(&self, expression: &'d Expression, current: &Item<'d>) -> Found<'d> {
        let (start, steps) = match expression {
            Expression::Steps { start, steps } => (start, steps),
            Expression::Predicate(predicate) => {
                return Ok(vec![truth(self.holds(predicate, current)?)]);
            }
        };
        let mut values: Vec<Item<'d>> = match start {
            Start::Document => vec![self.document.into()],
            Start::Current => vec![current.clone()],
            Start::Variable(name) => vec![self.variable(name)?],
            Start::Literal(literal) => vec![literal.as_str().into()],
            Start::Nested(inner) => self.values(inner, current)?,
        };
        for step in steps {
            let mut next = Vec::new();
            for value in &values {
                self.step(step, value, &mut next)?;
                allow(&next)?;
                check_cancelled()?;
            }
            values = next;
        }
        Ok(values)
    }

    fn variable(&self, name: &str) -> std::result::Result<Item<'d>, Fault> {
        let members = match self.variables.map(json_parts).transpose()? {
            None => Vec::new(),
            Some(JsonParts::Object(members)) => members,
            Some(_) => {
                let cause = "\"vars\" argument is not an object";
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, cause).into());
            }
        };
        let found = members.into_iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.into()).ok_or_else(|| {
            let cause = format!("could not find jsonpath variable \"{name}\"");
            Error::new(SqlState::UNDEFINED_OBJECT, cause).into()
        })
    }

    /// Adds the values that one step reaches from a value.
    fn step(
        &self,
        step: &'d Step,
        value: &Item<'d>,
        found: &mut Vec<Item<'d>>,
    ) -> std::result::Result<(), Fault> {
        let strict = self.path.strict;
        match step {
            Step::Type => found.push(Value::from(kind(value).name()).to_string().into()),
            Step::Size => match parts(value)? {
                JsonParts::Array(items) => found.push(items.len().to_string().into()),
                _ if strict => {
                    let cause = "jsonpath item method .size() can only be applied to an array";
                    return Err(shape(SqlState::SQL_JSON_ARRAY_NOT_FOUND, cause));
                }
                _ => found.push("1".into()),
            },
            Step::Items | Step::Places(_) => items_of(step, value, strict, found)?,
            Step::Anywhere(first, last) => anywhere(value, 0, *first, *last, found)?,
            Step::Member(_) | Step::Members | Step::Filter(_) | Step::Double => {
                // In lax mode an array stands for its items.
                match parts(value)? {
                    JsonParts::Array(items) if !strict => {
                        let mut items = items.into_iter().map(Item::from);
                        items.try_for_each(|item| self.of_one(step, &item, found))?;
                    }
                    _ => self.of_one(step, value, found)?,
                }
            }
        }
        Ok(())
    }

    fn of_one(
        &self,
        step: &'d Step,
        value: &Item<'d>,
        found: &mut Vec<Item<'d>>,
    ) -> std::result::Result<(), Fault> {
        let strict = self.path.strict;
        match step {
            Step::Member(name) => match parts(value)? {
                JsonParts::Object(members) => {
                    match members.into_iter().find(|(key, _)| key == name) {
                        Some((_, member)) => found.push(member.into()),
                        None if strict => {
                            let cause = format!("JSON object does not contain key \"{name}\"");
                            return Err(shape(SqlState::SQL_JSON_MEMBER_NOT_FOUND, cause));
                        }
                        None => {}
                    }
                }
                _ if strict => {
                    let cause = "jsonpath member accessor can only be applied to an object";
                    return Err(shape(SqlState::SQL_JSON_MEMBER_NOT_FOUND, cause));
                }
                _ => {}
            },
            Step::Members => match parts(value)? {
                JsonParts::Object(members) => {
                    found.extend(members.into_iter().map(|(_, member)| Item::from(member)));
                }
                _ if strict => {
                    let cause =
                        "jsonpath wildcard member accessor can only be applied to an object";
                    return Err(shape(SqlState::SQL_JSON_OBJECT_NOT_FOUND, cause));
                }
                _ => {}
            },
            Step::Filter(predicate) => {
                if self.holds(predicate, value)? == Some(true) {
                    found.push(value.clone());
                }
            }
            _ => found.push(double(value)?),
        }
        Ok(())
    }

    /// True, false, or unknown.
    fn holds(
        &self,
        predicate: &'d Predicate,
        current: &Item<'d>,
    ) -> std::result::Result<Option<bool>, Fault> {
        Ok(match predicate {
            Predicate::Both(first, second) => match self.holds(first, current)? {
                Some(false) => Some(false),
                first => match self.holds(second, current)? {
                    Some(true) => first,
                    Some(false) => Some(false),
                    None => None,
                },
            },
            Predicate::Either(first, second) => match self.holds(first, current)? {
                Some(true) => Some(true),
                first => match self.holds(second, current)? {
                    Some(false) => first,
                    Some(true) => Some(true),
                    None => None,
                },
            },
            Predicate::Not(inner) => self.holds(inner, current)?.map(|holds| !holds),
            Predicate::IsUnknown(inner) => Some(self.holds(inner, current)?.is_none()),
            Predicate::Exists(values) => {
                known(self.values(values, current))?.map(|values| !values.is_empty())
            }
            Predicate::Compare(left, comparison, right) => {
                let right = self.operands(right, current)?;
                self.any(left, current, right.as_deref(), |left, right| {
                    compared(left, *comparison, right)
                })?
            }
            Predicate::StartsWith(left, right) => {
                let right = self.operands(right, current)?;
                self.any(left, current, right.as_deref(), |left, right| {
                    Some(text(left)?.starts_with(&text(right)?))
                })?
            }
            Predicate::Matches(left, pattern) => {
                let one = [Item::from("null")];
                let matches = |left: &str, _: &str| Some(pattern.is_match(&text(left)?));
                self.any(left, current, Some(one.as_slice()), matches)?
            }
        })
    }

    /// The values of a side of a predicate; nothing where they are not known.
    fn operands(
        &self,
        side: &'d Expression,
        current: &Item<'d>,
    ) -> std::result::Result<Option<Vec<Item<'d>>>, Fault> {
        let Some(values) = known(self.values(side, current))? else { return Ok(None) };
        if self.path.strict {
            return Ok(Some(values));
        }
        let mut items: Vec<Item<'d>> = Vec::with_capacity(values.len());
        for value in values {
            if kind(&value) != Kind::Array {
                items.push(value);
            } else if let JsonParts::Array(inner) = parts(&value)? {
                items.extend(inner.into_iter().map(Item::from));
            }
        }
        Ok(Some(items))
    }

    /// True if the predicate `holds` for at least one pair of values.
    fn any(
        &self,
        left: &'d Expression,
        current: &Item<'d>,
        right: Option<&[Item<'_>]>,
        holds: impl Fn(&str, &str) -> Option<bool>,
    ) -> std::result::Result<Option<bool>, Fault> {
        let (Some(left), Some(right)) = (self.operands(left, current)?, right) else {
            return Ok(None);
        };
        let (mut found, mut unknown) = (false, false);
        for left in &left {
            check_cancelled()?;
            for right in right {
                match holds(left, right) {
                    Some(true) if !self.path.strict => return Ok(Some(true)),
                    Some(true) => found = true,
                    Some(false) => {}
                    None if self.path.strict => return Ok(None),
                    None => unknown = true,
                }
            }
        }
        Ok(if !found && unknown { None } else { Some(found) })
    }
}

/// The items or members of a value. Computed values are scalars.
fn parts<'d>(value: &Item<'d>) -> Result<JsonParts<'d>> {
    match value {
        Cow::Borrowed(text) => {
            if text.len() > SMALL_BYTES_MAX {
                allow_together(json_items(text).saturating_mul(FOUND_BYTES))?;
            }
            json_parts(text)
        }
        Cow::Owned(_) => Ok(JsonParts::Scalar),
    }
}

fn allow(found: &[Item<'_>]) -> Result<()> {
    match found.len() > ITEMS_MAX {
        true => {
            let cause = "a path of JSON finds too many values";
            Err(Error::new(SqlState::OUT_OF_MEMORY, cause))
        }
        false => Ok(()),
    }
}

/// The values; `None` if the document has another shape than the path requires.
fn known(found: Found<'_>) -> std::result::Result<Option<Vec<Item<'_>>>, Fault> {
    match found {
        Ok(values) => Ok(Some(values)),
        Err(Fault::Shape(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn truth<'d>(holds: Option<bool>) -> Item<'d> {
    match holds {
        Some(true) => "true".into(),
        Some(false) => "false".into(),
        None => "null".into(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Null,
    Boolean,
    Number,
    Text,
    Array,
    Object,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Number => "number",
            Kind::Text => "string",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }
}

/// The first letter of a JSON text tells its kind.
fn kind(value: &str) -> Kind {
    match value.as_bytes().first() {
        Some(b'n') => Kind::Null,
        Some(b't' | b'f') => Kind::Boolean,
        Some(b'"') => Kind::Text,
        Some(b'[') => Kind::Array,
        Some(b'{') => Kind::Object,
        _ => Kind::Number,
    }
}

/// The text of a value that is a string.
fn text(value: &str) -> Option<String> {
    serde_json::from_str(value).ok()
}

fn compared(left: &str, comparison: Comparison, right: &str) -> Option<bool> {
    let (first, second) = (kind(left), kind(right));
    if first != second {
        let with_null = first == Kind::Null || second == Kind::Null;
        return with_null.then_some(comparison == Comparison::NotEqual);
    }
    let order = match first {
        Kind::Null => Ordering::Equal,
        // `false` comes before `true`, as it does by letters.
        Kind::Boolean => left.cmp(right),
        Kind::Number => compared_numbers(left, right)?,
        Kind::Text => text(left)?.cmp(&text(right)?),
        Kind::Array | Kind::Object => return None,
    };
    Some(match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

/// A number, or a text that is one.
fn double<'d>(value: &Item<'d>) -> std::result::Result<Item<'d>, Fault> {
    let written = match kind(value) {
        Kind::Number => return Ok(value.clone()),
        Kind::Text => text(value),
        _ => {
            let cause = "jsonpath item method .double() can only be applied to a string or numeric \
                        value";
            return Err(shape(SqlState::NON_NUMERIC_SQL_JSON_ITEM, cause));
        }
    };
    let number = written.and_then(|written| written.trim().parse::<f64>().ok());
    match number.filter(|number| number.is_finite()) {
        Some(number) => Ok(number.to_string().into()),
        None => {
            let cause = "string argument of jsonpath item method .double() is not a valid \
                        representation of a double precision number";
            Err(shape(SqlState::NON_NUMERIC_SQL_JSON_ITEM, cause))
        }
    }
}

fn items_of<'d>(
    step: &Step,
    value: &Item<'d>,
    strict: bool,
    found: &mut Vec<Item<'d>>,
) -> std::result::Result<(), Fault> {
    let items: Vec<Item<'d>> = match parts(value)? {
        JsonParts::Array(items) => items.into_iter().map(Item::from).collect(),
        _ if strict => {
            let all = if matches!(step, Step::Items) { "wildcard " } else { "" };
            let cause = format!("jsonpath {all}array accessor can only be applied to an array");
            return Err(shape(SqlState::SQL_JSON_ARRAY_NOT_FOUND, cause));
        }
        _ => vec![value.clone()],
    };
    let Step::Places(places) = step else {
        found.extend(items);
        return Ok(());
    };
    let length = items.len() as i64;
    let place = |place: Place| match place {
        Place::First(place) => place,
        Place::Last(back) => length - 1 - back,
    };
    for (first, last) in places {
        let (first, last) = (place(*first), place(*last));
        if strict && (first < 0 || first > last || last >= length) {
            return Err(shape(
                SqlState::INVALID_SQL_JSON_SUBSCRIPT,
                "jsonpath array subscript is out of bounds",
            ));
        }
        let places = first.max(0)..=last.min(length - 1);
        found.extend(places.map(|place| items[place as usize].clone()));
        allow(found)?;
    }
    Ok(())
}

/// Finds a value and everything inside it, within a range of levels.
fn anywhere<'d>(
    value: &Item<'d>,
    level: u32,
    first: u32,
    last: u32,
    found: &mut Vec<Item<'d>>,
) -> Result<()> {
    // The range consists of the last level alone: it takes only values without items or members.
    let is_in_last = |is_leaf: bool| first == u32::MAX && is_leaf;
    let inner: Vec<&'d str> = match parts(value)? {
        JsonParts::Array(items) => items,
        JsonParts::Object(members) => members.into_iter().map(|(_, member)| member).collect(),
        JsonParts::Scalar => Vec::new(),
    };
    if (first..=last).contains(&level) || is_in_last(inner.is_empty()) {
        found.push(value.clone());
    }
    if level < last {
        let mut inner = inner.into_iter().map(Item::from);
        inner.try_for_each(|item| anywhere(&item, level + 1, first, last, found))?;
    }
    Ok(())
}
