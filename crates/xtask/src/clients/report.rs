//! The clients' reports in the Test Anything Protocol, and the verdict on each.

use std::path::Path;

/// The outcome of a client.
pub enum Verdict {
    Passed { version: String, checks: usize, known: Vec<String>, mended: Vec<String> },
    Failed(String),
    Skipped(String),
}

impl Verdict {
    /// This verdict with a failure that was found after the checks.
    pub fn and_failed(self, message: String) -> Verdict {
        match self {
            Verdict::Failed(reason) => Verdict::Failed(format!("{message}\n{reason}")),
            Verdict::Passed { .. } | Verdict::Skipped(_) => Verdict::Failed(message),
        }
    }

    /// Prints the verdict on the client `name` to standard output.
    pub fn print(&self, name: &str) {
        match self {
            Verdict::Passed { version, checks, known, mended } => {
                println!("{name:<14} passed   {checks} checks; {version}");
                for line in known {
                    println!("{:14} known    {line}", "");
                }
                for line in mended {
                    println!("{:14} mended   {line}: take it off tests/clients/known.txt", "");
                }
            }
            Verdict::Failed(reason) => println!("{name:<14} FAILED   {}", indented(reason)),
            Verdict::Skipped(reason) => println!("{name:<14} skipped  {}", indented(reason)),
        }
    }
}

fn indented(text: &str) -> String {
    text.replace('\n', &format!("\n{:24}", ""))
}

/// Prints the numbers; returns how many failed.
pub fn summary(verdicts: &[Verdict]) -> usize {
    let count = |wanted: fn(&Verdict) -> bool| verdicts.iter().filter(|v| wanted(v)).count();
    let passed = count(|verdict| matches!(verdict, Verdict::Passed { .. }));
    let failed = count(|verdict| matches!(verdict, Verdict::Failed(_)));
    let skipped = count(|verdict| matches!(verdict, Verdict::Skipped(_)));
    println!("clients: {passed} passed, {failed} failed, {skipped} skipped");
    failed
}

/// Checks that are known to fail, each with the reason: `client: check: reason`, a line each.
pub struct Known {
    entries: Vec<(String, String)>,
}

impl Known {
    /// Reads the list of known failures. Fails if the file is missing or malformed.
    pub fn read(path: &Path) -> Result<Known, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Known::parse(&text)
    }

    fn parse(text: &str) -> Result<Known, String> {
        let mut entries = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut parts = line.splitn(3, ": ");
            let (Some(client), Some(check), Some(_reason)) =
                (parts.next(), parts.next(), parts.next())
            else {
                return Err(format!("not `client: check: reason`: {line}"));
            };
            entries.push((client.to_owned(), check.to_owned()));
        }
        Ok(Known { entries })
    }

    fn has(&self, client: &str, check: &str) -> bool {
        self.entries.iter().any(|(of, name)| of == client && name == check)
    }
}

/// The checks of one client.
#[derive(Default)]
pub struct Checks {
    version: String,
    checks: Vec<Check>,
    planned: Option<usize>,
}

struct Check {
    name: String,
    passed: bool,
    /// The lines printed about it.
    output_lines: String,
}

/// Reads what a client printed.
pub fn parse(output: &str) -> Checks {
    let mut checks = Checks::default();
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("ok ") {
            checks.passed(title(name));
        } else if let Some(name) = line.strip_prefix("not ok ") {
            checks.failed(title(name), String::new());
        } else if let Some(planned) = line.strip_prefix("1..") {
            checks.planned = planned.parse().ok();
        } else if let Some(check) = checks.checks.last_mut() {
            check.output_lines.push_str(line.trim_start_matches('#').trim_start());
            check.output_lines.push('\n');
        } else if let Some(version) = line.strip_prefix("# ") {
            checks.version = version.to_owned();
        }
    }
    checks
}

/// The name behind a check's number.
fn title(numbered: &str) -> String {
    numbered.split_once(" - ").map_or(numbered, |(_, name)| name).to_owned()
}

impl Checks {
    /// Adds a check that passed.
    pub fn passed(&mut self, name: String) {
        self.checks.push(Check { name, passed: true, output_lines: String::new() });
    }

    /// Adds a check that failed, with its output.
    pub fn failed(&mut self, name: String, output_lines: String) {
        self.checks.push(Check { name, passed: false, output_lines });
    }

    /// True if there were checks, and as many as the client planned.
    pub fn are_complete(&self) -> bool {
        !self.checks.is_empty() && self.planned == Some(self.checks.len())
    }

    /// The verdict on a client: it fails if a check failed that is not a known failure.
    pub fn verdict(self, client: &str, known: &Known) -> Verdict {
        let mut unknown = Vec::new();
        let mut expected = Vec::new();
        let mut mended = Vec::new();
        for check in &self.checks {
            match (check.passed, known.has(client, &check.name)) {
                (true, false) => {}
                (true, true) => mended.push(check.name.clone()),
                (false, true) => expected.push(check.name.clone()),
                (false, false) => {
                    unknown.push(format!("{}\n{}", check.name, check.output_lines.trim_end()));
                }
            }
        }
        if !unknown.is_empty() {
            let of = format!("{} of {} checks; {}", unknown.len(), self.checks.len(), self.version);
            return Verdict::Failed(format!("{of}\n{}", unknown.join("\n")));
        }
        let checks = self.checks.len() - expected.len();
        Verdict::Passed { version: self.version, checks, known: expected, mended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "# driver 1.2\nok 1 - reads\nnot ok 2 - writes\n#   why\n1..2\n";

    #[test]
    fn a_failed_check_fails_the_client_unless_it_is_known() {
        let known = Known::parse("# why\n\ndriver: writes: not there yet\n").unwrap();
        let nothing = Known::parse("").unwrap();
        match parse(OUTPUT).verdict("driver", &nothing) {
            Verdict::Failed(output_lines) => {
                assert_eq!(output_lines, "1 of 2 checks; driver 1.2\nwrites\nwhy")
            }
            _ => panic!("a failed check is a failure"),
        }
        match parse(OUTPUT).verdict("driver", &known) {
            Verdict::Passed { checks, known, .. } => assert_eq!((checks, known.len()), (1, 1)),
            _ => panic!("a known defect is none that fails"),
        }
        assert!(matches!(parse(OUTPUT).verdict("other", &known), Verdict::Failed(_)));
    }

    #[test]
    fn a_client_that_ends_early_is_not_complete() {
        assert!(parse(OUTPUT).are_complete());
        assert!(!parse(&OUTPUT.replace("1..2\n", "")).are_complete());
        assert!(!parse("").are_complete());
        assert!(!parse("1..0\n").are_complete());
    }

    #[test]
    fn what_works_again_is_told() {
        let known = Known::parse("driver: reads: not there yet\n").unwrap();
        match parse("ok 1 - reads\n1..1\n").verdict("driver", &known) {
            Verdict::Passed { mended, .. } => assert_eq!(mended, ["reads"]),
            _ => panic!("all checks passed"),
        }
        assert!(Known::parse("driver: reads").is_err());
    }
}
