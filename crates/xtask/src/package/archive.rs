//! Tar archives of entries, and their compression.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::at;
use super::contents::{Entry, Source};

/// Time of entries where `SOURCE_DATE_EPOCH` is not set, in seconds: the start of 2026.
const DEFAULT_TIME: u32 = 1_767_225_600;

/// Time of all entries, in seconds since 1970.
pub fn time() -> u32 {
    let named = std::env::var("SOURCE_DATE_EPOCH").ok();
    named.and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_TIME)
}

/// A compressing writer whose output depends on nothing but its input.
pub fn gzip<W: Write>(writer: W) -> GzEncoder<W> {
    GzEncoder::new(writer, Compression::default())
}

/// Writes entries below `prefix` (empty, or one that ends with a slash) as a tar archive.
/// Directories above an entry are added before it.
pub fn write<W: Write>(writer: W, prefix: &str, entries: &[Entry]) -> Result<W, String> {
    let mut builder = tar::Builder::new(writer);
    let mut parents: Vec<String> = Vec::new();
    for entry in entries {
        let path = format!("{prefix}{}", entry.path);
        for (place, _) in path.match_indices('/') {
            let parent = &path[..place];
            let is_listed = entries.iter().any(|other| {
                matches!(other.source, Source::Directory)
                    && format!("{prefix}{}", other.path) == parent
            });
            if !is_listed && !parents.iter().any(|known| known == parent) {
                append(&mut builder, parent, &Entry::directory("", 0o755))?;
                parents.push(parent.to_owned());
            }
        }
        append(&mut builder, &path, entry)?;
    }
    builder.into_inner().map_err(|error| format!("an archive: {error}"))
}

fn append<W: Write>(
    builder: &mut tar::Builder<W>,
    path: &str,
    entry: &Entry,
) -> Result<(), String> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(entry.mode);
    header.set_uid(entry.owner.into());
    header.set_gid(entry.owner.into());
    header.set_mtime(time().into());
    let failed = |error: io::Error| format!("{path}: {error}");
    match &entry.source {
        Source::Directory => {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_size(0);
            builder.append_data(&mut header, format!("{path}/"), io::empty()).map_err(failed)
        }
        Source::Bytes(bytes) => {
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, path, bytes.as_slice()).map_err(failed)
        }
        Source::File(source) => {
            let file = File::open(source).map_err(at(source))?;
            header.set_size(file.metadata().map_err(at(source))?.len());
            builder.append_data(&mut header, path, file).map_err(failed)
        }
    }
}

/// Writes a compressed archive to a file.
pub fn write_gzipped(path: &Path, prefix: &str, entries: &[Entry]) -> Result<(), String> {
    let file = File::create(path).map_err(at(path))?;
    let gzip = write(gzip(file), prefix, entries)?;
    gzip.finish().map_err(at(path))?;
    Ok(())
}
