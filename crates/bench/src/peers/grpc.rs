//! grpc++ as a baseline: its own server and client in the three patterns, without a database. It is
//! compiled if a compiler and the packages are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use thalweg_types::{Error, Result};

use super::daemon::{Daemon, free_port, on_core, program};
use crate::errors::while_doing;

const PROTO: &str = include_str!("../../../../bench/peers/grpc/patterns.proto");
const SOURCE: &str = include_str!("../../../../bench/peers/grpc/baseline.cc");

/// The time at which operations are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    Each,
    All,
    None,
}

/// A compiled and running gRPC baseline.
pub struct GrpcBaseline {
    program: PathBuf,
    port: u16,
    _daemon: Daemon,
}

impl GrpcBaseline {
    /// Compiles it and starts its server on a core; `None` if a prerequisite is missing.
    pub async fn start(directory: &Path, core: Option<usize>) -> Result<Option<GrpcBaseline>> {
        let Some(program) = compiled(directory)? else { return Ok(None) };
        let port = free_port().await?;
        let mut command = on_core(core, &program);
        command.args(["serve", &port.to_string()]);
        let daemon = Daemon::start(command, &directory.join("grpc.log"), "Ready.")?;
        Ok(Some(GrpcBaseline { program, port, _daemon: daemon }))
    }

    /// Operations a second, with `batch` of them in a message. With hints, grpc++ joins messages
    /// before it sends them.
    pub fn rate(&self, pattern: Pattern, operations: u64, batch: u64, hints: bool) -> Result<f64> {
        /// With its framing, a message of one row is 24 bytes long.
        const ROW_BYTES: &str = "22";
        let pattern = match pattern {
            Pattern::Each => "each",
            Pattern::All => "all",
            Pattern::None => "none",
        };
        let (port, count) = (self.port.to_string(), operations.to_string());
        let hints = if hints { "hints" } else { "plain" };
        let arguments = ["load", &port, pattern, &count, &batch.to_string(), ROW_BYTES, hints];
        let said = run(Command::new(&self.program).args(arguments))?;
        let seconds: f64 = said.trim().parse().map_err(while_doing("the client of grpc++"))?;
        Ok(operations as f64 / seconds)
    }
}

fn compiled(directory: &Path) -> Result<Option<PathBuf>> {
    let plugin = program("grpc_cpp_plugin");
    let needed = ["c++", "protoc", "pkg-config"].map(program);
    let [Some(compiler), Some(protoc), Some(packages)] = needed else { return Ok(None) };
    let Some(plugin) = plugin else { return Ok(None) };
    let flags = Command::new(packages).args(["--cflags", "--libs", "grpc++", "protobuf"]).output();
    let flags = flags.map_err(while_doing("pkg-config"))?;
    if !flags.status.success() {
        return Ok(None);
    }
    let files = directory.join("grpc");
    std::fs::create_dir_all(&files).map_err(while_doing(files.display()))?;
    for (name, text) in [("patterns.proto", PROTO), ("baseline.cc", SOURCE)] {
        #[expect(clippy::disallowed_methods, reason = "sources, not a database's files")]
        std::fs::write(files.join(name), text).map_err(while_doing(files.display()))?;
    }
    let plugin = format!("--plugin=protoc-gen-grpc={}", plugin.display());
    let generate = ["--cpp_out=.", "--grpc_out=.", &plugin, "patterns.proto"];
    run(Command::new(protoc).args(generate).current_dir(&files))?;
    let flags = String::from_utf8_lossy(&flags.stdout).into_owned();
    let sources = ["baseline.cc", "patterns.pb.cc", "patterns.grpc.pb.cc"];
    let compile = ["-std=c++17", "-O2", "-o", "baseline"].into_iter().chain(sources);
    run(Command::new(compiler).args(compile.chain(flags.split_whitespace())).current_dir(&files))?;
    Ok(Some(files.join("baseline")))
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(while_doing(command.get_program().display()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Error::internal(format!("{} failed", command.get_program().display()))
            .with_detail(String::from_utf8_lossy(&output.stderr))),
    }
}
