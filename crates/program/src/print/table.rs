//! Results as aligned tables, in the layout of psql.
//!
//! Rows are printed in pages, so that a result of any size takes little memory. A page decides the
//! widths of its columns. If a later page needs wider ones, the header is printed again above it.

use std::io::{self, Write};

use crate::print::expanded;
use crate::print::text;

/// A page is printed when it holds this many rows …
const PAGE_ROWS: usize = 1_000;
/// … or this many bytes of text.
const PAGE_BYTES: usize = 1 << 20;
/// Minimum width of a column in a table that is cut to the terminal's width.
const CUT_COLUMNS_MIN: usize = 8;

/// Characters that separate columns and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    Ascii,
    Unicode,
}

impl Lines {
    /// The line between columns.
    pub fn vertical(self) -> char {
        if self == Lines::Unicode { '│' } else { '|' }
    }

    /// The line below the header.
    pub fn horizontal(self) -> char {
        if self == Lines::Unicode { '─' } else { '-' }
    }

    /// The crossing of both lines.
    pub fn cross(self) -> char {
        if self == Lines::Unicode { '┼' } else { '+' }
    }
}

/// Setting for showing each value on a line of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expanded {
    Off,
    On,
    /// On if a table would be wider than the terminal.
    Auto,
}

/// The appearance of tables.
#[derive(Clone, Debug)]
pub struct Style {
    pub lines: Lines,
    /// Text for NULL.
    pub null: String,
    pub expanded: Expanded,
    /// Maximum width: the terminal's, if there is one.
    pub columns_max: Option<usize>,
    pub color: bool,
    /// Shows the number of rows at the end.
    pub footer: bool,
}

/// The name and alignment of a column.
#[derive(Clone, Debug)]
pub struct Header {
    pub name: String,
    pub align_right: bool,
}

/// Rows that wait to be printed: their values one after the other, `None` for NULL.
#[derive(Default)]
pub struct Page {
    pub values: Vec<Option<String>>,
    bytes: usize,
}

impl Page {
    fn push(&mut self, value: Option<String>) {
        self.bytes += value.as_ref().map_or(0, String::len);
        self.values.push(value);
    }
}

/// Formats rows as a table, page by page.
pub struct TablePrinter {
    style: Style,
    headers: Vec<Header>,
    /// Widths of the columns of all rows so far, uncut.
    natural: Vec<usize>,
    /// Widths of the columns when last printed; empty before the first page.
    printed: Vec<usize>,
    page: Page,
    rows_in_page: usize,
    rows: u64,
    /// Decided with the first page.
    is_expanded: Option<bool>,
}

impl TablePrinter {
    /// A printer without rows. The first page decides the layout.
    pub fn new(headers: Vec<Header>, style: Style) -> TablePrinter {
        let natural = headers.iter().map(|header| text::width(&header.name)).collect();
        TablePrinter {
            style,
            headers,
            natural,
            printed: Vec::new(),
            page: Page::default(),
            rows_in_page: 0,
            rows: 0,
            is_expanded: None,
        }
    }

    /// Adds a row; prints a page when it is full.
    pub fn push_row(
        &mut self,
        values: impl Iterator<Item = Option<String>>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let before = self.page.values.len();
        for value in values {
            self.page.push(value.map(|value| match text::printable(&value) {
                std::borrow::Cow::Borrowed(_) => value,
                std::borrow::Cow::Owned(clean) => clean,
            }));
        }
        assert_eq!(self.page.values.len() - before, self.headers.len(), "one value for a column");
        self.rows_in_page += 1;
        self.rows += 1;
        if self.rows_in_page == PAGE_ROWS || self.page.bytes >= PAGE_BYTES {
            self.print_page(out)?;
        }
        Ok(())
    }

    /// Prints the remaining rows and the number of rows.
    pub fn finish(mut self, out: &mut dyn Write) -> io::Result<u64> {
        if self.rows_in_page > 0 || self.rows == 0 {
            self.print_page(out)?;
        }
        let shown = self.printed.len();
        if self.style.footer {
            let rows = if self.rows == 1 { "row" } else { "rows" };
            write!(out, "({} {rows}", self.rows)?;
            if self.is_expanded == Some(false) && shown < self.headers.len() {
                write!(out, "; {shown} of {} columns, \\x shows all", self.headers.len())?;
            }
            writeln!(out, ")")?;
        }
        writeln!(out)?;
        Ok(self.rows)
    }

    fn print_page(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let page = std::mem::take(&mut self.page);
        let rows = std::mem::take(&mut self.rows_in_page);
        self.measure(&page);
        let is_first = self.is_expanded.is_none();
        let is_expanded = *self.is_expanded.get_or_insert(match self.style.expanded {
            Expanded::Off => false,
            Expanded::On => true,
            Expanded::Auto => {
                self.style.columns_max.is_some_and(|most| total_width(&self.natural) > most)
            }
        });
        if is_expanded {
            let first = self.rows + 1 - rows as u64;
            return expanded::print(&self.headers, &page, first, &self.style, out);
        }
        let widths = match self.style.columns_max {
            Some(most) => fit(&self.natural, most),
            None => self.natural.clone(),
        };
        if is_first || widths != self.printed {
            self.printed = widths;
            self.print_header(out)?;
        }
        if self.headers.is_empty() {
            return Ok(());
        }
        page.values.chunks(self.headers.len()).try_for_each(|row| self.print_row(row, out))
    }

    fn measure(&mut self, page: &Page) {
        let null = text::width(&self.style.null);
        for (place, value) in page.values.iter().enumerate() {
            let column = place % self.natural.len();
            let width = value.as_ref().map_or(null, |value| {
                // A mark after a line that continues takes the place of the padding.
                value.split('\n').map(text::width).max().unwrap_or(0)
            });
            self.natural[column] = self.natural[column].max(width);
        }
    }

    fn print_header(&self, out: &mut dyn Write) -> io::Result<()> {
        let lines = self.style.lines;
        let mut titles = String::new();
        let mut rule = String::new();
        for (column, (header, &width)) in self.headers.iter().zip(&self.printed).enumerate() {
            if column > 0 {
                titles.push(lines.vertical());
                rule.push(lines.cross());
            }
            let title = text::printable(&header.name).replace('\n', " ");
            titles.push(' ');
            push_aligned(&mut titles, &text::cut(&title, width), width, header.align_right);
            titles.push(' ');
            rule.extend(std::iter::repeat_n(lines.horizontal(), width + 2));
        }
        if rule.is_empty() {
            rule.extend([lines.horizontal(); 2]);
        }
        writeln!(out, "{}\n{rule}", titles.trim_end())
    }

    /// Prints a row on as many lines as its value with the most lines has.
    fn print_row(&self, row: &[Option<String>], out: &mut dyn Write) -> io::Result<()> {
        let shown = &row[..self.printed.len()];
        let height = shown.iter().flatten().map(|value| value.matches('\n').count()).max();
        let height = height.unwrap_or(0) + 1;
        let mut line = String::new();
        for number in 0..height {
            line.clear();
            for (column, value) in shown.iter().enumerate() {
                if column > 0 {
                    line.push(self.style.lines.vertical());
                }
                self.push_cell(&mut line, value.as_deref(), number, column);
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Line `number` of a value, with the mark `+` where a further line follows.
    fn push_cell(&self, line: &mut String, value: Option<&str>, number: usize, column: usize) {
        let width = self.printed[column];
        let align_right = self.headers[column].align_right;
        line.push(' ');
        let mut goes_on = false;
        match value {
            None if number == 0 => {
                let null = text::cut(&self.style.null, width);
                let padding = width - text::width(&null);
                let (before, after) = if align_right { (padding, 0) } else { (0, padding) };
                line.extend(std::iter::repeat_n(' ', before));
                push_dimmed(line, &null, self.style.color);
                line.extend(std::iter::repeat_n(' ', after));
            }
            Some(value) => {
                let mut lines = value.split('\n').skip(number);
                let part = lines.next().unwrap_or("");
                goes_on = lines.next().is_some();
                push_aligned(line, &text::cut(part, width), width, align_right);
            }
            None => line.extend(std::iter::repeat_n(' ', width)),
        }
        line.push(if goes_on { '+' } else { ' ' });
    }
}

/// Appends a value, dimmed if `color` is set.
pub fn push_dimmed(line: &mut String, value: &str, color: bool) {
    if color {
        line.push_str("\x1b[2m");
        line.push_str(value);
        line.push_str("\x1b[0m");
    } else {
        line.push_str(value);
    }
}

fn push_aligned(line: &mut String, value: &str, width: usize, align_right: bool) {
    let padding = width.saturating_sub(text::width(value));
    let (before, after) = if align_right { (padding, 0) } else { (0, padding) };
    line.extend(std::iter::repeat_n(' ', before));
    line.push_str(value);
    line.extend(std::iter::repeat_n(' ', after));
}

/// A space on both sides of a column, and a line between two.
fn total_width(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + 3).sum::<usize>().saturating_sub(1)
}

/// The widths with which a table fits: the widest columns are cut to one common width. If that is
/// not enough, the last columns are left out.
fn fit(natural: &[usize], columns_max: usize) -> Vec<usize> {
    if total_width(natural) <= columns_max {
        return natural.to_vec();
    }
    let capped = |cap: usize| natural.iter().map(|&width| width.min(cap)).collect::<Vec<_>>();
    let widest = natural.iter().copied().max().unwrap_or(0);
    // Finds the first cap that is too wide; all caps below it fit.
    let caps: Vec<usize> = (CUT_COLUMNS_MIN..=widest).collect();
    let too_wide = caps.partition_point(|&cap| total_width(&capped(cap)) <= columns_max);
    if too_wide > 0 {
        return capped(caps[too_wide - 1]);
    }
    let mut widths = capped(CUT_COLUMNS_MIN);
    while widths.len() > 1 && total_width(&widths) > columns_max {
        widths.pop();
    }
    widths
}

#[cfg(test)]
mod tests;
