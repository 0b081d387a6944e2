//! Infers the schema of JSON lines from their beginning.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use thalweg_types::{Error, Result, SqlState};

use super::object;
use crate::columns::{JSON, tagged};
use crate::guess::Guess;

/// The narrowest type for the values of one key.
#[derive(Clone, Default)]
enum Shape {
    #[default]
    Unknown,
    Scalar(Guess),
    List(Guess),
    /// Objects, nested arrays, or a mixture.
    Json,
}

/// The schema of text that begins with `head`; every column may be NULL.
pub(crate) fn infer(head: &[u8], is_whole: bool) -> Result<Schema> {
    let end = if is_whole { head.len() } else { memchr::memrchr(b'\n', head).unwrap_or(0) };
    let mut shapes: Vec<(String, Shape)> = Vec::new();
    for line in String::from_utf8_lossy(&head[..end]).lines() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        for (key, value) in object::parse(line)?.0 {
            let shape = shape_of(value.get());
            match shapes.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => *known = merged(known.clone(), shape),
                None => shapes.push((key.into_owned(), shape)),
            }
        }
    }
    if shapes.is_empty() {
        let message = "the file holds no records to infer a schema from";
        return Err(Error::new(SqlState::BAD_COPY_FILE_FORMAT, message));
    }
    let fields: Vec<Field> = shapes.iter().map(|(name, shape)| field(name, shape)).collect();
    Ok(Schema::new(fields))
}

fn field(name: &str, shape: &Shape) -> Field {
    match shape {
        Shape::Unknown => Field::new(name, DataType::Utf8View, true),
        Shape::Scalar(guess) => Field::new(name, guess.data_type(), true),
        Shape::List(guess) => {
            let item = Field::new("item", guess.data_type(), true);
            Field::new(name, DataType::List(Arc::new(item)), true)
        }
        Shape::Json => tagged(Field::new(name, DataType::Utf8View, true), JSON),
    }
}

fn merged(known: Shape, other: Shape) -> Shape {
    match (known, other) {
        (Shape::Unknown, shape) | (shape, Shape::Unknown) => shape,
        (Shape::Scalar(a), Shape::Scalar(b)) => Shape::Scalar(a.or(b)),
        (Shape::List(a), Shape::List(b)) => Shape::List(a.or(b)),
        _ => Shape::Json,
    }
}

fn shape_of(raw: &str) -> Shape {
    match raw.as_bytes().first() {
        Some(b'n') => Shape::Unknown,
        Some(b'{') => Shape::Json,
        Some(b'[') => shape_of_items(raw),
        _ => Shape::Scalar(guess(raw)),
    }
}

fn shape_of_items(raw: &str) -> Shape {
    let mut sum = Guess::Unknown;
    for item in object::items(raw).unwrap_or_default() {
        match shape_of(item.get()) {
            Shape::Unknown => {}
            Shape::Scalar(guess) => sum = sum.or(guess),
            Shape::List(_) | Shape::Json => return Shape::Json,
        }
    }
    Shape::List(sum)
}

/// Strings can be dates and times, but never numbers or booleans.
fn guess(raw: &str) -> Guess {
    let Some(text) = raw.starts_with('"').then(|| object::string(raw)) else {
        return Guess::of(raw);
    };
    match Guess::of(text.as_deref().unwrap_or_default()) {
        time @ (Guess::Date | Guess::Time | Guess::Timestamp | Guess::Timestamptz) => time,
        _ => Guess::Text,
    }
}
