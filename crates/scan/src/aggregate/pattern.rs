//! LIKE patterns that are matched without backtracking.
//!
//! Without `_` a pattern is a prefix, a suffix, and pieces between them, each of which is matched
//! at its earliest position.

/// A LIKE pattern without `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    start: String,
    /// The part after the first `%`, if there is one.
    rest: Option<Rest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rest {
    middle: Vec<String>,
    end: String,
}

impl Pattern {
    /// Parses a LIKE pattern with `\` as its escape; `None` if it contains `_` or ends with an
    /// escape.
    #[must_use]
    pub fn like(pattern: &str) -> Option<Pattern> {
        let mut pieces = vec![String::new()];
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let literal = match character {
                '%' => {
                    pieces.push(String::new());
                    continue;
                }
                '_' => return None,
                '\\' => characters.next()?,
                other => other,
            };
            pieces.last_mut()?.push(literal);
        }
        let mut pieces = pieces.into_iter();
        let start = pieces.next()?;
        let rest = pieces.next_back().map(|end| {
            let middle = pieces.filter(|piece| !piece.is_empty()).collect();
            Rest { middle, end }
        });
        Some(Pattern { start, rest })
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        let Some(tail) = text.strip_prefix(self.start.as_str()) else { return false };
        let Some(Rest { middle, end }) = &self.rest else { return tail.is_empty() };
        let Some(between) = tail.strip_suffix(end.as_str()) else { return false };
        match middle.as_slice() {
            [] => true,
            [piece] => between.contains(piece.as_str()),
            pieces => pieces
                .iter()
                .try_fold(between, |rest, piece| Some(rest.split_once(piece.as_str())?.1))
                .is_some(),
        }
    }

    /// False if no text between two bounds matches.
    pub(crate) fn is_possible(&self, least: &str, greatest: &str) -> bool {
        let start = self.start.as_str();
        start <= greatest && (least <= start || least.starts_with(start))
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    /// LIKE, tried in every way.
    fn matches(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|skipped| matches(rest, &text[skipped..])),
            ['\\', literal, rest @ ..] => {
                text.first() == Some(literal) && matches(rest, &text[1..])
            }
            [literal, rest @ ..] => text.first() == Some(literal) && matches(rest, &text[1..]),
        }
    }

    #[test]
    fn matches_are_those_of_trying_every_way() {
        let alphabet = ['a', 'b', '%', 'ä'];
        let word = |mut number: usize| {
            let mut word = Vec::new();
            while number > 0 {
                word.push(alphabet[number % 4]);
                number /= 4;
            }
            word
        };
        for pattern in 0..1_024 {
            let pattern = word(pattern);
            let found = Pattern::like(&pattern.iter().collect::<String>()).unwrap();
            for text in 0..1_024 {
                let text = word(text);
                let told: String = text.iter().collect();
                assert_eq!(found.matches(&told), matches(&pattern, &text), "{pattern:?} {told}");
            }
        }
    }

    #[test]
    fn escapes_are_literal_and_what_is_not_understood_is_refused() {
        let percent = Pattern::like(r"100\%%").unwrap();
        assert!(percent.matches("100% sure") && !percent.matches("1000"));
        let escapes = Pattern::like(r"%\_\\%%ab%").unwrap();
        assert!(escapes.matches(r"x_\-ab-") && !escapes.matches(r"x-\-ab-"));
        assert_eq!(Pattern::like("a_b"), None);
        assert_eq!(Pattern::like(r"a\"), None);
    }

    #[test]
    fn bounds_leave_out_what_cannot_begin_alike() {
        let pattern = Pattern::like("key%").unwrap();
        assert!(pattern.is_possible("a", "z") && pattern.is_possible("keyboard", "keyhole"));
        assert!(!pattern.is_possible("kez", "z") && !pattern.is_possible("a", "kex"));
    }
}
