//! Finds files that others than their owner may read or change.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The permissions of the group and of all others.
const OTHERS: u32 = 0o077;

/// The mode of a directory that others than its owner may read, write or enter, such as 0o755, and
/// the number of files and directories with such a mode, including itself. `None` if the directory
/// is private, which protects everything inside. Unreadable entries are skipped.
#[must_use]
pub fn open_to_others(directory: &Path) -> Option<(u32, usize)> {
    let mode = mode_of(directory)?;
    if mode & OTHERS == 0 {
        return None;
    }
    let mut count = 1;
    count_in(directory, &mut count);
    Some((mode, count))
}

fn count_in(directory: &Path, count: &mut usize) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if mode_of(&path).is_some_and(|mode| mode & OTHERS != 0) {
            *count += 1;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            count_in(&path, count);
        }
    }
}

fn mode_of(path: &Path) -> Option<u32> {
    Some(fs::symlink_metadata(path).ok()?.permissions().mode() & 0o777)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileSystem, OpenMode, RealFiles};

    #[test]
    fn what_is_created_is_closed_and_what_is_wider_is_found() {
        let parent = tempfile::tempdir().unwrap();
        let (directory, file) = (parent.path().join("data/log"), "0001.log");
        RealFiles.create_dir_all(&directory).unwrap();
        RealFiles.open(&directory.join(file), OpenMode::CreateNew).unwrap();
        let _lock = RealFiles.lock(&directory.join("LOCK")).unwrap();
        let data = parent.path().join("data");
        assert_eq!(mode_of(&data), Some(0o700));
        assert_eq!(mode_of(&directory), Some(0o700));
        assert_eq!(mode_of(&directory.join(file)), Some(0o600));
        assert_eq!(mode_of(&directory.join("LOCK")), Some(0o600));
        assert_eq!(open_to_others(&data), None);
        let wider = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        wider(&directory.join(file), 0o644);
        assert_eq!(open_to_others(&data), None, "the directory lets nobody in");
        wider(&data, 0o755);
        assert_eq!(open_to_others(&data), Some((0o755, 2)));
    }
}
