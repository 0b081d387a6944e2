//! Texts for people and logs, cut while they are written: the plan of a statement of 300 bytes may
//! have gigabytes of text.

use std::fmt::{self, Display, Write};

/// Stands at the end of a text that was cut.
const CUT: &str = "…";

/// A text that takes no more than so many bytes, and then fails, so that whoever writes it stops.
#[derive(Debug)]
pub struct BoundedText {
    text: String,
    bytes_max: usize,
    is_cut: bool,
}

impl BoundedText {
    /// An empty text that is cut at `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> BoundedText {
        BoundedText { text: String::new(), bytes_max, is_cut: false }
    }

    /// The text written so far, and a mark if more was cut off. The mark comes on top of the limit.
    #[must_use]
    pub fn finish(mut self) -> String {
        if self.is_cut {
            self.text.push_str(CUT);
        }
        self.text
    }
}

impl Write for BoundedText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = self.bytes_max - self.text.len();
        if self.is_cut || piece.len() > room {
            if !self.is_cut {
                self.text.push_str(&piece[..piece.floor_char_boundary(room)]);
            }
            self.is_cut = true;
            return Err(fmt::Error);
        }
        self.text.push_str(piece);
        Ok(())
    }
}

/// The text of a value, cut after so many bytes.
pub fn bounded(value: impl Display, bytes_max: usize) -> String {
    let mut text = BoundedText::new(bytes_max);
    // It fails where it was cut, which its end tells.
    let _ = write!(text, "{value}");
    text.finish()
}

/// A text that is there already, cut after so many bytes.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push_str(CUT);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Writes piece after piece for as long as they are taken.
    struct Endless(Cell<usize>);

    impl Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            loop {
                self.0.set(self.0.get() + 1);
                f.write_str("piece ")?;
            }
        }
    }

    #[test]
    fn writing_stops_at_the_limit() {
        let endless = Endless(Cell::new(0));
        assert_eq!(bounded(&endless, 15), "piece piece pie…");
        assert_eq!(endless.0.get(), 3);
    }

    #[test]
    fn texts_within_the_limit_are_whole() {
        assert_eq!(bounded("piece", 5), "piece");
        assert_eq!(cut("piece".to_owned(), 5), "piece");
        assert_eq!(bounded("", 0), "");
    }

    #[test]
    fn no_character_is_cut_apart() {
        assert_eq!(bounded("aäöü", 4), "aä…");
        assert_eq!(cut("aäöü".to_owned(), 4), "aä…");
        let mut text = BoundedText::new(2);
        assert!(text.write_str("aä").is_err());
        assert!(text.write_str("b").is_err());
        assert_eq!(text.finish(), "a…");
    }
}
