//! The escapes that follow a backslash.

use thalweg_types::Result;

use super::{Assert, Node, Parser, invalid};

const BAD_ESCAPE: &str = "invalid escape \\ sequence";

impl Parser<'_> {
    pub(super) fn escape(&mut self) -> Result<Node> {
        let assert = match self.peek() {
            Some('A') => Some(Assert::TextStart),
            Some('Z') => Some(Assert::TextEnd),
            Some('m') => Some(Assert::WordStart),
            Some('M') => Some(Assert::WordEnd),
            Some('y') => Some(Assert::WordEdge),
            Some('Y') => Some(Assert::NotWordEdge),
            _ => None,
        };
        if let Some(assert) = assert {
            self.next();
            return Ok(Node::Assert(assert));
        }
        match self.peek() {
            Some(letter @ ('d' | 's' | 'w' | 'D' | 'S' | 'W')) => {
                self.next();
                Ok(Node::Set(self.shorthand(letter)?))
            }
            Some('1'..='9') => self.reference(),
            _ => {
                let c = self.character_escape()?;
                Ok(Node::Set(self.set_of(c)))
            }
        }
    }

    /// `\1`: a group, or a character by its octal number where there is no such group.
    fn reference(&mut self) -> Result<Node> {
        let digits =
            self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let digits = digits.min(3);
        for length in (1..=digits).rev() {
            let number: usize = self.rest[..length].parse().unwrap_or(0);
            if self.closed.contains(&number) {
                self.rest = &self.rest[length..];
                return Ok(Node::Back(number));
            }
        }
        if digits > 1 {
            let c = self.character_escape()?;
            return Ok(Node::Set(self.set_of(c)));
        }
        Err(invalid("invalid backreference number"))
    }

    /// An escape that is one character.
    pub(super) fn character_escape(&mut self) -> Result<char> {
        let bad = || invalid(BAD_ESCAPE);
        let next = self.next().ok_or_else(bad)?;
        let code = |number: Option<u32>| number.and_then(char::from_u32).ok_or_else(bad);
        Ok(match next {
            'a' => '\x07',
            'b' => '\x08',
            'B' => '\\',
            'c' => {
                let letter = self.next().ok_or_else(bad)?;
                code(Some(letter as u32 & 31))?
            }
            'e' => '\x1b',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'u' => code(self.number(16, 4, 4))?,
            'U' => code(self.number(16, 8, 8))?,
            'x' => code(self.number(16, 1, usize::MAX))?,
            digit @ '0'..='7' => {
                let others = self.rest.len()
                    - self.rest.trim_start_matches(|c: char| ('0'..='7').contains(&c)).len();
                let others = others.min(2);
                let first = digit as u32 - '0' as u32;
                let rest = &self.rest[..others];
                let number = rest.bytes().fold(first, |n, byte| n * 8 + u32::from(byte - b'0'));
                self.rest = &self.rest[others..];
                code(Some(number))?
            }
            c if c.is_ascii_alphanumeric() => return Err(bad()),
            c => c,
        })
    }

    fn number(&mut self, radix: u32, least: usize, most: usize) -> Option<u32> {
        let length = self.rest.chars().take(most).take_while(|c| c.is_digit(radix)).count();
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        (length >= least).then(|| u32::from_str_radix(digits, radix).ok()).flatten()
    }
}
