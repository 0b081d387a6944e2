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

/// Whatever a server would refuse is told by both, all at once and in the same words.
#[test]
fn a_server_and_a_check_refuse_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("wrong.toml");
    let text = text(&file);
    let unreadable = format!("configuration {text} cannot be read: TOML");
    for (settings, begins) in [
        ("[log]\nfilter = \"(((\"", &["log.filter \"(((\" cannot be read: "][..]),
        ("[otlp]\nendpoint = \"nonsense\"", &["otlp.endpoint \"nonsense\" cannot be used: "]),
        ("[tls]\ncertificate = \"a.pem\"", &["tls.certificate and tls.key belong together"]),
        ("[tls]\nrequired = true", &["tls.required is set, and there is no certificate"]),
        (
            "[database]\nspill_directory = \"/dev/null/x\"",
            &["database.spill_directory /dev/null/x"],
        ),
        (
            "[limits]\nconnections = 0\nstatements = 0\nmessage_bytes = 0\nresult_bytes = \"x\"",
            &[
                "setting \"limits.result_bytes\"",
                "limits.connections is 0",
                "limits.statements is 0",
                "limits.message_bytes is 0",
            ],
        ),
        (
            "[listen]\naddress = \"0.0.0.0\"\n[auth]\nmethod = \"trust\"",
            &["the server would trust"],
        ),
        ("[listen\n", &[unreadable.as_str()]),
    ] {
        write(&file, settings);
        let error_text = thalweg(&["config", "check", "--config", text]).failure(2);
        let errors: Vec<&str> =
            error_text.lines().filter_map(|line| line.strip_prefix("ERROR:  ")).collect();
        assert_eq!(errors.len(), begins.len(), "{error_text}");
        for (error, begin) in errors.iter().zip(begins) {
            assert!(error.starts_with(begin), "{error_text}");
        }
        assert_eq!(thalweg(&["serve", "--config", text]).failure(2), error_text);
    }
}
