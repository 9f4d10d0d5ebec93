//! What the control groups that a process is in allow it, version 1 and 2.
//!
//! A limit may stand at the process's own group or at any above it: the least holds. Containers see
//! their own group as the root, and services of systemd are some folders below it.

use std::fs;
use std::path::{Path, PathBuf};

/// A limit of version 1 that is none: it rounds the greatest number down to whole pages.
const NO_LIMIT: u64 = 1 << 62;

/// Bytes of memory that this process's control groups leave it; none where they do not say.
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    memory_bytes_below(Path::new("/"))
}

/// The same, where the system's folders are below another one.
fn memory_bytes_below(system: &Path) -> Option<u64> {
    let read = |path: &str| fs::read_to_string(system.join(path)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
            continue;
        };
        let files = match controllers {
            "" => &["memory.max", "memory.high"][..],
            some if some.split(',').any(|name| name == "memory") => &["memory.limit_in_bytes"],
            _ => continue,
        };
        let mount = mounts
            .lines()
            .filter_map(Mount::parse)
            .find(|mount| mount.has_memory(controllers.is_empty()));
        let Some(mount) = mount else { continue };
        for folder in mount.folders(group) {
            let folder = system.join(folder.strip_prefix("/").unwrap_or(&folder));
            let of_file = |name: &&str| {
                let text = fs::read_to_string(folder.join(name)).ok()?;
                text.trim().parse::<u64>().ok()
            };
            limits.extend(files.iter().filter_map(of_file));
            limits.extend(hierarchical(&folder));
        }
    }
    // A group without any memory is one that nobody has set up yet.
    limits
        .into_iter()
        .filter(|limit| (1..NO_LIMIT).contains(limit))
        .min()
}

/// What version 1 sums up of the groups above, also of those that a container does not see.
fn hierarchical(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("memory.stat")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("hierarchical_memory_limit "))?;
    line.trim().parse().ok()
}

/// A line of mountinfo.
struct Mount<'a> {
    /// The folder of the file system that is mounted.
    root: &'a str,
    /// Where it is.
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, what) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut what = what.split(' ');
        Some(Self {
            root: place.next()?,
            at: place.next()?,
            kind: what.next()?,
            options: what.nth(1)?,
        })
    }

    /// Whether the limits of memory are there, of this version.
    fn has_memory(&self, second_version: bool) -> bool {
        match second_version {
            true => self.kind == "cgroup2",
            false => self.kind == "cgroup" && self.options.split(',').any(|o| o == "memory"),
        }
    }

    /// The folders of a group and of all above it that can be seen.
    fn folders(&self, group: &str) -> Vec<PathBuf> {
        let root = self.root.trim_end_matches('/');
        // A group outside of what is mounted is not seen, and the top is what holds for it.
        let below = group
            .strip_prefix(root)
            .filter(|below| below.starts_with('/') && !below.contains("/.."))
            .unwrap_or("");
        let top = Path::new(self.at);
        let own = top.join(below.trim_matches('/'));
        own.ancestors()
            .take_while(|folder| folder.starts_with(top))
            .map(Path::to_owned)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const V1: &str = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    const V2: &str = "24 22 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";

    /// What is found in a system of these files.
    fn found(name: &str, files: &[(&str, &str)]) -> Option<u64> {
        let name = format!("leveret-cgroup-{name}-{}", std::process::id());
        let system = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&system);
        for (path, text) in files {
            let path = system.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = memory_bytes_below(&system);
        let _ = fs::remove_dir_all(&system);
        found
    }

    #[test]
    fn the_least_limit_of_the_own_group_and_those_above_holds() {
        let service = "sys/fs/cgroup/system.slice/leveret.service/memory.max";
        let slice = "sys/fs/cgroup/system.slice/memory.max";
        let own = ("proc/self/cgroup", "0::/system.slice/leveret.service\n");
        let mounts = ("proc/self/mountinfo", V2);
        let root = ("sys/fs/cgroup/memory.max", "1048576\n");
        let other = ("sys/fs/cgroup/other.slice/memory.max", "1048576\n");
        for (limit, above, least) in [
            ("209715200\n", "max\n", Some(200 * MIB)),
            ("max\n", "104857600\n", Some(100 * MIB)),
            ("209715200\n", "104857600\n", Some(100 * MIB)),
            ("max\n", "max\n", None),
        ] {
            let files = [own, mounts, (service, limit), (slice, above), other];
            assert_eq!(found("v2", &files), least, "{limit} {above}");
        }
        let high = "sys/fs/cgroup/system.slice/leveret.service/memory.high";
        let files = [own, mounts, (service, "max"), (high, "52428800")];
        assert_eq!(found("high", &files), Some(50 * MIB));
        // A container sees its group as the root.
        let in_container = ("proc/self/cgroup", "0::/\n");
        assert_eq!(found("v2", &[in_container, mounts, root]), Some(MIB));
        let outside = ("proc/self/cgroup", "0::/../../elsewhere\n");
        assert_eq!(found("v2", &[outside, mounts, root]), Some(MIB));
    }

    #[test]
    fn version_1_is_read_as_well() {
        let groups = (
            "proc/self/cgroup",
            "5:memory:/a/b\n4:cpu,cpuacct:/a\n0::/\n",
        );
        let mounts = ("proc/self/mountinfo", V1);
        let own = "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes";
        let above = "sys/fs/cgroup/memory/a/memory.limit_in_bytes";
        let none = "9223372036854771712\n";
        for (limit, limit_above, least) in [
            ("209715200\n", none, Some(200 * MIB)),
            (none, "104857600\n", Some(100 * MIB)),
            (none, none, None),
        ] {
            let files = [groups, mounts, (own, limit), (above, limit_above)];
            assert_eq!(found("v1", &files), least, "{limit} {limit_above}");
        }
        let stat = (
            "sys/fs/cgroup/memory/a/b/memory.stat",
            "cache 0\nhierarchical_memory_limit 52428800\n",
        );
        let files = [groups, mounts, (own, none), stat];
        assert_eq!(found("v1", &files), Some(50 * MIB));
        // Docker mounts the container's own group, and names it as the host does.
        let bound = V1.replace(
            " / /sys/fs/cgroup/memory",
            " /docker/c1 /sys/fs/cgroup/memory",
        );
        let files = [
            ("proc/self/cgroup", "5:memory:/docker/c1\n"),
            ("proc/self/mountinfo", bound.as_str()),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "209715200"),
        ];
        assert_eq!(found("docker", &files), Some(200 * MIB));
    }

    #[test]
    fn a_system_without_control_groups_has_no_limit() {
        assert_eq!(found("none", &[]), None);
        let groups = ("proc/self/cgroup", "garbage\n0\n::\n7:memory\n");
        assert_eq!(
            found("garbage", &[groups, ("proc/self/mountinfo", "x - y\n")]),
            None
        );
    }
}
