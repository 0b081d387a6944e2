//! A container image in the [OCI layout](https://github.com/opencontainers/image-spec), as one tar
//! archive that container tools load. No daemon takes part.
//!
//! The file system has the program, the shared libraries that it loads on this machine, a user and
//! empty directories for data: no shell and no package manager. The image therefore needs a
//! machine of its own architecture to be made.

use std::fs::File;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::contents::Entry;
use super::program::Program;
use super::{Job, archive, at};

/// Number of the user and group that the program runs as; no distribution gives it to anybody.
const USER: u32 = 65_532;
const DATA: &str = "/var/lib/thalweg";
const MEDIA_TYPE: &str = "application/vnd.oci.image";

/// A named piece of content in the layout.
struct Blob {
    media_type: String,
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(kind: &str, bytes: Vec<u8>) -> Blob {
        Blob { media_type: format!("{MEDIA_TYPE}.{kind}"), digest: sha256(&bytes), bytes }
    }

    fn descriptor(&self) -> Value {
        json!({
            "mediaType": self.media_type,
            "digest": format!("sha256:{}", self.digest),
            "size": self.bytes.len(),
        })
    }
}

/// Writes the image and returns its path.
pub fn build(job: &Job<'_>, program: &Program) -> Result<PathBuf, String> {
    let architecture = program.architecture.debian;
    let path = job.out.join(format!("thalweg-{}-linux-{architecture}.oci.tar", job.version));
    let unpacked = archive::write(Vec::new(), "", &file_system(program)?)?;
    let layer_id = sha256(&unpacked);
    let mut gzip = archive::gzip(Vec::new());
    std::io::Write::write_all(&mut gzip, &unpacked).map_err(at(&path))?;
    let layer = Blob::new("layer.v1.tar+gzip", gzip.finish().map_err(at(&path))?);
    let config = config(job, architecture, &layer_id);
    let config = Blob::new("config.v1+json", config.to_string().into_bytes());
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": format!("{MEDIA_TYPE}.manifest.v1+json"),
        "config": config.descriptor(),
        "layers": [layer.descriptor()],
    });
    let manifest = Blob::new("manifest.v1+json", manifest.to_string().into_bytes());
    let mut listed = manifest.descriptor();
    listed["platform"] = json!({ "os": "linux", "architecture": architecture });
    listed["annotations"] = json!({
        "org.opencontainers.image.ref.name": job.version,
        // The name under which Podman and containerd load the archive.
        "io.containerd.image.name": format!("localhost/thalweg:{}", job.version),
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": format!("{MEDIA_TYPE}.index.v1+json"),
        "manifests": [listed],
    });
    let mut entries = vec![
        Entry::bytes("oci-layout", 0o644, r#"{"imageLayoutVersion":"1.0.0"}"#),
        Entry::bytes("index.json", 0o644, index.to_string()),
    ];
    for blob in [layer, config, manifest] {
        entries.push(Entry::bytes(&format!("blobs/sha256/{}", blob.digest), 0o644, blob.bytes));
    }
    archive::write(File::create(&path).map_err(at(&path))?, "", &entries)?;
    Ok(path)
}

fn file_system(program: &Program) -> Result<Vec<Entry>, String> {
    let passwd = format!(
        "root:x:0:0::/:/sbin/nologin\nthalweg:x:{USER}:{USER}:Thalweg:{DATA}:/sbin/nologin\n"
    );
    let mut entries = vec![
        Entry::bytes("etc/passwd", 0o644, passwd),
        Entry::bytes("etc/group", 0o644, format!("root:x:0:\nthalweg:x:{USER}:\n")),
        Entry::directory("tmp", 0o1777),
        Entry::file("usr/bin/thalweg", 0o755, program.path.clone()),
        Entry::directory(DATA.trim_start_matches('/'), 0o700).owned_by(USER),
    ];
    for library in program.libraries()? {
        // The loader finds a library under the name that ldd prints, whatever that links to.
        let path = library.to_string_lossy().into_owned();
        let source = library.canonicalize().map_err(at(&library))?;
        entries.push(Entry::file(path.trim_start_matches('/'), 0o755, source));
    }
    Ok(entries)
}

fn config(job: &Job<'_>, architecture: &str, layer_id: &str) -> Value {
    json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Entrypoint": ["/usr/bin/thalweg"],
            "Cmd": ["serve", "--data", DATA, "--listen", "0.0.0.0"],
            "WorkingDir": DATA,
            "Env": ["PATH=/usr/bin", format!("HOME={DATA}")],
            "ExposedPorts": { "7470/tcp": {}, "7471/tcp": {}, "7472/tcp": {}, "7473/tcp": {} },
            "Volumes": { DATA: {} },
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "thalweg",
                "org.opencontainers.image.version": job.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer_id}")] },
    })
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
