//! Display settings of results, which commands of the shell change.

use std::time::Duration;

use crate::config::{Border, Color, Expansion, Format, ShellSettings};
use crate::print::table::{Expanded, Lines, Style};
use crate::shell::pager::PagerUse;
use crate::terminal;

/// The current display settings of a shell.
#[derive(Clone, Debug)]
pub struct View {
    pub format: Format,
    pub border: Border,
    pub expanded: Expansion,
    pub null: String,
    pub timing: bool,
    pub color: Color,
    pub color_errors: bool,
    /// Ends tables with the number of rows.
    pub footer: bool,
    pub pager: PagerUse,
    /// Zero for no limit.
    pub statement_timeout: Duration,
}

impl View {
    /// The settings at the start of a shell.
    pub fn new(settings: &ShellSettings, color_errors: bool) -> View {
        View {
            format: settings.format,
            border: settings.border,
            expanded: settings.expanded,
            null: settings.null.clone(),
            timing: settings.timing,
            color: settings.color,
            color_errors,
            footer: true,
            pager: PagerUse::default(),
            statement_timeout: settings.statement_timeout.0,
        }
    }

    /// The style of a table; `expanded` is true for `\gx`.
    pub fn table_style(&self, expanded: bool, on_terminal: bool) -> Style {
        let unicode = match self.border {
            Border::Auto => on_terminal && terminal::shows_unicode(),
            Border::Ascii => false,
            Border::Unicode => true,
        };
        Style {
            lines: if unicode { Lines::Unicode } else { Lines::Ascii },
            null: self.null.clone(),
            expanded: match self.expanded {
                _ if expanded => Expanded::On,
                Expansion::Off => Expanded::Off,
                Expansion::On => Expanded::On,
                Expansion::Auto => Expanded::Auto,
            },
            columns_max: if on_terminal { terminal::columns() } else { None },
            color: terminal::wants_color(self.color, on_terminal),
            footer: self.footer,
        }
    }
}
