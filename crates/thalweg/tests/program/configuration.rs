//! Settings and where they come from.

use crate::run::{command, finish, text, thalweg, write};

#[test]
fn settings_come_from_files_variables_and_flags() {
    let directory = tempfile::tempdir().unwrap();
    let data = text(directory.path());
    write(
        &directory.path().join("thalweg.toml"),
        "[shell]\nformat = \"csv\"\nnull = \"none\"\n\n[database]\nthreads = 1\n",
    );
    let mut dump = command(&["config", "dump", "--data", data, "--durability", "write"]);
    dump.env("THALWEG__SHELL__NULL", "nil").env("THALWEG__DATABASE__MEMORY_LIMIT", "4GB");
    let dumped = finish(dump, b"").success();
    let from = |line: &str| {
        let (setting, origin) = line.split_once('#').unwrap();
        (setting.trim().to_owned(), origin.trim().replace(data, "DIR"))
    };
    let found: Vec<_> = dumped.lines().filter(|line| line.contains(" = ")).map(from).collect();
    for (setting, origin) in [
        ("durability = \"write\"", "--durability"),
        ("memory_limit = \"4GB\"", "THALWEG__DATABASE__MEMORY_LIMIT"),
        ("threads = 1", "DIR/thalweg.toml"),
        ("format = \"csv\"", "DIR/thalweg.toml"),
        ("null = \"nil\"", "THALWEG__SHELL__NULL"),
        ("timing = false", "default"),
    ] {
        assert!(found.contains(&(setting.to_owned(), origin.to_owned())), "{setting}\n{dumped}");
    }
    assert_eq!(thalweg(&["--data", data, "-c", "SELECT 1 AS a"]).success(), "a\n1\n");
}

#[test]
fn mistakes_are_found_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("wrong.toml");
    write(&file, "[database]\nmemory_limt = \"4GB\"\n");
    let expected = format!(
        "ERROR:  unknown setting \"database.memory_limt\" ({})\n\
         HINT:  Did you mean \"memory_limit\"?\n",
        text(&file)
    );
    for arguments in [
        &["config", "check", "--config", text(&file)][..],
        &["--config", text(&file), "-c", "SELECT 1"],
    ] {
        let run = thalweg(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""));
        assert_eq!(run.stderr, expected);
    }
    assert_eq!(thalweg(&["config", "check"]).success(), "The configuration is right.\n");
}
