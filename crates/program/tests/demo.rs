//! The demonstration checks what it shows; here it runs as a user runs it, without a terminal.

use std::process::Command;

#[test]
fn the_demonstration_ends_by_itself_and_keeps_its_promises() {
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().join("flights");
    let demo = |directory: &std::path::Path| {
        let program = env!("CARGO_BIN_EXE_thalweg");
        Command::new(program).args(["demo", "--data"]).arg(directory).output().unwrap()
    };
    let output = demo(&directory);
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{errors}");
    assert!(told.contains("336,776 flights loaded"), "{told}");
    assert!(told.contains("acknowledged writes are there"), "{told}");
    assert!(!told.contains('\u{1b}'), "no colours without a terminal");

    let again = demo(&directory);
    assert!(!again.status.success(), "data that is there is not touched");
}
