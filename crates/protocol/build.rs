//! Makes Rust of the definitions, without a `protoc` that would have to be installed.

use std::error::Error;
use std::path::PathBuf;

use prost::Message as _;

const RECORDS: &str = "thalweg/v1/records.proto";
const CLUSTER: [&str; 2] = ["thalweg/cluster/v1/cluster.proto", "thalweg/cluster/v1/work.proto"];

#[expect(clippy::disallowed_methods, reason = "what a build makes is no file of a database")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let definition = protox::compile([RECORDS], ["proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // Descriptors that reflection serves.
    std::fs::write(out.join("descriptors.bin"), definition.encode_to_vec())?;
    // The server takes messages apart itself.
    tonic_prost_build::configure().build_server(false).bytes(".").compile_fds(definition)?;
    // Messages between nodes: services of both sides.
    let cluster = protox::compile(CLUSTER, ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(cluster)?;
    Ok(())
}
