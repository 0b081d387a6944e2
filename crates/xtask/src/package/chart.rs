//! The Helm chart as an archive, as `helm package` makes it: the directory of the chart with the
//! version of this build.

use std::path::{Path, PathBuf};

use super::contents::Entry;
use super::{Job, archive, at};

/// Writes the chart and returns its path.
pub fn build(job: &Job<'_>) -> Result<PathBuf, String> {
    let directory = job.root.join("packaging/chart/thalweg");
    let path = job.out.join(format!("thalweg-{}.tgz", job.version));
    let mut entries = Vec::new();
    for file in files(&directory)? {
        let place = file.strip_prefix(&directory).expect("found below the directory");
        let place = place.to_string_lossy().replace('\\', "/");
        entries.push(match place.as_str() {
            "Chart.yaml" => {
                let text = std::fs::read_to_string(&file).map_err(at(&file))?;
                Entry::bytes(&place, 0o644, with_version(&text, job.version))
            }
            _ => Entry::file(&place, 0o644, file),
        });
    }
    archive::write_gzipped(&path, "thalweg/", &entries)?;
    Ok(path)
}

/// Every file below a directory, in order.
fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).map_err(at(&directory))? {
            let path = entry.map_err(at(&directory))?.path();
            if path.is_dir() { directories.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

/// The chart's description with the version of chart and program replaced.
fn with_version(text: &str, version: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(": ") {
        Some((key @ ("version" | "appVersion"), _)) => format!("{key}: \"{version}\"\n"),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_chart_and_program_are_replaced() {
        let text = "apiVersion: v2\nname: thalweg\nversion: 0.0.0\nappVersion: \"0.0.0\"\n";
        let expected = "apiVersion: v2\nname: thalweg\nversion: \"1.2.3\"\nappVersion: \"1.2.3\"\n";
        assert_eq!(with_version(text, "1.2.3"), expected);
    }
}
