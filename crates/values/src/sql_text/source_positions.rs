//! From the parser's lines and columns to bytes and characters of the text.

use datafusion::sql::sqlparser::tokenizer::Location;

/// Walks a text forwards; positions in ascending order cost one pass in all.
pub struct SourcePositions<'a> {
    text: &'a str,
    offset: usize,
    line: u64,
    column: u64,
}

impl<'a> SourcePositions<'a> {
    /// Starts at the beginning of the text.
    pub fn new(text: &'a str) -> SourcePositions<'a> {
        SourcePositions { text, offset: 0, line: 1, column: 1 }
    }

    /// The byte at which a line and column, both counted from 1, begin; the text's end if beyond.
    pub fn offset(&mut self, location: Location) -> usize {
        if (location.line, location.column) < (self.line, self.column) {
            *self = SourcePositions::new(self.text);
        }
        let mut rest = self.text[self.offset..].chars();
        while (self.line, self.column) < (location.line, location.column) {
            match rest.next() {
                Some('\n') => (self.line, self.column) = (self.line + 1, 1),
                Some(_) => self.column += 1,
                None => break,
            }
            self.offset = self.text.len() - rest.as_str().len();
        }
        self.offset
    }
}

/// The place of the character at a byte of the text, counted from 1.
pub fn character_at(text: &str, offset: usize) -> usize {
    text[..offset].chars().count() + 1
}
