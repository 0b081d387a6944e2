//! A position in a short text, with operations that the parsers of dates and intervals share.

/// Scans ASCII syntax. No operation fails: text that does not match is not consumed.
#[derive(Clone)]
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Digits after a decimal point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fraction {
    /// The value in billionths, rounded.
    pub billionths: i64,
}

impl<'a> Scanner<'a> {
    /// Starts at the first byte that is not white space; trailing white space is ignored.
    pub fn new(text: &'a str) -> Scanner<'a> {
        Scanner { bytes: text.trim_ascii().as_bytes(), at: 0 }
    }

    /// The next byte, which stays unread; `None` at the end.
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// True if all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Reads the next byte if it is `byte`; returns true if so.
    pub fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    /// Reads the next byte if it is one of `bytes`, and returns it.
    pub fn take_any(&mut self, bytes: &[u8]) -> Option<u8> {
        let byte = self.peek().filter(|byte| bytes.contains(byte))?;
        self.at += 1;
        Some(byte)
    }

    /// Takes white space; true if there was any.
    pub fn take_spaces(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.at > start
    }

    /// Takes white space and marks that do not begin a number.
    pub fn take_separators(&mut self) {
        self.run(|byte| {
            byte.is_ascii_whitespace() || (byte.is_ascii_punctuation() && !b"+-.".contains(byte))
        });
    }

    /// Takes as many digits as there are.
    pub fn digits(&mut self) -> &'a [u8] {
        self.run(u8::is_ascii_digit)
    }

    /// Takes as many letters as there are.
    pub fn word(&mut self) -> &'a [u8] {
        self.run(u8::is_ascii_alphabetic)
    }

    fn run(&mut self, belongs: impl Fn(&u8) -> bool) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| !belongs(byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// A number of `least` to `most` digits.
    pub fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self.digits();
        if digits.len() < least || digits.len() > most {
            return None;
        }
        Some(number(digits))
    }

    /// `.` and digits, if they follow.
    pub fn fraction(&mut self) -> Option<Fraction> {
        if !self.take(b'.') {
            return Some(Fraction::default());
        }
        let digits = self.digits();
        if digits.is_empty() {
            return Some(Fraction::default());
        }
        let mut billionths = 0;
        for place in 0..9 {
            let digit = digits.get(place).map_or(0, |digit| i64::from(digit - b'0'));
            billionths = billionths * 10 + digit;
        }
        let round_up = digits.get(9).is_some_and(|digit| *digit >= b'5');
        Some(Fraction { billionths: billionths + i64::from(round_up) })
    }
}

/// The value of at most 18 digits.
pub(super) fn number(digits: &[u8]) -> i64 {
    debug_assert!(digits.len() <= 18);
    digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'))
}
