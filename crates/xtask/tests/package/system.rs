//! Packages of distributions, and the tarball.

use std::path::Path;
use std::process::Command;

use crate::machine::{Sandbox, next_workspace, package, root, run, skip, tool};

/// Files that packages of distributions install.
const FILES: &[&str] = &[
    "/etc/logrotate.d/thalweg",
    "/etc/thalweg/thalweg.toml",
    "/usr/bin/thalweg",
    "/usr/lib/systemd/system/thalweg.service",
    "/usr/share/doc/thalweg/copyright",
];

#[test]
fn a_deb_lists_its_files_and_asks_for_its_libraries() {
    if tool("dpkg-deb").is_none() {
        return skip("contents of the .deb", "this machine has no dpkg-deb");
    }
    let out = tempfile::tempdir().unwrap();
    let deb = package(&root(), "deb", "0.0.1", out.path());
    let listed = run(Command::new("dpkg-deb").arg("--contents").arg(&deb));
    for file in FILES {
        let line = listed.lines().find(|line| line.ends_with(&file[1..]));
        let line = line.unwrap_or_else(|| panic!("{file} in {listed}"));
        assert!(line.contains(" 0/0 "), "root owns it: {line}");
        assert_eq!(line.starts_with("-rwxr-xr-x"), file.ends_with("/bin/thalweg"), "{line}");
    }
    let field = |name: &str| run(Command::new("dpkg-deb").arg("--field").arg(&deb).arg(name));
    assert_eq!(field("Version").trim(), "0.0.1");
    assert!(field("Depends").contains("libc6 (>= 2."), "{}", field("Depends"));
    let conffiles = run(Command::new("dpkg-deb").arg("--info").arg(&deb).arg("conffiles"));
    assert_eq!(conffiles, "/etc/thalweg/thalweg.toml\n/etc/logrotate.d/thalweg\n");
}

#[test]
fn an_rpm_lists_its_files_and_keeps_edited_ones() {
    let out = tempfile::tempdir().unwrap();
    let path = package(&root(), "rpm", "0.0.1", out.path());
    let metadata = rpm::PackageMetadata::open(&path).unwrap();
    assert_eq!(metadata.get_version().unwrap(), "0.0.1");
    let entries = metadata.get_file_entries().unwrap();
    for file in FILES {
        let entry = entries.iter().find(|entry| entry.path() == Path::new(file));
        let entry = entry.unwrap_or_else(|| panic!("{file}"));
        let expected = if file.ends_with("/bin/thalweg") { 0o755 } else { 0o644 };
        assert_eq!(entry.permissions(), expected, "{file}");
        let keeps = entry.flags().contains(rpm::FileFlags::CONFIG | rpm::FileFlags::NOREPLACE);
        assert_eq!(keeps, file.starts_with("/etc/"), "{file}");
    }
    let requires = metadata.get_requires().unwrap();
    assert!(requires.iter().any(|dependency| dependency.to_string().starts_with("glibc >= 2.")));
}

#[test]
fn packages_have_the_same_bytes_each_time() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for kind in ["deb", "rpm", "tarball", "image", "chart"] {
        let read = |out: &Path| std::fs::read(package(&root(), kind, "0.0.1", out)).unwrap();
        assert!(read(first.path()) == read(second.path()), "{kind} differs from run to run");
    }
}

#[test]
fn the_tarball_runs_where_it_is_unpacked() {
    let out = tempfile::tempdir().unwrap();
    let path = package(&root(), "tarball", "0.0.1", out.path());
    run(Command::new("tar").arg("-xzf").arg(&path).arg("-C").arg(out.path()));
    let directories = std::fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().path());
    let unpacked = directories.into_iter().find(|path| path.is_dir()).unwrap();
    let version = run(Command::new(unpacked.join("bin/thalweg")).arg("--version"));
    assert!(version.starts_with("thalweg "), "{version}");
    assert!(unpacked.join("LICENSE").is_file());
}

#[test]
fn a_deb_is_installed_upgraded_and_removed() {
    install("deb", "dpkg", "chroot");
}

#[test]
fn a_deb_is_installed_upgraded_and_removed_under_systemd() {
    install("deb", "dpkg", "boot");
}

#[test]
fn an_rpm_is_installed_upgraded_and_removed() {
    install("rpm", "rpm", "chroot");
}

/// Installs a package and the next version over it, in a sandbox.
fn install(kind: &str, installer: &str, sandbox: &str) {
    let what = format!("installation of the .{kind} ({sandbox})");
    if tool(installer).is_none() {
        return skip(&what, &format!("this machine has no {installer}"));
    }
    if sandbox == "boot" && tool("systemd-nspawn").is_none() {
        return skip(&what, "this machine has no systemd-nspawn");
    }
    let next = tempfile::tempdir().unwrap();
    next_workspace(next.path());
    let share = tempfile::tempdir().unwrap();
    let workspaces = [(root(), "0.0.1", "first"), (next.path().to_owned(), "0.0.2", "second")];
    for (workspace, version, name) in workspaces {
        let path = package(&workspace, kind, version, share.path());
        std::fs::rename(path, share.path().join(format!("{name}.{kind}"))).unwrap();
    }
    let script = format!("{kind}.sh");
    let sandbox = Sandbox { kind: sandbox, share: share.path(), script: &script, arguments: &[] };
    match sandbox.run() {
        Ok(output) => {
            let shown = |line: &&str| line.starts_with("shown:") || line.starts_with("skipped:");
            for line in output.lines().filter(shown) {
                println!("{line}");
            }
            assert!(output.contains("shown: ExecStart runs as the user thalweg"), "{output}");
            for line in output.lines().filter(|line| line.starts_with("skipped: ")) {
                skip(&what, line);
            }
        }
        Err(why) => skip(&what, &why),
    }
}
