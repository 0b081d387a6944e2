//! What is known about the terminal, if there is one.

use std::io::IsTerminal as _;

use crate::config::Color;

/// The width of the terminal that standard output goes to.
pub fn columns() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(usize::from(width.0))
}

/// Whether the locale lets a terminal show more than ASCII. The first variable that is set counts.
pub fn shows_unicode() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
        .is_some_and(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        })
}

/// Whether something that `is_terminal` or not is written to in colour.
pub fn wants_color(color: Color, is_terminal: bool) -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => is_terminal && !forbidden && !dumb,
    }
}

/// Whether a person watches what happens: a terminal on both sides.
pub fn is_watched() -> bool {
    std::io::stderr().is_terminal() && std::io::stdout().is_terminal()
}
