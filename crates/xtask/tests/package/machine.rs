//! Tools of this machine: programs, packages to test, and sandboxes.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

/// Exit status of a script that says that this machine cannot do its work.
const IMPOSSIBLE: i32 = 77;

const SCRIPTS: &[(&str, &str)] = &[
    ("sandbox.sh", include_str!("scripts/sandbox.sh")),
    ("service.sh", include_str!("scripts/service.sh")),
    ("deb.sh", include_str!("scripts/deb.sh")),
    ("rpm.sh", include_str!("scripts/rpm.sh")),
    ("image.sh", include_str!("scripts/image.sh")),
];

/// Says what is left out. The harness shows this line although the test passes.
pub fn skip(what: &str, why: &str) {
    // Macros that print would be captured.
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
}

/// The path of a program, if this machine has it.
pub fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let extra = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let tools = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/thalweg/tools"));
    let directories = std::env::split_paths(&path).chain(extra).chain(tools);
    directories.map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// The workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two levels down").to_owned()
}

/// Runs a command that must succeed and returns its output.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// The program that packages contain.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<(PathBuf, Option<TempDir>)> = OnceLock::new();
    let (program, _) = PROGRAM.get_or_init(|| {
        if let Some(named) = std::env::var_os("THALWEG_PROGRAM") {
            return (PathBuf::from(named), None);
        }
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("thalweg");
        let source = root().join("crates/xtask/tests/package/stand_in.rs");
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(rustc);
        command.args(["--edition", "2024", "-O", "-o"]).arg(&program).arg(source);
        run(&mut command);
        (program, Some(directory))
    });
    program
}

/// Makes one package of one version from a workspace; returns its path.
pub fn package(workspace: &Path, kind: &str, version: &str, out: &Path) -> PathBuf {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.env("CARGO_MANIFEST_DIR", workspace.join("crates/xtask"));
    command.args(["package", kind, "--version", version, "--out"]).arg(out);
    command.arg("--program").arg(program());
    let path = PathBuf::from(run(&mut command).trim());
    assert!(path.is_file(), "{} is there", path.display());
    path
}

/// A copy of everything in the workspace that packages contain, with another default
/// configuration: the next version of the same package.
pub fn next_workspace(directory: &Path) {
    let from = root();
    std::fs::create_dir_all(directory.join("docs")).expect("a directory");
    for file in ["LICENSE", "README.md", "docs/operating.md"] {
        std::fs::copy(from.join(file), directory.join(file)).expect("a copy");
    }
    run(Command::new("cp").arg("-R").arg(from.join("packaging")).arg(directory));
    let config = directory.join("packaging/thalweg.toml");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    std::fs::write(config, text + "\n# A line of the next version.\n").expect("written");
}

/// A sandbox: a copy of this machine's file system, or of an image's, in namespaces of its own.
pub struct Sandbox<'a> {
    /// `chroot` runs the script as it is, `boot` by systemd as the first process, and `image`
    /// beside the file system that it runs.
    pub kind: &'a str,
    /// Directory that the script sees as `/mnt`.
    pub share: &'a Path,
    pub script: &'a str,
    pub arguments: &'a [String],
}

impl Sandbox<'_> {
    /// Runs the script; returns what it printed, or the reason for which this machine cannot.
    pub fn run(&self) -> Result<String, String> {
        for tool_name in ["unshare", "mount", "chroot", "setpriv", "ip", "bash"] {
            tool(tool_name).ok_or_else(|| format!("this machine has no {tool_name}"))?;
        }
        for (name, text) in SCRIPTS {
            std::fs::write(self.share.join(name), text).expect("a script");
        }
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.arg("bash").arg(self.share.join("sandbox.sh"));
        command.arg(self.kind).arg(self.share).arg(self.script).args(self.arguments);
        let output = command.output().expect("unshare starts");
        match output.status.code() {
            Some(0) => Ok(text(&output)),
            Some(IMPOSSIBLE) => Err(text(&output)),
            // Without the right to make namespaces, `unshare` itself fails.
            _ if text(&output).contains("unshare failed") => Err(text(&output)),
            _ => panic!("{} in a sandbox ({}): {}", self.script, self.kind, text(&output)),
        }
    }
}
