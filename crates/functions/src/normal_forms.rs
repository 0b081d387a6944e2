//! Unicode's normal forms: `normalize(text, NFC)` and `text IS NFC NORMALIZED`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType as ArrowType;
use datafusion::logical_expr::ScalarUDF;
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::scalar_function::Function;
use thalweg_values::statement_control::check_cancelled;
use unicode_normalization::{UnicodeNormalization, is_nfc, is_nfd, is_nfkc, is_nfkd};

use thalweg_values::bounded_output::{BoundedTexts, Text, allow_all};

/// Maximum growth of a text: three bytes may become 33.
const GROWTH_MAX: usize = 11;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    const TEXT: ArrowType = ArrowType::Utf8View;
    let arguments: &[&[ArrowType]] = &[&[TEXT, TEXT]];
    vec![
        Function::new("normalize", arguments, TEXT, normalize).into_udf(),
        Function::new("is_normalized", arguments, ArrowType::Boolean, is_normalized).into_udf(),
    ]
}

/// Form of letters with marks: as one character or as several, and with or without those that
/// differ only in appearance.
#[derive(Clone, Copy)]
enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

impl Form {
    fn named(name: &str) -> Result<Form> {
        match name.to_ascii_lowercase().as_str() {
            "nfc" => Ok(Form::Nfc),
            "nfd" => Ok(Form::Nfd),
            "nfkc" => Ok(Form::Nfkc),
            "nfkd" => Ok(Form::Nfkd),
            _ => Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid normalization form: {name}"),
            )),
        }
    }

    fn write(self, text: &str, normal: &mut Text<'_>) -> Result<()> {
        match self {
            Form::Nfc => push_all(text.nfc(), normal),
            Form::Nfd => push_all(text.nfd(), normal),
            Form::Nfkc => push_all(text.nfkc(), normal),
            Form::Nfkd => push_all(text.nfkd(), normal),
        }
    }

    fn is_of(self, text: &str) -> bool {
        match self {
            Form::Nfc => is_nfc(text),
            Form::Nfd => is_nfd(text),
            Form::Nfkc => is_nfkc(text),
            Form::Nfkd => is_nfkd(text),
        }
    }
}

fn push_all(mut characters: impl Iterator<Item = char>, text: &mut Text<'_>) -> Result<()> {
    characters.try_for_each(|character| text.push(character.encode_utf8(&mut [0; 4])))
}

fn normalize(columns: &[ArrayRef]) -> Result<ArrayRef> {
    allow_all(&columns[0], GROWTH_MAX)?;
    let mut made = BoundedTexts::default();
    for (text, form) in columns[0].as_string_view().iter().zip(columns[1].as_string_view()) {
        let (Some(text), Some(form)) = (text, form) else {
            made.null();
            continue;
        };
        check_cancelled()?;
        let form = Form::named(form)?;
        if text.is_ascii() {
            made.allow(text.len())?;
            made.value(text);
            continue;
        }
        made.write(|normal| form.write(text, normal))?;
    }
    Ok(made.finish())
}

fn is_normalized(columns: &[ArrayRef]) -> Result<ArrayRef> {
    allow_all(&columns[0], GROWTH_MAX)?;
    let forms = columns[1].as_string_view();
    let values = columns[0].as_string_view().iter().zip(forms).map(|pair| {
        let (Some(text), Some(form)) = pair else { return Ok(None) };
        check_cancelled()?;
        Ok(Some(Form::named(form)?.is_of(text)))
    });
    Ok(Arc::new(values.collect::<Result<BooleanArray>>()?))
}

#[cfg(test)]
mod tests {
    use arrow::array::{StringViewArray, UInt32Array};
    use arrow::compute::take;

    use super::*;

    #[test]
    fn rows_that_share_a_long_text_are_refused_at_once() {
        let column = |text: &str, rows: usize| {
            let shared = StringViewArray::from(vec![text]);
            take(&shared, &UInt32Array::from(vec![0; rows]), None).unwrap()
        };
        let long = "\u{fdfa}".repeat(1 << 18);
        let columns = [column(&long, 4_096), column("nfkc", 4_096)];
        for refused in [normalize(&columns), is_normalized(&columns)] {
            assert_eq!(refused.unwrap_err().state().0, "53200");
        }
        let columns = [column("\u{fdfa}", 1), column("nfkc", 1)];
        let normal = normalize(&columns).unwrap();
        assert_eq!(normal.as_string_view().value(0).len(), 3 * GROWTH_MAX);
    }
}
