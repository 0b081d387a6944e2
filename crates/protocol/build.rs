//! Makes Rust of the record API's definition, without a `protoc` that would have to be installed.

use std::error::Error;
use std::path::PathBuf;

use prost::Message as _;

const DEFINITION: &str = "thalweg/v1/records.proto";

#[expect(clippy::disallowed_methods, reason = "what a build makes is no file of a database")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/{DEFINITION}");
    let definition = protox::compile([DEFINITION], ["proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // What reflection tells of the service.
    std::fs::write(out.join("descriptors.bin"), definition.encode_to_vec())?;
    // The server takes messages apart itself.
    tonic_prost_build::configure().build_server(false).bytes(".").compile_fds(definition)?;
    Ok(())
}
