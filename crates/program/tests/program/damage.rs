//! Directories that lost something, copies of directories, and directories of earlier versions.

use std::path::{Path, PathBuf};

use crate::run::{read, sql_on, text, thalweg, write};

/// Copies a directory with all that is in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            write(&target, read(&entry.path()));
        }
    }
}

fn count(directory: &Path) -> String {
    let out = sql_on(directory, "SELECT 'rows ' || count(*) FROM t");
    out.lines().find(|line| line.contains("rows ")).unwrap_or_default().trim().to_owned()
}

fn database() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    sql_on(&data, "CREATE TABLE t (a int); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)");
    (directory, data)
}

fn segment(directory: &Path) -> PathBuf {
    directory.join("log/log-00000000000000000001.tls")
}

#[test]
fn directories_of_format_version_1_are_converted() {
    for name in ["clean", "killed"] {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
        let temporary = tempfile::tempdir().unwrap();
        let data = temporary.path().join("data");
        copy(&fixture.join(name), &data);
        let error_text = thalweg(&["check", text(&data)]).success();
        assert!(error_text.ends_with("No damage.\n"), "{name}: {error_text}");
        for _ in 0..2 {
            assert!(count(&data).contains("rows 100"), "{name}");
        }
        assert_eq!(read(&data.join("FORMAT"))[8], 2);
        thalweg(&["check", text(&data)]).success();
    }
}

#[test]
fn a_log_that_was_cut_is_refused_and_what_is_sound_can_be_salvaged() {
    let (directory, data) = database();
    let content = read(&segment(&data));
    // Without the mark of the clean close, and then without more and more records.
    for length in (64..content.len()).step_by(64) {
        write(&segment(&data), &content[..length]);
        assert_eq!(thalweg(&["check", text(&data)]).code, 4, "{length}");
        assert_eq!(thalweg(&["--data", text(&data), "-c", "SELECT 1"]).code, 3, "{length}");
    }
    write(&segment(&data), &content[..content.len() - 128]);
    let new = directory.path().join("new");
    assert_eq!(thalweg(&["repair", text(&data)]).code, 4);
    assert_eq!(thalweg(&["repair", text(&data), "--into", text(&new)]).code, 2);
    let run = thalweg(&["repair", text(&data), "--into", text(&new), "--accept-loss"]);
    assert_eq!(run.code, 4, "{run:?}");
    thalweg(&["check", text(&new)]).success();
    assert!(count(&new).contains("rows 1"), "{}", count(&new));
    assert_eq!(read(&segment(&data)).len(), content.len() - 128);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it is damaged on purpose")]
fn files_that_are_missing_or_older_are_refused() {
    let (directory, data) = database();
    let older = directory.path().join("older");
    copy(&data, &older);
    sql_on(&data, "INSERT INTO t VALUES (3)");
    for path in ["log/log-00000000000000000001.tls", "HEADS"] {
        let mixed = directory.path().join(format!("mixed-{}", path.len()));
        copy(&data, &mixed);
        write(&mixed.join(path), read(&older.join(path)));
        assert_eq!(thalweg(&["check", text(&mixed)]).code, 4, "{path}");
        assert_eq!(thalweg(&["--data", text(&mixed), "-c", "SELECT 1"]).code, 3, "{path}");
        std::fs::remove_file(mixed.join(path)).unwrap();
        assert_eq!(thalweg(&["check", text(&mixed)]).code, 4, "{path}");
        assert_eq!(thalweg(&["--data", text(&mixed), "-c", "SELECT 1"]).code, 3, "{path}");
    }
    assert!(count(&older).contains("rows 2"));
    assert!(count(&data).contains("rows 3"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the copy is interrupted on purpose")]
fn a_backup_opens_and_an_interrupted_one_does_not() {
    let (directory, data) = database();
    let target = directory.path().join("copy");
    let error_text = thalweg(&["backup", text(&data), text(&target)]).success();
    assert!(error_text.starts_with("Copied up to group 3"), "{error_text}");
    assert_eq!(thalweg(&["backup", text(&data), text(&target)]).code, 3);
    thalweg(&["check", text(&target)]).success();
    assert!(count(&target).contains("rows 2"));
    std::fs::remove_file(target.join("FORMAT")).unwrap();
    write(&target.join("INCOMPLETE"), "");
    let error_text = thalweg(&["--data", text(&target), "-c", "SELECT 1"]).failure(3);
    assert!(error_text.contains("not completed"), "{error_text}");
}
