//! Just enough of Rust's syntax to measure it: text without comments and literals, braces, and
//! what belongs to tests.

/// The text with every character of a comment, string or character literal made a space.
///
/// Line breaks and the number of characters stay, so that places in the two texts agree.
pub fn masked(text: &str) -> Vec<char> {
    let source: Vec<char> = text.chars().collect();
    let mut masked = source.clone();
    let mut at = 0;
    while at < source.len() {
        let end = literal_end(&source, at);
        for character in &mut masked[at..end] {
            if *character != '\n' {
                *character = ' ';
            }
        }
        at = end.max(at + 1);
    }
    debug_assert_eq!(masked.len(), source.len());
    masked
}

/// Where the comment or literal that starts at `at` ends; `at` itself when none starts there.
fn literal_end(source: &[char], at: usize) -> usize {
    let next = source.get(at + 1).copied();
    match source[at] {
        '/' if next == Some('/') => position(source, at, |place| source[place] == '\n'),
        '/' if next == Some('*') => block_comment_end(source, at),
        '"' => string_end(source, at),
        'r' if !continues_word(source, at) => raw_string_end(source, at).unwrap_or(at),
        '\'' => character_end(source, at).unwrap_or(at),
        _ => at,
    }
}

/// True if a longer word runs up to `at`; the prefixes of byte and C strings are none.
fn continues_word(source: &[char], at: usize) -> bool {
    let prefixed = at > 0 && matches!(source[at - 1], 'b' | 'c');
    let start = if prefixed { at - 1 } else { at };
    start > 0 && (source[start - 1].is_alphanumeric() || source[start - 1] == '_')
}

fn position(source: &[char], from: usize, found: impl Fn(usize) -> bool) -> usize {
    (from..source.len()).find(|place| found(*place)).unwrap_or(source.len())
}

fn block_comment_end(source: &[char], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut place = at;
    while place + 1 < source.len() {
        match (source[place], source[place + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                place += 1;
                continue;
            }
        }
        place += 2;
        if depth == 0 {
            return place;
        }
    }
    source.len()
}

fn string_end(source: &[char], at: usize) -> usize {
    let mut place = at + 1;
    while place < source.len() {
        match source[place] {
            '\\' => place += 2,
            '"' => return place + 1,
            _ => place += 1,
        }
    }
    source.len()
}

fn raw_string_end(source: &[char], at: usize) -> Option<usize> {
    let hashes = source[at + 1..].iter().take_while(|character| **character == '#').count();
    let open = at + 1 + hashes;
    if source.get(open) != Some(&'"') {
        return None;
    }
    let closes = |place: usize| {
        source[place] == '"'
            && source[place + 1..].iter().take(hashes).filter(|next| **next == '#').count()
                == hashes
    };
    Some((position(source, open + 1, closes) + 1 + hashes).min(source.len()))
}

/// The end of a character literal; `None` for a lifetime or a label.
fn character_end(source: &[char], at: usize) -> Option<usize> {
    if source.get(at + 1) == Some(&'\\') {
        return Some(
            (position(source, at + 3, |place| source[place] == '\'') + 1).min(source.len()),
        );
    }
    (source.get(at + 2) == Some(&'\'')).then_some(at + 3)
}

/// The place of the brace that closes the one at `open`.
pub fn closing_brace(masked: &[char], open: usize) -> usize {
    assert_eq!(masked[open], '{');
    let mut depth = 0_usize;
    for (place, character) in masked.iter().enumerate().skip(open) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place;
        }
    }
    masked.len() - 1
}

/// The body of the item whose head starts at `from`: its opening brace, unless it has none.
pub fn opening_brace(masked: &[char], from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (place, character) in masked.iter().enumerate().skip(from) {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(place),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The number of the line, counted from 1, on which a place lies.
pub fn line_of(masked: &[char], place: usize) -> usize {
    1 + masked[..place].iter().filter(|character| **character == '\n').count()
}

/// Masks, beside comments and literals, the items that are compiled for tests alone.
pub fn without_tests(masked: &[char]) -> Vec<char> {
    let mut production = masked.to_vec();
    for marker in ["#[cfg(test)]", "#[cfg(all(test"] {
        for start in find(masked, marker) {
            let head = start + marker.len();
            if let Some(open) = opening_brace(masked, head) {
                for character in &mut production[start..=closing_brace(masked, open)] {
                    if *character != '\n' {
                        *character = ' ';
                    }
                }
            }
        }
    }
    production
}

/// Every place at which the text holds the words.
pub fn find(masked: &[char], words: &str) -> Vec<usize> {
    let words: Vec<char> = words.chars().collect();
    let places = masked.windows(words.len()).enumerate();
    places.filter(|(_, window)| *window == words.as_slice()).map(|(place, _)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(text: &str) -> String {
        masked(text).into_iter().collect()
    }

    #[test]
    fn comments_and_literals_are_masked() {
        assert_eq!(mask("a // {\nb"), "a     \nb");
        assert_eq!(mask("a /* { /* */ } */ b"), "a                 b");
        assert_eq!(mask(r#"f("{\"", '{', '\'', 'a)"#), "f(     ,    ,     , 'a)");
        assert_eq!(mask("r#\"{\"}\"# br\"{\" for"), "         b     for");
    }

    #[test]
    fn items_for_tests_are_left_out() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}";
        let production: String = without_tests(&masked(text)).into_iter().collect();
        assert!(production.contains("fn a") && production.contains("fn c"));
        assert!(!production.contains("fn b"));
        let declared = masked("#[cfg(test)]\nmod tests;\nfn c() {}");
        assert_eq!(without_tests(&declared), declared);
    }

    #[test]
    fn a_body_is_found_behind_its_head() {
        let text = masked("fn a(b: [u8; 2]) -> u8 {\n {} \n}\n");
        let open = opening_brace(&text, 0).expect("a body");
        assert_eq!((line_of(&text, open), line_of(&text, closing_brace(&text, open))), (1, 3));
        assert_eq!(opening_brace(&masked("fn a();{}"), 0), None);
    }
}
