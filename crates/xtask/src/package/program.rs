//! The program to package: its architecture, and the libraries that it needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::at;

/// Offset of the field `e_machine` in an ELF header.
const MACHINE_OFFSET: usize = 18;

/// A processor, as each format spells it.
#[derive(Debug, PartialEq, Eq)]
pub struct Architecture {
    machine: u8,
    /// Debian's name, and that of container images.
    pub debian: &'static str,
    /// The name of RPM, of the kernel and of Rust's targets.
    pub kernel: &'static str,
}

const ARCHITECTURES: &[Architecture] = &[
    Architecture { machine: 0x3e, debian: "amd64", kernel: "x86_64" },
    Architecture { machine: 0xb7, debian: "arm64", kernel: "aarch64" },
];

/// A built program.
pub struct Program {
    pub path: PathBuf,
    pub architecture: &'static Architecture,
    /// The newest version of glibc that it takes a symbol of, such as `2.34`.
    pub glibc: Option<String>,
}

impl Program {
    /// Reads what packages must know about a program. Fails if it is no ELF file of a processor
    /// that packages are made for.
    pub fn read(path: &Path) -> Result<Program, String> {
        let bytes = std::fs::read(path).map_err(at(path))?;
        let Some(architecture) = architecture(&bytes) else {
            return Err(format!("{}: no ELF program for x86-64 or arm64", path.display()));
        };
        let path = std::path::absolute(path).map_err(at(path))?;
        Ok(Program { path, architecture, glibc: newest_glibc(&bytes) })
    }

    /// The shared libraries that the program loads on this machine, the loader included. Fails
    /// if one is missing.
    pub fn libraries(&self) -> Result<Vec<PathBuf>, String> {
        let output = Command::new("ldd").arg(&self.path).output();
        let output = output.map_err(|error| format!("ldd did not start: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_static = text.contains("statically") || errors.contains("not a dynamic");
            let failed = || format!("ldd {}: {text}{errors}", self.path.display());
            return if is_static { Ok(Vec::new()) } else { Err(failed()) };
        }
        text.lines().filter_map(library).collect()
    }
}

fn architecture(elf: &[u8]) -> Option<&'static Architecture> {
    let machine = elf.get(MACHINE_OFFSET).filter(|_| elf.starts_with(b"\x7fELF"))?;
    ARCHITECTURES.iter().find(|known| known.machine == *machine)
}

/// The highest `GLIBC_2.N` in the program's table of strings.
fn newest_glibc(elf: &[u8]) -> Option<String> {
    const PREFIX: &[u8] = b"GLIBC_2.";
    let mut newest = None;
    let mut rest = elf;
    while let Some(place) = find(rest, PREFIX) {
        rest = &rest[place + PREFIX.len()..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count().min(4);
        let minor = std::str::from_utf8(&rest[..digits]).ok().and_then(|text| text.parse().ok());
        newest = newest.max(minor);
    }
    newest.map(|minor: u32| format!("2.{minor}"))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(place) = bytes[from..].iter().position(|byte| *byte == wanted[0]) {
        if bytes[from + place..].starts_with(wanted) {
            return Some(from + place);
        }
        from += place + 1;
    }
    None
}

/// The path in a line of `ldd`; none for the kernel's own library, an error for a missing one.
fn library(line: &str) -> Option<Result<PathBuf, String>> {
    if line.contains("not found") {
        return Some(Err(format!("a library is missing: {}", line.trim())));
    }
    let path = line.split_whitespace().find(|word| word.starts_with('/'))?;
    Some(Ok(PathBuf::from(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_is_that_of_the_elf_header() {
        let header = |machine: u8| {
            let mut header = b"\x7fELF".to_vec();
            header.resize(64, 0);
            header[MACHINE_OFFSET] = machine;
            header
        };
        assert_eq!(architecture(&header(0x3e)).map(|known| known.debian), Some("amd64"));
        assert_eq!(architecture(&header(0xb7)).map(|known| known.kernel), Some("aarch64"));
        assert_eq!(architecture(&header(3)), None);
        assert_eq!(architecture(b"#!/bin/sh\n"), None);
        assert_eq!(architecture(b"\x7fELF"), None);
    }

    #[test]
    fn the_newest_glibc_counts_as_a_number() {
        let text = b"GLIBC_2.4\0GGLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0GLIBC_2.";
        assert_eq!(newest_glibc(text), Some("2.34".to_owned()));
        assert_eq!(newest_glibc(b"musl"), None);
    }

    #[test]
    fn lines_of_ldd_name_libraries() {
        let path = |line| library(line).map(|path| path.map(|path| path.display().to_string()));
        assert_eq!(path("\tlinux-vdso.so.1 (0x00007ffc)"), None);
        let libc = path("\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)");
        assert_eq!(libc, Some(Ok("/lib/x86_64-linux-gnu/libc.so.6".to_owned())));
        let loader = path("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)");
        assert_eq!(loader, Some(Ok("/lib64/ld-linux-x86-64.so.2".to_owned())));
        assert!(path("\tlibz.so.1 => not found").is_some_and(|path| path.is_err()));
    }
}
