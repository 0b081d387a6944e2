//! report.html: a self-contained file, which loads nothing when it is opened.

use super::markdown::capital;
use super::numbers::{ratio, spread, wanted};
use super::plot::{bars, lines};
use super::{Report, Section};
use crate::finding::Finding;

const STYLE: &str = "
:root { color-scheme: light dark; --ours: #0b7285; --peer: #adb5bd; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1, h2 { font-weight: 600 } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line) }
th { font-weight: 600 } p.note, figcaption { opacity: .75; font-size: .9em }
svg { width: 100%; height: auto; margin-top: 1rem } svg text { fill: currentColor; font-size: 12px }
figure { margin: 1rem 0 }
";

/// The whole page.
pub fn report(report: &Report) -> String {
    let sections: String = report.sections.iter().map(section).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Thalweg: results</title>\n<style>{STYLE}</style>\n\
         <h1>Thalweg: results</h1>\n<p>Measured on {} on {}. Each number is the median of its \
         runs with the least and the greatest; ours and the peer's took turns in one run.</p>\n\
         {sections}</html>\n",
        escaped(&report.machine),
        escaped(&report.date),
    )
}

fn section(section: &Section) -> String {
    let rows: String = section.findings.findings.iter().map(row).collect();
    let notes: String = section
        .findings
        .findings
        .iter()
        .filter(|finding| !finding.note.is_empty())
        .map(|finding| {
            format!(
                "<p class=\"note\"><b>{}</b>: {}</p>\n",
                escaped(&finding.work),
                escaped(&finding.note)
            )
        })
        .collect();
    let charts: String = section.findings.charts.iter().map(lines).collect();
    format!(
        "<h2>{}</h2>\n<p>{}.</p>\n<table>\n<tr><th>work<th>ours<th>peer<th>peer's<th>ratio\
         <th>wanted</tr>\n{rows}</table>\n{notes}{}{charts}",
        escaped(section.name),
        escaped(&capital(section.about)),
        bars(&section.findings.findings),
    )
}

fn row(finding: &Finding) -> String {
    let (peer, peers) = finding.peer.as_ref().map_or_else(
        || (String::new(), String::new()),
        |(name, samples)| (escaped(name), spread(samples, finding.unit)),
    );
    format!(
        "<tr><td>{}<td>{}<td>{peer}<td>{peers}<td>{}<td>{}</tr>\n",
        escaped(&finding.work),
        spread(&finding.ours, finding.unit),
        ratio(finding),
        wanted(finding),
    )
}

/// Escapes the characters that HTML reserves.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
