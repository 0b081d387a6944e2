//! Runs the program that was built.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What a run came to.
#[derive(Debug)]
pub struct Run {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

/// The program in an environment that holds nothing of the user's.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = tool(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments);
    command
}

/// Any program in an environment without settings of ours and of PostgreSQL's clients.
pub fn tool(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("THALWEG") || text.starts_with("PG") {
            command.env_remove(&name);
        }
    }
    command
}

pub fn thalweg(arguments: &[&str]) -> Run {
    thalweg_with_input(arguments, b"")
}

pub fn thalweg_with_input(arguments: &[&str], input: &[u8]) -> Run {
    finish(command(arguments), input)
}

pub fn finish(mut command: Command, input: &[u8]) -> Run {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program was built");
    let mut stdin = child.stdin.take().expect("it is piped");
    // A program that ends before it has read everything closes the pipe.
    let _ = stdin.write_all(input);
    drop(stdin);
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    Run {
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        code: status.code().expect("no signal ended it"),
    }
}

impl Run {
    /// The output of a run in which nothing went wrong.
    #[track_caller]
    pub fn success(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{self:?}");
        self.stdout
    }

    /// What was told on a run that ended with `code`.
    #[track_caller]
    pub fn failure(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.stderr
    }
}

/// Runs statements in memory and returns what was printed.
#[track_caller]
pub fn sql(statements: &str) -> String {
    thalweg(&["-c", statements]).success()
}

/// Runs statements on a directory and returns what was printed.
#[track_caller]
pub fn sql_on(directory: &Path, statements: &str) -> String {
    thalweg(&["--data", text(directory), "-c", statements]).success()
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("temporary directories have plain names")
}

/// A file with a content of the test's.
#[expect(clippy::disallowed_methods, reason = "a test's own file")]
pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::write(path, content).expect("temporary directories can be written");
}

#[expect(clippy::disallowed_methods, reason = "a test's own file")]
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the program wrote it")
}
