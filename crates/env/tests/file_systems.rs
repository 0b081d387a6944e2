//! What every file system does: the real one and the simulated one, by the same tests.

use std::io::{ErrorKind, IoSlice};
use std::path::Path;

use thalweg_env::{FileSystem, OpenMode, RealFiles, SimulatedDisk};

/// Runs a test over both, in an empty directory.
fn on_each(test: impl Fn(&dyn FileSystem, &Path)) {
    let temporary = tempfile::tempdir().unwrap();
    test(&RealFiles, temporary.path());
    let disk = SimulatedDisk::new(1);
    disk.create_dir_all(Path::new("/tmp/test")).unwrap();
    test(&disk, Path::new("/tmp/test"));
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    result.err().expect("it must fail").kind()
}

#[test]
fn files_are_created_written_read_and_cut() {
    on_each(|files, root| {
        let path = root.join("file");
        assert_eq!(kind(files.open(&path, OpenMode::Read)), ErrorKind::NotFound);
        assert_eq!(kind(files.open(&path, OpenMode::ReadWrite)), ErrorKind::NotFound);
        let file = files.open(&path, OpenMode::CreateNew).unwrap();
        assert_eq!(kind(files.open(&path, OpenMode::CreateNew)), ErrorKind::AlreadyExists);
        assert!(file.is_empty().unwrap());

        file.write_all_at(b"world", 6).unwrap();
        file.write_all_at(b"hello", 0).unwrap();
        let mut bytes = [1; 11];
        files.open(&path, OpenMode::Read).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"hello\0world");
        assert_eq!(kind(file.read_exact_at(&mut bytes, 1)), ErrorKind::UnexpectedEof);

        file.set_len(3).unwrap();
        file.set_len(5).unwrap();
        let mut bytes = [1; 5];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!((&bytes, file.len().unwrap()), (b"hel\0\0", 5));
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        let reader = files.open(&path, OpenMode::Read).unwrap();
        assert!(reader.write_all_at(b"no", 0).is_err());
    });
}

/// More parts than one system call takes, and empty ones among them.
#[test]
fn many_parts_are_written_one_after_the_other() {
    on_each(|files, root| {
        let file = files.open(&root.join("file"), OpenMode::CreateNew).unwrap();
        let parts: Vec<Vec<u8>> = (0..5000_usize).map(|part| vec![part as u8; part % 7]).collect();
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        file.write_all_vectored_at(&slices, 100).unwrap();
        file.write_all_vectored_at(&[], 0).unwrap();
        file.write_all_vectored_at(&[IoSlice::new(&[]), IoSlice::new(&[])], 0).unwrap();
        let whole = parts.concat();
        assert_eq!(file.len().unwrap(), 100 + whole.len() as u64);
        let mut bytes = vec![0; whole.len()];
        file.read_exact_at(&mut bytes, 100).unwrap();
        assert_eq!(bytes, whole);
    });
}

#[test]
fn directories_are_created_listed_and_removed() {
    on_each(|files, root| {
        let inner = root.join("a/b/c");
        assert!(!files.exists(&inner).unwrap());
        files.create_dir_all(&inner).unwrap();
        files.create_dir_all(&inner).unwrap();
        assert!(files.exists(&inner).unwrap());
        for name in ["two", "one", "three"] {
            files.open(&inner.join(name), OpenMode::CreateNew).unwrap();
        }
        assert_eq!(files.list(&inner).unwrap(), ["one", "three", "two"]);
        assert_eq!(kind(files.list(&root.join("none"))), ErrorKind::NotFound);
        files.sync_dir(&inner).unwrap();
        assert_eq!(kind(files.sync_dir(&root.join("none"))), ErrorKind::NotFound);
        files.remove_dir_all(&root.join("a")).unwrap();
        assert!(files.list(root).unwrap().is_empty());
    });
}

#[test]
fn a_renamed_file_takes_the_place_of_another() {
    on_each(|files, root| {
        let (from, to) = (root.join("from"), root.join("to"));
        assert_eq!(kind(files.rename(&from, &to)), ErrorKind::NotFound);
        for path in [&from, &to] {
            let file = files.open(path, OpenMode::CreateNew).unwrap();
            file.write_all_at(path.to_str().unwrap().as_bytes(), 0).unwrap();
        }
        files.rename(&from, &to).unwrap();
        assert_eq!(files.list(root).unwrap(), ["to"]);
        let length = files.open(&to, OpenMode::Read).unwrap().len().unwrap();
        assert_eq!(length as usize, from.to_str().unwrap().len());
    });
}

#[test]
fn a_removed_file_stays_readable_while_it_is_open() {
    on_each(|files, root| {
        let path = root.join("file");
        assert_eq!(kind(files.remove_file(&path)), ErrorKind::NotFound);
        let file = files.open(&path, OpenMode::CreateNew).unwrap();
        file.write_all_at(b"still here", 0).unwrap();
        files.remove_file(&path).unwrap();
        assert!(!files.exists(&path).unwrap());
        assert_eq!(file.len().unwrap(), 10);
    });
}

#[test]
fn one_at_a_time_holds_a_lock() {
    on_each(|files, root| {
        let path = root.join("LOCK");
        let lock = files.lock(&path).unwrap();
        assert_eq!(kind(files.lock(&path)), ErrorKind::WouldBlock);
        drop(lock);
        files.lock(&path).unwrap();
    });
}
