//! The container image: its layout, and its program on its file system.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::machine::{Sandbox, package, root, run, skip};

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The file of a descriptor, after its size and digest are checked.
fn blob(layout: &Path, descriptor: &Value) -> std::path::PathBuf {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let path = layout.join("blobs/sha256").join(digest);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(descriptor["size"], bytes.len());
    assert_eq!(hex(&bytes), digest);
    path
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn words(list: &Value) -> impl Iterator<Item = String> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned())
}

#[test]
fn an_image_runs_as_its_user_on_a_read_only_file_system() {
    let share = tempfile::tempdir().unwrap();
    let layout = share.path().join("layout");
    std::fs::create_dir(&layout).unwrap();
    let path = package(&root(), "image", "0.0.1", share.path());
    run(Command::new("tar").arg("-xf").arg(&path).arg("-C").arg(&layout));
    assert_eq!(json(&layout.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let index = json(&layout.join("index.json"));
    let manifest = json(&blob(&layout, &index["manifests"][0]));
    let config = json(&blob(&layout, &manifest["config"]));
    let layer = blob(&layout, &manifest["layers"][0]);
    assert_eq!(index["manifests"][0]["platform"]["architecture"], config["architecture"]);

    let unpacked = share.path().join("layer.tar");
    let tar = Command::new("gzip").arg("-dc").arg(&layer).output().unwrap().stdout;
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", hex(&tar)));
    std::fs::write(&unpacked, tar).unwrap();
    let file_system = share.path().join("root");
    std::fs::create_dir(&file_system).unwrap();
    run(Command::new("tar").arg("-xpf").arg(&unpacked).arg("-C").arg(&file_system));
    assert!(!file_system.join("bin/sh").exists(), "the image has no shell");

    let image = &config["config"];
    let user = image["User"].as_str().unwrap().to_owned();
    let command = words(&image["Entrypoint"]).chain(words(&image["Cmd"]));
    let arguments: Vec<String> = std::iter::once(user).chain(command).collect();
    let (share, script) = (share.path(), "image.sh");
    match (Sandbox { kind: "image", share, script, arguments: &arguments }).run() {
        Ok(output) => assert!(output.contains("shown: the image runs as 65532"), "{output}"),
        Err(why) => skip("the program on the image's file system", &why),
    }
}
