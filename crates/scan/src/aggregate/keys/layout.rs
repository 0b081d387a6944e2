//! The layout of key columns in the words of a key.

use arrow::datatypes::DataType;

/// The representation of a key column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An integer of that many bits, in two's complement.
    Int {
        bits: u32,
    },
    Float32,
    Float64,
    /// Two words.
    Decimal,
    /// The number that an interner assigned.
    Text,
}

impl Kind {
    /// The representation of a type; `None` for types that cannot be keys.
    pub fn of(data_type: &DataType) -> Option<Kind> {
        Some(match data_type {
            DataType::Boolean => Kind::Int { bits: 1 },
            DataType::Int16 => Kind::Int { bits: 16 },
            DataType::Int32 | DataType::Date32 => Kind::Int { bits: 32 },
            DataType::Int64 | DataType::Time64(_) | DataType::Timestamp(..) => {
                Kind::Int { bits: 64 }
            }
            DataType::Float32 => Kind::Float32,
            DataType::Float64 => Kind::Float64,
            DataType::Decimal128(..) => Kind::Decimal,
            DataType::Utf8View => Kind::Text,
            _ => return None,
        })
    }

    /// Sign-extends the bits of an integer; other kinds return their bits.
    #[inline(always)]
    pub fn signed(self, bits: u64) -> i64 {
        match self {
            // A boolean is 0 or 1 and has no sign.
            Kind::Int { bits: width @ 2.. } => (bits << (64 - width)) as i64 >> (64 - width),
            _ => bits as i64,
        }
    }

    fn bits(self) -> u32 {
        match self {
            Kind::Int { bits } => bits,
            Kind::Float32 | Kind::Text => 32,
            Kind::Float64 => 64,
            Kind::Decimal => 128,
        }
    }
}

/// A range of bits in the words of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub word: usize,
    pub shift: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub kind: Kind,
    pub value: Place,
    /// The bit that is set if the column is NULL; `None` for a single column.
    pub null: Option<Place>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub fields: Vec<Field>,
    pub words: usize,
    /// True if there is only one column. At most one group is NULL then, and its number is stored
    /// apart, so a key of 8 bytes takes no further word.
    pub lone_null: bool,
}

impl Layout {
    /// Packs the columns, largest first to waste few bits. No column up to 64 bits spans two words.
    pub fn new(kinds: &[Kind]) -> Layout {
        let lone_null = kinds.len() == 1;
        let mut used: Vec<u32> = Vec::new();
        let mut order: Vec<usize> = (0..kinds.len()).collect();
        order.sort_by_key(|column| std::cmp::Reverse(kinds[*column].bits()));
        let mut values = vec![Place { word: 0, shift: 0 }; kinds.len()];
        for column in order {
            values[column] = match kinds[column].bits() {
                bits @ ..=64 => allocate_bits(&mut used, bits),
                _ => {
                    used.extend([64, 64]);
                    Place { word: used.len() - 2, shift: 0 }
                }
            };
        }
        let fields = kinds.iter().zip(values).map(|(kind, value)| {
            let null = (!lone_null).then(|| allocate_bits(&mut used, 1));
            Field { kind: *kind, value, null }
        });
        let fields = fields.collect();
        Layout { fields, words: used.len().max(1), lone_null }
    }
}

/// Allocates bits in the first word that has room for them.
fn allocate_bits(used: &mut Vec<u32>, bits: u32) -> Place {
    let word = used.iter().position(|used| used + bits <= 64).unwrap_or_else(|| {
        used.push(0);
        used.len() - 1
    });
    let shift = used[word];
    used[word] += bits;
    Place { word, shift }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_share_words() {
        let (text, int) = (Kind::Text, Kind::Int { bits: 32 });
        assert_eq!(Layout::new(&[Kind::Int { bits: 64 }]).words, 1);
        assert_eq!(Layout::new(&[Kind::Decimal]).words, 2);
        assert_eq!(Layout::new(&[text, Kind::Int { bits: 16 }]).words, 1);
        assert_eq!(Layout::new(&[text, text, text, int, int, int]).words, 4);
        let layout = Layout::new(&[Kind::Int { bits: 1 }, Kind::Float64]);
        assert_eq!(layout.fields[1].value, Place { word: 0, shift: 0 });
        assert_eq!(layout.fields[0].value, Place { word: 1, shift: 0 });
        assert_eq!(layout.fields[1].null, Some(Place { word: 1, shift: 2 }));
    }
}
