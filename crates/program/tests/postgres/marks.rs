//! Parts of a statement that a shorter statement may leave out.
//!
//! Generators mark parts of the text; a mismatch is shortened by leaving out one part after the
//! other for as long as the answers still differ.

const OPEN: char = '\u{1}';
const ELSE: char = '\u{2}';
const CLOSE: char = '\u{3}';

/// A part that may be left out.
pub fn optional(part: &str) -> String {
    instead(part, "")
}

/// A part that a simpler one may take the place of.
pub fn instead(part: &str, simpler: &str) -> String {
    match part.is_empty() {
        true => String::new(),
        false => format!("{OPEN}{part}{ELSE}{simpler}{CLOSE}"),
    }
}

/// A list with commas. Each item but the first may be left out.
pub fn list(items: &[String]) -> String {
    joined(items, ", ")
}

/// Items between separators. Each but the first may be left out.
pub fn joined(items: &[String], separator: &str) -> String {
    let mut text = items.first().cloned().unwrap_or_default();
    for item in items.iter().skip(1) {
        text += &optional(&format!("{separator}{item}"));
    }
    text
}

/// The whole statement, without marks.
pub fn plain(marked: &str) -> String {
    let (mut text, mut skipped) = (String::new(), 0);
    // Depths at which a simpler part begins: it lasts until its mark is closed.
    let mut depth = 0;
    for character in marked.chars() {
        match character {
            OPEN => depth += 1,
            ELSE if skipped == 0 => skipped = depth,
            ELSE => {}
            CLOSE => {
                if skipped == depth {
                    skipped = 0;
                }
                depth -= 1;
            }
            _ if skipped == 0 => text.push(character),
            _ => {}
        }
    }
    text
}

/// The statements that are shorter by one part, those without the longest parts first.
pub fn shorter(marked: &str) -> Vec<String> {
    let mut open = Vec::new();
    let mut parts = Vec::new();
    for (place, character) in marked.char_indices() {
        match character {
            OPEN => open.push((place, place)),
            ELSE => open.last_mut().expect("marks nest").1 = place,
            CLOSE => {
                let (start, middle) = open.pop().expect("marks nest");
                parts.push((start, middle, place));
            }
            _ => {}
        }
    }
    parts.sort_by_key(|(start, middle, _)| std::cmp::Reverse(middle - start));
    let without = parts.into_iter().map(|(start, middle, end)| {
        format!("{}{}{}", &marked[..start], &marked[middle + 1..end], &marked[end + 1..])
    });
    without.collect()
}

#[test]
fn parts_are_left_out_one_by_one() {
    let marked = format!("a{}", instead(&format!("b{}", optional("c")), "d"));
    assert_eq!(plain(&marked), "abc");
    let shorter: Vec<String> = shorter(&marked).iter().map(|marked| plain(marked)).collect();
    assert_eq!(shorter, ["ad", "ab"]);
}
