//! The memory limits of Linux control groups.
//!
//! A limit applies to all groups below, so the smallest limit of a group and its ancestors counts.
//! The groups' directories follow from `/proc/self/cgroup` (the process's group in each hierarchy)
//! and `/proc/self/mountinfo` (where each hierarchy is mounted, and which of its groups is at the
//! mount's root): see cgroups(7) and proc(5).
//!
//! In a container's own namespace the groups above the container's are not visible. Version 1
//! reports their limit nevertheless, in `hierarchical_memory_limit`.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Version 1 represents "no limit" by the largest multiple of the page size; limits from here on
/// count as none.
const NO_LIMIT_MIN: u64 = 1 << 60;

/// Limit files of a group in version 2. Linux throttles groups above `memory.high` heavily.
const VERSION_2: [&str; 2] = ["memory.max", "memory.high"];
const VERSION_1: [&str; 1] = ["memory.limit_in_bytes"];
/// The file of version 1 that includes the limits of all ancestors.
const STATISTICS: &str = "memory.stat";
const HIERARCHICAL: &str = "hierarchical_memory_limit";

/// The smallest limit of the process's groups and their ancestors in bytes, read from `/proc` and
/// the mounted hierarchies below `root`; `None` if there is none.
pub(crate) fn limit_bytes(root: &Path) -> Option<u64> {
    let read = |path: &str| read_to_string(root.join(path)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let hierarchies = mounts.lines().filter_map(Mount::of);
    let limits = hierarchies.flat_map(|mount| {
        let group = groups.lines().find_map(|line| mount.group_of(line)).unwrap_or("/");
        mount.limits(group, root)
    });
    limits.min()
}

/// A mounted hierarchy of groups that accounts memory.
struct Mount {
    is_version_2: bool,
    /// The group at the mount point.
    group: String,
    point: PathBuf,
}

impl Mount {
    /// Parses a line of `mountinfo`: `36 35 98:0 /root /point options … - type source options`.
    fn of(line: &str) -> Option<Mount> {
        let (before, behind) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (group, point) = (unescaped(fields.next()?), unescaped(fields.next()?));
        let mut behind = behind.split(' ');
        let kind = behind.next()?;
        let mut counts_memory =
            || behind.nth(1).is_some_and(|options| options.split(',').any(|one| one == "memory"));
        let is_version_2 = kind == "cgroup2";
        let is_relevant = is_version_2 || (kind == "cgroup" && counts_memory());
        is_relevant.then(|| Mount { is_version_2, group, point: PathBuf::from(point) })
    }

    /// The process's group in this hierarchy, if the line of `/proc/self/cgroup` belongs to it:
    /// `0::/path` in version 2, `4:cpu,memory:/path` in version 1.
    fn group_of<'l>(&self, line: &'l str) -> Option<&'l str> {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_own = match self.is_version_2 {
            true => number == "0" && controllers.is_empty(),
            false => controllers.split(',').any(|one| one == "memory"),
        };
        is_own.then_some(path)
    }

    /// The limits of a group and its visible ancestors.
    fn limits(&self, group: &str, root: &Path) -> Vec<u64> {
        let relative = match self.group.as_str() {
            "/" => Some(group),
            at_point => {
                let below = group.strip_prefix(at_point);
                below.filter(|path| path.is_empty() || path.starts_with('/'))
            }
        };
        // A group outside the mount is not visible; its nearest visible ancestor is the root.
        let relative = relative.filter(|path| !path.split('/').any(|part| part == ".."));
        let relative = relative.unwrap_or_default().trim_matches('/');
        let point = root.join(self.point.strip_prefix("/").unwrap_or(&self.point));
        let mut limits = Vec::new();
        let mut directory = point.join(relative);
        loop {
            self.add_limits_in(&directory, &mut limits);
            if directory == point || !directory.pop() {
                return limits;
            }
        }
    }

    fn add_limits_in(&self, directory: &Path, limits: &mut Vec<u64>) {
        let files: &[&str] = if self.is_version_2 { &VERSION_2 } else { &VERSION_1 };
        let number = |text: &str| {
            let bytes = text.trim().parse::<u64>().ok();
            bytes.filter(|bytes| (1..NO_LIMIT_MIN).contains(bytes))
        };
        for file in files {
            let text = read_to_string(directory.join(file)).unwrap_or_default();
            limits.extend(number(&text));
        }
        if !self.is_version_2 {
            let text = read_to_string(directory.join(STATISTICS)).unwrap_or_default();
            limits.extend(text.lines().find_map(|line| number(line.strip_prefix(HIERARCHICAL)?)));
        }
    }
}

/// Decodes the three-digit octal escapes that `mountinfo` uses for spaces and the like.
fn unescaped(text: &str) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = match (first, behind.get(..3)) {
            (b'\\', Some(digits)) => {
                std::str::from_utf8(digits).ok().and_then(|text| u8::from_str_radix(text, 8).ok())
            }
            _ => None,
        };
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &behind[3..] } else { behind };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files below a root of their own.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(files: &[(&str, &str)]) -> Machine {
            let machine = Machine(tempfile::tempdir().unwrap());
            for (path, text) in files {
                let path = machine.0.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                #[expect(clippy::disallowed_methods, reason = "fixtures of a test")]
                std::fs::write(path, text).unwrap();
            }
            machine
        }

        fn limit(&self) -> Option<u64> {
            limit_bytes(self.0.path())
        }
    }

    const V2: &str = "22 1 0:21 / /proc rw - proc proc rw\n\
                      30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
    const V1: &str = "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      33 24 0:29 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n";

    #[test]
    fn version_2_has_the_smallest_limit_of_all_ancestors() {
        let service = "sys/fs/cgroup/system.slice/thalweg.service";
        let own = format!("{service}/memory.max");
        let high = format!("{service}/memory.high");
        let of = |slice: &str, max: &str, soft: &str| {
            Machine::new(&[
                ("proc/self/cgroup", "0::/system.slice/thalweg.service\n"),
                ("proc/self/mountinfo", V2),
                ("sys/fs/cgroup/system.slice/memory.max", slice),
                (&own, max),
                (&high, soft),
            ])
            .limit()
        };
        assert_eq!(of("max\n", "600000000\n", "max\n"), Some(600_000_000));
        assert_eq!(of("500000000\n", "max\n", "max\n"), Some(500_000_000));
        assert_eq!(of("700000000\n", "600000000\n", "400000000\n"), Some(400_000_000));
        assert_eq!(of("max\n", "max\n", "max\n"), None);
    }

    #[test]
    fn version_1_has_them_in_a_hierarchy_of_its_own() {
        let machine = Machine::new(&[
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/user/app\n0::/other\n"),
            ("proc/self/mountinfo", V1),
            ("sys/fs/cgroup/memory/user/app/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/user/memory.limit_in_bytes", "300000000\n"),
            ("sys/fs/cgroup/cpu/x/memory.limit_in_bytes", "1\n"),
        ]);
        assert_eq!(machine.limit(), Some(300_000_000));
    }

    #[test]
    fn both_versions_may_be_there() {
        let mounts =
            format!("{V1}40 24 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n");
        let machine = Machine::new(&[
            ("proc/self/cgroup", "4:memory:/a\n0::/b\n"),
            ("proc/self/mountinfo", &mounts),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "300000000\n"),
            ("sys/fs/cgroup/unified/b/memory.max", "200000000\n"),
        ]);
        assert_eq!(machine.limit(), Some(200_000_000));
    }

    #[test]
    fn containers_see_their_group_at_the_mount_point() {
        // Docker without a namespace of groups: the mount's root is the container's group.
        let mounts = "33 24 0:29 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let machine = Machine::new(&[
            ("proc/self/cgroup", "4:memory:/docker/abc/inner\n"),
            ("proc/self/mountinfo", mounts),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "500000000\n"),
            ("sys/fs/cgroup/memory/memory.stat", "cache 1\nhierarchical_memory_limit 450000000\n"),
            ("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "600000000\n"),
        ]);
        assert_eq!(machine.limit(), Some(450_000_000));
        // With one, and joined from outside: the group lies above all that is visible.
        let machine = Machine::new(&[
            ("proc/self/cgroup", "0::/../../outer\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/memory.max", "100000000\n"),
        ]);
        assert_eq!(machine.limit(), Some(100_000_000));
    }

    #[test]
    fn machines_without_groups_have_no_limit() {
        assert_eq!(Machine::new(&[]).limit(), None);
        let unreadable = Machine::new(&[
            ("proc/self/cgroup", "nonsense\n0:\n"),
            ("proc/self/mountinfo", "a b - \n1 2 3 / - cgroup2\n\n"),
        ]);
        assert_eq!(unreadable.limit(), None);
    }

    #[test]
    fn mount_points_may_have_spaces() {
        assert_eq!(unescaped(r"/a\040b\134c\9"), r"/a b\c\9");
        let machine = Machine::new(&[
            ("proc/self/cgroup", "0::/a\n"),
            ("proc/self/mountinfo", r"30 23 0:26 / /my\040groups rw - cgroup2 cgroup2 rw"),
            ("my groups/a/memory.max", "7000000\n"),
        ]);
        assert_eq!(machine.limit(), Some(7_000_000));
    }
}
