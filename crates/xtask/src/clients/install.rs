//! Drivers, installed by their languages' own package managers.
//!
//! A client's files are copied to a directory of the cache, and what they need is installed
//! there. The text that says what is needed is kept beside: as long as it is the same, nothing is
//! asked of a package manager again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Place;
use super::program::{self, Ended};

const INSTALL_LIMIT: Duration = Duration::from_secs(240);
/// Arrow reaches into the memory of the JDK.
const ARROW_MEMORY: &str = "--add-opens=java.base/java.nio=ALL-UNNAMED";
const STAMP: &str = "installed.txt";

/// The language of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolchain {
    Shell,
    /// A shell with the tools of PostgreSQL's packages.
    PostgresTools,
    Python,
    Node,
    Go,
    Java,
}

/// Why a client is not installed.
pub enum Failure {
    /// This machine lacks something: the client is skipped.
    Missing(String),
    /// Its files are wrong.
    Broken(String),
}

impl Failure {
    /// Counts a failed package manager as a missing tool.
    fn missing(self) -> Failure {
        match self {
            Failure::Missing(reason) | Failure::Broken(reason) => Failure::Missing(reason),
        }
    }
}

impl Toolchain {
    /// The programs that must be there.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Toolchain::Shell => &["bash", "psql"],
            Toolchain::PostgresTools => {
                &["bash", "psql", "pg_dump", "pg_restore", "pg_dumpall", "pgbench"]
            }
            Toolchain::Python => &["python3"],
            Toolchain::Node => &["node", "npm"],
            Toolchain::Go => &["go"],
            Toolchain::Java => &["java", "javac", "mvn"],
        }
    }

    /// The file that says what is needed, with exact versions.
    fn manifest(self) -> Option<&'static str> {
        match self {
            Toolchain::Shell | Toolchain::PostgresTools => None,
            Toolchain::Python => Some("requirements.txt"),
            Toolchain::Node => Some("package-lock.json"),
            Toolchain::Go => Some("go.sum"),
            Toolchain::Java => Some("pom.xml"),
        }
    }

    /// The commands that install what the manifest names.
    fn steps(self) -> &'static [&'static [&'static str]] {
        match self {
            Toolchain::Shell | Toolchain::PostgresTools => &[],
            Toolchain::Python => &[
                &["python3", "-m", "venv", "venv"],
                &["venv/bin/python", "-m", "pip", "install", "--quiet", "-r", "requirements.txt"],
            ],
            Toolchain::Node => &[&["npm", "ci", "--silent", "--no-audit", "--no-fund"]],
            Toolchain::Go => &[&["go", "mod", "download"]],
            Toolchain::Java => {
                &[&["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]]
            }
        }
    }

    /// The command that runs a program; and the file that an example is written to.
    fn example(self) -> (&'static [&'static str], &'static str) {
        match self {
            Toolchain::Shell | Toolchain::PostgresTools => {
                (&["bash", "-eu", "example.sh"], "example.sh")
            }
            Toolchain::Python => (&["venv/bin/python", "example.py"], "example.py"),
            Toolchain::Node => (&["node", "example.js"], "example.js"),
            Toolchain::Go => (&["go", "run", "./example"], "example/main.go"),
            Toolchain::Java => {
                (&["java", ARROW_MEMORY, "-cp", "lib/*", "Example.java"], "Example.java")
            }
        }
    }

    /// The command that builds the checks, where they are built; `support` is what clients share.
    fn build(self, support: &Path) -> Option<Vec<String>> {
        let words: &[&str] = match self {
            Toolchain::Go => &["go", "build", "-o", "client", "."],
            Toolchain::Java => &["javac", "-d", "classes", "-cp", "lib/*", "Client.java"],
            Toolchain::Shell | Toolchain::PostgresTools | Toolchain::Python | Toolchain::Node => {
                return None;
            }
        };
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        if self == Toolchain::Java {
            words.push(support.join("Checks.java").display().to_string());
        }
        Some(words)
    }

    fn checks(self) -> &'static [&'static str] {
        match self {
            Toolchain::Shell | Toolchain::PostgresTools => &["bash", "test.sh"],
            Toolchain::Python => &["venv/bin/python", "test.py"],
            Toolchain::Node => &["node", "test.js"],
            Toolchain::Go => &["./client"],
            Toolchain::Java => &["java", ARROW_MEMORY, "-cp", "classes:lib/*", "Client"],
        }
    }
}

/// A client that can be run.
pub struct Installed {
    directory: PathBuf,
    support: PathBuf,
    toolchain: Toolchain,
}

impl Installed {
    /// The path of the file that receives the client's output.
    pub fn log(&self) -> PathBuf {
        self.directory.join("output.log")
    }

    /// The command that runs the client's checks.
    pub fn command(&self) -> Command {
        self.within(self.toolchain.checks())
    }

    /// Writes an example, and gives the command that runs it.
    pub fn example(&self, text: &str) -> Result<Command, String> {
        let (words, file) = self.toolchain.example();
        let path = self.directory.join(file);
        let directory = path.parent().expect("an example lies in a directory");
        let written = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, text));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(self.within(words))
    }

    fn within(&self, words: &[&str]) -> Command {
        let mut command = command_in(&self.directory, words);
        command.env("PYTHONPATH", &self.support);
        command
    }
}

/// Copies a client's files to the cache, and installs what they need unless it is there.
pub fn install(name: &str, toolchain: Toolchain, place: &Place<'_>) -> Result<Installed, Failure> {
    for program in toolchain.programs() {
        if !program::is_there(program) {
            return Err(Failure::Missing(format!("{program} is not on this machine")));
        }
    }
    let clients = place.root.join("tests/clients");
    let (source, directory) = (clients.join(name), place.cache.join(name));
    let wanted = match toolchain.manifest() {
        Some(manifest) => std::fs::read_to_string(source.join(manifest))
            .map_err(|error| Failure::Broken(format!("{name}/{manifest}: {error}")))?,
        None => String::new(),
    };
    let stamp = directory.join(STAMP);
    let is_installed = std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted);
    if !is_installed {
        let _ = std::fs::remove_dir_all(&directory);
    }
    copy(&source, &directory).map_err(|error| Failure::Broken(format!("{name}: {error}")))?;
    if !is_installed {
        for step in toolchain.steps() {
            run_step(step, &directory, place).map_err(Failure::missing)?;
        }
        let written = std::fs::write(&stamp, wanted);
        written.map_err(|error| Failure::Missing(format!("{}: {error}", stamp.display())))?;
    }
    let support = clients.join("support");
    if let Some(build) = toolchain.build(&support) {
        let build: Vec<&str> = build.iter().map(String::as_str).collect();
        run_step(&build, &directory, place)?;
    }
    Ok(Installed { directory, support, toolchain })
}

fn run_step(words: &[&str], directory: &Path, place: &Place<'_>) -> Result<(), Failure> {
    let limit = place.limit(INSTALL_LIMIT);
    let log = directory.join("install.log");
    let ran = program::run(&mut command_in(directory, words), &log, limit);
    let (ended, output) = ran.map_err(Failure::Missing)?;
    let message = || format!("{} {ended}\n{}", words.join(" "), program::tail(&output));
    match ended {
        Ended::Success => Ok(()),
        // A slow machine, or a slow network.
        Ended::TimedOut => Err(Failure::Missing(message())),
        Ended::Failure(_) => Err(Failure::Broken(message())),
    }
}

fn command_in(directory: &Path, words: &[&str]) -> Command {
    let (program, arguments) = words.split_first().expect("a command has a name");
    // Programs that were installed here are named from here.
    let is_ours = program.contains('/');
    let mut command = match is_ours {
        true => Command::new(directory.join(program)),
        false => Command::new(program),
    };
    command.args(arguments).current_dir(directory).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Copies the files of a directory.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
