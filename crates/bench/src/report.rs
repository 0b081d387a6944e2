//! Findings as text: a table for terminals and RESULTS.md, a page with plots for a browser.

mod html;
mod markdown;
mod numbers;
mod plot;

use crate::finding::{Finding, Findings};

/// The findings of one workload, under its name.
pub struct Section {
    pub name: &'static str,
    pub about: &'static str,
    pub findings: Findings,
}

/// All findings of a run, with its machine.
pub struct Report {
    pub machine: String,
    pub date: String,
    pub sections: Vec<Section>,
}

impl Report {
    /// The report as Markdown.
    pub fn markdown(&self) -> String {
        markdown::report(self)
    }

    /// The report as a self-contained HTML page.
    pub fn html(&self) -> String {
        html::report(self)
    }
}

/// Findings as a Markdown table, aligned so that it is also readable in a terminal.
pub fn table(findings: &[Finding]) -> String {
    markdown::table(findings)
}
