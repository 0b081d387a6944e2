//! Properties of the terminal, if there is one.

use std::io::IsTerminal as _;

use crate::config::Color;

/// The width of the terminal that standard output goes to.
pub fn columns() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(usize::from(width.0))
}

/// The columns and lines of the terminal, if standard input and standard output are one.
pub fn size() -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size_of(std::io::stdout())?;
    std::io::stdin().is_terminal().then_some((usize::from(width.0), usize::from(height.0)))
}

/// True if the locale lets a terminal show more than ASCII. The first variable that is set counts.
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

/// True if an output gets colours; `is_terminal` says if it is a terminal.
pub fn wants_color(color: Color, is_terminal: bool) -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => is_terminal && !forbidden && !dumb,
    }
}

/// True if a person watches: standard output and standard error are both terminals.
pub fn is_watched() -> bool {
    std::io::stderr().is_terminal() && std::io::stdout().is_terminal()
}
