//! Results with a line for each value, for rows that are too wide to read as a table.

use std::io::{self, Write};

use crate::print::table::{Header, Page, Style, push_dimmed};
use crate::print::text;

/// Prints the page's rows; `first` is the number of its first row.
pub fn print(
    headers: &[Header],
    page: &Page,
    first: u64,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let names: Vec<String> =
        headers.iter().map(|header| text::printable(&header.name).replace('\n', " ")).collect();
    let name_width = names.iter().map(|name| text::width(name)).max().unwrap_or(0);
    let (vertical, horizontal) = (style.lines.vertical(), style.lines.horizontal());
    for (number, row) in page.values.chunks(headers.len().max(1)).enumerate() {
        let mut title = format!("{horizontal}[ RECORD {} ]", first + number as u64);
        let rule = (name_width + 1).saturating_sub(text::width(&title));
        title.extend(std::iter::repeat_n(horizontal, rule));
        writeln!(out, "{title}")?;
        for (name, value) in names.iter().zip(row) {
            let padding = name_width - text::width(name);
            let mut label = format!("{name}{:padding$} {vertical} ", "");
            match value {
                None => push_dimmed(&mut label, &style.null, style.color),
                Some(value) => {
                    let indent = format!("\n{:name_width$} {vertical} ", "");
                    label.push_str(&value.replace('\n', &indent));
                }
            }
            writeln!(out, "{}", label.trim_end())?;
        }
    }
    Ok(())
}
