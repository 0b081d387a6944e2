//! RESULTS.md.

use super::Report;
use super::numbers::{ratio, spread, wanted};
use crate::finding::Finding;

const HEAD: [&str; 6] = ["work", "ours", "peer", "peer's", "ratio", "wanted"];

/// The whole document.
pub fn report(report: &Report) -> String {
    let mut text = format!(
        "# Results\n\nMeasured on {} on {}, the build of `cargo build --release`. Each number is \
         the median of its runs with the least and the greatest; ours and the peer's took turns \
         in one run. A ratio is ours divided by the peer's. `thalweg bench all` made this file \
         and [report.html](report.html), the same with plots.\n",
        report.machine, report.date,
    );
    for section in &report.sections {
        text.push_str(&format!("\n## {}\n\n{}.\n\n", section.name, capital(section.about)));
        text.push_str(&table(&section.findings.findings));
        for finding in section.findings.findings.iter().filter(|finding| !finding.note.is_empty()) {
            text.push_str(&format!("\n*{}*: {}\n", finding.work, finding.note));
        }
    }
    text
}

/// A table with a row for each finding, padded so that columns align.
pub fn table(findings: &[Finding]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(findings.iter().map(cells));
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect();
    rows.insert(1, rule);
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn cells(finding: &Finding) -> Vec<String> {
    let (peer, peers) = finding.peer.as_ref().map_or_else(
        || (String::new(), String::new()),
        |(name, samples)| (name.clone(), spread(samples, finding.unit)),
    );
    let ours = spread(&finding.ours, finding.unit);
    vec![finding.work.clone(), ours, peer, peers, ratio(finding), wanted(finding)]
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
    format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
}

/// The text with its first letter in upper case.
pub fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Unit, Wanted};
    use crate::samples::Samples;

    #[test]
    fn a_table_is_aligned() {
        let finding = Finding::new("load", Unit::Seconds, 2.0)
            .beside("DuckDB", Samples::from(4.0))
            .wanted(Wanted::RatioAtMost(1.0));
        let expected = "\
            | work | ours   | peer   | peer's | ratio | wanted    |\n\
            | ---- | ------ | ------ | ------ | ----- | --------- |\n\
            | load | 2.00 s | DuckDB | 4.00 s | 0.50x | ≤ 1.00x ✓ |\n";
        assert_eq!(table(&[finding]), expected);
    }
}
