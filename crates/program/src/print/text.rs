//! Text as a terminal shows it: widths, cuts, and no characters that control the terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

const TAB_STOP: usize = 8;

/// Number of terminal columns that a text takes.
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// The text with control characters spelled out, so that data cannot move the cursor or worse.
///
/// Line feeds stay; tabs become spaces up to the next multiple of eight.
pub fn printable(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| c == '\n' || !c.is_control() && !steers_direction(c);
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 8);
    let mut column = 0;
    for c in text.chars() {
        let before = clean.len();
        match c {
            '\n' => {
                clean.push('\n');
                column = 0;
                continue;
            }
            '\t' => clean.extend(std::iter::repeat_n(' ', TAB_STOP - column % TAB_STOP)),
            '\r' => clean.push_str("\\r"),
            c if harmless(c) => clean.push(c),
            c if c.is_ascii() => write_escape(&mut clean, format_args!("\\x{:02X}", c as u32)),
            c => write_escape(&mut clean, format_args!("\\u{:04X}", c as u32)),
        }
        column += width(&clean[before..]);
    }
    Cow::Owned(clean)
}

fn write_escape(clean: &mut String, escape: std::fmt::Arguments<'_>) {
    clean.write_fmt(escape).expect("writing to a string does not fail");
}

/// Characters that reverse the order in which their neighbours are shown.
fn steers_direction(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// The text in at most `columns` columns; `…` marks a cut.
pub fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let end = end_within(text, columns.saturating_sub(1));
    Cow::Owned(format!("{}…", &text[..end]))
}

/// Number of bytes of the text that fit into `columns` columns.
pub fn end_within(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(printable("plain\nlines"), "plain\nlines");
        assert_eq!(printable("a\tb\u{1b}[2J\r\0"), "a       b\\x1B[2J\\r\\x00");
        assert_eq!(printable("\u{202e}evil\u{85}"), "\\u202Eevil\\u0085");
        assert_eq!(printable("1\n\t2"), "1\n        2");
    }

    #[test]
    fn cuts_respect_wide_characters() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(width("日本"), 4);
    }
}
