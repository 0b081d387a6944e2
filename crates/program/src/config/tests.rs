use std::time::Duration;

use super::*;

/// Variables as the environment would give them.
fn environment(pairs: &[(&str, &str)]) -> Named {
    let mut flags = Flags::default();
    for (key, value) in pairs {
        let value: Value = value.parse().unwrap();
        flags.0.push((Box::leak(key.to_string().into_boxed_str()), value));
    }
    Named { name: "`THALWEG__` environment variable(s)", dict: nested(flags) }
}

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE_NAME);
    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

fn load(file: Option<&Path>, variables: Named, flags: Flags) -> Result<Config, Vec<Error>> {
    load_with(file, variables, flags, |_| Vec::new())
}

fn errors(text: &str, variables: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
    let (_directory, path) = file(text);
    let errors = load(Some(&path), environment(variables), Flags::default()).err().unwrap();
    let name = path.display().to_string();
    errors
        .iter()
        .map(|e| (e.message().replace(&name, "FILE"), e.hint().map(str::to_owned)))
        .collect()
}

#[test]
fn later_sources_win() {
    let (_directory, path) = file(
        "[database]\nthreads = 3\nmemory_limit = \"4GB\"\ndurability = \"write\"\n\
         [shell]\nstatement_timeout = \"30s\"\n",
    );
    let variables =
        environment(&[("database.memory_limit", "1GiB"), ("database.durability", "none")]);
    let mut flags = Flags::default();
    flags.set("database.durability", Some(Durability::Fsync));
    flags.set("shell.format", None::<Format>);
    let config = load(Some(&path), variables, flags).ok().unwrap();
    let DatabaseSettings { threads, memory_limit, durability, .. } = config.settings.database;
    assert_eq!(threads.map(|n| n.get()), Some(3));
    assert_eq!(memory_limit, Some(Size(1 << 30)));
    assert_eq!(durability, Durability::Fsync);
    assert_eq!(config.settings.shell.statement_timeout.0, Duration::from_secs(30));
    assert_eq!(config.settings.shell.format, Format::Table);

    let dumped = dump(&config).replace(&path.display().to_string(), "FILE");
    assert!(dumped.contains(
        "[database]\n\
         checkpoint_size = \"1GiB\"  # default\n\
         durability = \"fsync\"      # --durability\n\
         memory_limit = \"1GiB\"     # THALWEG__DATABASE__MEMORY_LIMIT\n\
         # process_memory_limit =  # not set\n\
         serial_rows = 100000      # default\n\
         # spill_directory =       # not set\n\
         spill_limit = \"100GiB\"    # default\n\
         threads = 3               # FILE\n\n[ingest]\n"
    ));
    assert!(dumped.contains("format = \"table\"           # default\n"), "{dumped}");
}

#[test]
fn a_dump_gives_the_same_settings_again() {
    let defaults = load(None, environment(&[]), Flags::default()).ok().unwrap();
    assert_eq!(defaults.settings, Settings::default());
    assert!(dump(&defaults).contains("# threads =               # not set\n"));
    let (_directory, path) = file(&dump(&defaults));
    let again = load(Some(&path), environment(&[]), Flags::default());
    let again = again.unwrap_or_else(|errors| panic!("{errors:?}\n{}", dump(&defaults)));
    assert_eq!(again.settings, defaults.settings);
}

#[test]
fn unknown_keys_are_all_told_with_what_was_meant() {
    assert_eq!(
        errors("[database]\nthread = 2\n[shel]\nformat = \"csv\"\n", &[("shell.xyz", "1")]),
        [
            (
                "unknown setting \"database.thread\" (FILE)".to_owned(),
                Some("Did you mean \"threads\"?".to_owned())
            ),
            (
                "unknown setting \"shel\" (FILE)".to_owned(),
                Some("Did you mean \"shell\"?".to_owned())
            ),
            (
                "unknown setting \"shell.xyz\" (THALWEG__SHELL__XYZ)".to_owned(),
                Some(
                    "There are: border, color, expanded, format, history_size, null, \
                     statement_timeout, timing."
                        .to_owned()
                )
            ),
        ]
    );
}

#[test]
fn wrong_values_say_where_and_why() {
    for (text, expected) in [
        (
            "[database]\nmemory_limit = \"4 potatoes\"",
            "setting \"database.memory_limit\" (FILE): \
             \"4 potatoes\" is not a size such as \"4GB\" or \"512MiB\"",
        ),
        (
            "[database]\ndurability = \"maybe\"",
            "setting \"database.durability\" (FILE): \"maybe\" is none of fsync, write, none",
        ),
        (
            "[database]\nserial_rows = -1",
            "setting \"database.serial_rows\" (FILE): found signed int `-1`, \
             expected a whole number from 0 on",
        ),
        (
            "[shell]\ntiming = \"yes\"",
            "setting \"shell.timing\" (FILE): found string \"yes\", expected a boolean",
        ),
    ] {
        assert_eq!(errors(text, &[])[0].0, expected);
    }
    let found = &errors("[shell]\n", &[("shell.statement_timeout", "soon")])[0].0;
    assert!(found.starts_with("setting \"shell.statement_timeout\" (THALWEG__SHELL__STATEMENT"));
    let found = &errors("[database\n", &[])[0].0;
    assert!(found.starts_with("configuration FILE cannot be read: TOML parse error at line 1"));
}

#[test]
fn no_mistake_hides_another_one() {
    let text = "database = 3\n[limits]\nconnections = -1\nstatements = \"many\"\nmessage_byte = 1\n\
                [shel]\nx = 1\n[tls]\nrequired = 1\n";
    let told = errors(text, &[("listen.grpc_port", "70000"), ("shell.history_size", "x")]);
    let told: Vec<&str> = told.iter().map(|(message, _)| message.as_str()).collect();
    assert_eq!(
        told,
        [
            "setting \"database\" (FILE): found signed int `3`, expected a section",
            "setting \"limits.connections\" (FILE): found signed int `-1`, \
             expected a whole number from 0 on",
            "unknown setting \"limits.message_byte\" (FILE)",
            "setting \"limits.statements\" (FILE): found string \"many\", \
             expected a whole number from 0 on",
            "setting \"listen.grpc_port\" (THALWEG__LISTEN__GRPC_PORT): \
             found unsigned int `70000`, expected a whole number from 0 to 65535",
            "unknown setting \"shel\" (FILE)",
            "setting \"shell.history_size\" (THALWEG__SHELL__HISTORY_SIZE): \
             found string \"x\", expected a whole number from 0 on",
            "setting \"tls.required\" (FILE): found signed int `1`, expected a boolean",
        ]
    );
}

/// What a database or a server refuses is told beside what cannot be read, but for what is said of
/// settings that cannot.
#[test]
fn faults_are_told_with_mistakes() {
    let text = "[database]\nspill_directory = \"/dev/null/spill\"\nmemory_limit = \"0\"\n\
                process_memory_limit = \"1MiB\"\nthreads = 10000\n[log]\nfilter = \"(((\"\n[tls]\n\
                key = \"/nonexistent\"\ncertificate = 3\n";
    let (_directory, path) = file(text);
    let refused = super::load_for_server(Some(&path), Flags::default()).err().unwrap();
    let told: Vec<&str> = refused.iter().map(Error::message).collect();
    let begins = [
        "setting \"tls.certificate\" (",
        "database.threads is 10000",
        "database.memory_limit is 0,",
        "database.process_memory_limit is 1",
        "database.spill_directory /dev/null/spill cannot be used: ",
        "log.filter \"(((\" cannot be read: ",
    ];
    assert_eq!(told.len(), begins.len(), "{told:?}");
    for (told, begin) in told.iter().zip(begins) {
        assert!(told.starts_with(begin), "{told}");
    }
    assert_eq!(super::load(Some(&path), Flags::default()).err().unwrap().len(), 5);
}

#[test]
fn a_directory_to_spill_to_need_not_be_there_yet() {
    let directory = tempfile::tempdir().unwrap();
    let new = directory.path().join("a/b");
    let settings =
        DatabaseSettings { spill_directory: Some(new.clone()), ..DatabaseSettings::default() };
    assert!(settings.faults().is_empty());
    assert!(!new.parent().unwrap().exists(), "nothing was made");
    let relative = Some(PathBuf::from("not-there-yet"));
    let settings = DatabaseSettings { spill_directory: relative, ..DatabaseSettings::default() };
    assert!(settings.faults().is_empty());
}

#[test]
fn a_named_file_must_exist() {
    let missing = Path::new("/nonexistent/thalweg.toml");
    let errors = load(Some(missing), environment(&[]), Flags::default()).err().unwrap();
    let told = errors.iter().map(Error::message).collect::<Vec<_>>().join("\n");
    assert!(told.starts_with("configuration /nonexistent/thalweg.toml cannot be read: "), "{told}");
    assert_eq!(file_for(None, Some(Path::new("/nonexistent"))), None);
    assert_eq!(file_for(Some(missing), None).as_deref(), Some(missing));
}
