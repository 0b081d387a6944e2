//! Sets of characters: `[a-z[:digit:]_]`.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};
use thalweg_types::{Error, Result};

use super::{Parser, invalid};

/// The set that the engine's syntax has for a property.
fn property(pattern: &str) -> ClassUnicode {
    match regex_syntax::parse(pattern).map(|hir| hir.into_kind()) {
        Ok(HirKind::Class(Class::Unicode(class))) => class,
        _ => ClassUnicode::empty(),
    }
}

/// A class by its POSIX name. Digits are those of ASCII, as they are to PostgreSQL.
pub(super) fn class(name: &str) -> Result<ClassUnicode> {
    Ok(property(match name {
        "alpha" => r"\p{Alphabetic}",
        "digit" => "[0-9]",
        "alnum" => r"[\p{Alphabetic}0-9]",
        "word" => r"[\p{Alphabetic}\p{M}0-9_]",
        "upper" => r"\p{Uppercase}",
        "lower" => r"\p{Lowercase}",
        "space" => r"\p{White_Space}",
        "blank" => r"[\t\p{Zs}]",
        "punct" => r"[\p{P}\p{S}]",
        "cntrl" => r"\p{Cc}",
        "xdigit" => "[0-9A-Fa-f]",
        "graph" => r"[^\p{White_Space}\p{Cc}\p{Cn}\p{Cs}]",
        "print" => r"[^\p{Cc}\p{Cn}\p{Cs}]",
        "ascii" => r"[\x00-\x7F]",
        _ => return Err(invalid("invalid character class")),
    }))
}

enum Item {
    Character(char),
    Class(ClassUnicode),
}

impl Parser<'_> {
    /// Reads a set behind its opening bracket.
    pub(super) fn bracket(&mut self) -> Result<ClassUnicode> {
        let is_negated = self.eat("^");
        let mut set = ClassUnicode::empty();
        let mut is_first = true;
        while is_first || !self.rest.starts_with(']') {
            let item = self.bracket_item()?;
            is_first = false;
            let is_range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            match (item, is_range) {
                (Item::Character(start), true) => {
                    self.eat("-");
                    let Item::Character(end) = self.bracket_item()? else {
                        return Err(invalid("invalid character range"));
                    };
                    if start > end {
                        return Err(invalid("invalid character range"));
                    }
                    set.push(ClassUnicodeRange::new(start, end));
                }
                (Item::Character(c), false) => set.push(ClassUnicodeRange::new(c, c)),
                (Item::Class(_), true) => return Err(invalid("invalid character range")),
                (Item::Class(class), false) => set.union(&class),
            }
        }
        self.eat("]");
        let set = self.folded(set);
        Ok(if is_negated { self.complement(set) } else { set })
    }

    fn bracket_item(&mut self) -> Result<Item> {
        let unbalanced = || invalid("brackets [] not balanced");
        for (open, close) in [("[:", ":]"), ("[.", ".]"), ("[=", "=]")] {
            if !self.eat(open) {
                continue;
            }
            let (name, rest) = self.rest.split_once(close).ok_or_else(unbalanced)?;
            self.rest = rest;
            if open == "[:" {
                return class(name).map(Item::Class);
            }
            let mut characters = name.chars();
            return match (characters.next(), characters.next()) {
                (Some(c), None) => Ok(Item::Character(c)),
                _ => Err(Error::unsupported(format!("the collating element {name}"))),
            };
        }
        match self.next().ok_or_else(unbalanced)? {
            '\\' => match self.rest.chars().next() {
                Some(letter @ ('d' | 's' | 'w' | 'D' | 'S' | 'W')) => {
                    self.next();
                    Ok(Item::Class(self.shorthand(letter)?))
                }
                _ => self.character_escape().map(Item::Character),
            },
            c => Ok(Item::Character(c)),
        }
    }

    /// `\d`, `\s`, `\w` and their complements.
    pub(super) fn shorthand(&self, letter: char) -> Result<ClassUnicode> {
        let set = class(match letter.to_ascii_lowercase() {
            'd' => "digit",
            's' => "space",
            _ => "word",
        })?;
        Ok(if letter.is_ascii_uppercase() { self.complement(set) } else { set })
    }
}
