//! The software of a host: versions in the names of libraries, releases in files, containers. No program is run.

use super::read::unreadable;
use super::tree::Tree;
use record::Fact;
use record::text::natural;

/// Folders in which distributions and vendors put libraries.
const FOLDERS: [&str; 6] = [
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/lib",
    "usr/local/cuda/lib64",
];

/// Libraries whose version is part of their file's name.
pub(super) const LIBRARIES: [(&str, &str); 4] = [
    ("nccl", "libnccl.so."),
    ("cuda-runtime", "libcudart.so."),
    ("ibverbs", "libibverbs.so."),
    ("mlx5-provider", "libmlx5.so."),
];

/// Where the vendor's stack says which release it is.
const RELEASES: [&str; 3] = [
    "usr/share/doc/mlnx-ofed/version",
    "etc/mlnx-release",
    "etc/mellanox-release",
];
/// The vendor's tool that prints the release: the release is in it, and all packages of it.
const RELEASE_TOOL: &str = "usr/bin/ofed_info";
const LONGEST_TOOL: u64 = 4 << 20;
/// What releases begin with in there.
const RELEASE_NAMES: [&str; 2] = ["MLNX_OFED_LINUX-", "OFED-internal-"];

/// Files that only containers have, and the kind of container.
const MARKS: [(&str, &str); 3] = [
    (".dockerenv", "docker"),
    ("run/.containerenv", "podman"),
    (".singularity.d", "singularity"),
];
/// Words in the names of containers' control groups.
const GROUPS: [(&str, &str); 5] = [
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("containerd", "containerd"),
    ("lxc", "lxc"),
];

/// The newest version among the files of a library: `libnccl.so.2.28.9` beside `libnccl.so.2`.
pub(super) fn library(tree: &Tree, prefix: &str) -> Fact {
    let is_version = |name: &str| match name.strip_prefix(prefix) {
        Some(version) => !version.is_empty() && version.chars().all(|c| c.is_ascii_digit() || c == '.'),
        None => false,
    };
    let mut found: Vec<String> = Vec::new();
    let mut unavailable = Fact::Absent;
    for folder in FOLDERS {
        match tree.names(folder, is_version) {
            Ok(names) => found.extend(
                names
                    .iter()
                    .filter_map(|name| name.strip_prefix(prefix))
                    .map(str::to_string),
            ),
            Err(fact) => unavailable = fact,
        }
    }
    // The longer version is the file, the shorter ones are links to it.
    found.sort_by_cached_key(|version| (version.matches('.').count(), natural(version)));
    found.pop().map_or(unavailable, Fact::Value)
}

/// `PRETTY_NAME` of `/etc/os-release`.
pub(super) fn distribution(tree: &Tree) -> Fact {
    match tree.fact("etc/os-release") {
        Fact::Value(text) => {
            let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
            match name {
                Some(name) => Fact::Value(name.trim_matches('"').to_string()),
                None => unreadable("the file has no PRETTY_NAME"),
            }
        }
        other => other,
    }
}

/// The release of the vendor's stack; `inbox` where the kernel's own drivers are used.
pub(super) fn ofed(tree: &Tree) -> Fact {
    for file in RELEASES {
        match tree.fact(file) {
            Fact::Absent => {}
            fact => return fact,
        }
    }
    match tree.text(RELEASE_TOOL, LONGEST_TOOL) {
        Ok(text) => return release_in(&text),
        Err(Fact::Absent) => {}
        Err(fact) => return fact,
    }
    match tree.fact("sys/module/mlx5_core/version") {
        Fact::Value(version) => Fact::Value(format!("mlx5_core {version}")),
        Fact::Absent if tree.has("sys/module/mlx5_core") => Fact::Value("inbox".to_string()),
        other => other,
    }
}

/// `MLNX_OFED_LINUX-24.10-0.7.0.0` out of the tool that prints it.
fn release_in(text: &str) -> Fact {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let named = RELEASE_NAMES.iter().find_map(|name| {
        let rest = &text[text.find(name)?..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        Some(rest[..end].to_string())
    });
    named.map_or_else(
        || unreadable("the vendor's tool contains no release"),
        Fact::Value,
    )
}

/// The kind of container that this is inside of, or `none`.
pub(super) fn container(tree: &Tree) -> Fact {
    let value = |kind: &str| Fact::Value(kind.to_string());
    if let Some((_, kind)) = MARKS.iter().find(|(file, _)| tree.has(file)) {
        return value(kind);
    }
    match tree.fact("run/systemd/container") {
        Fact::Absent => {}
        fact => return fact,
    }
    match tree.fact("proc/1/cgroup") {
        // Every line is a number, controllers, and a group.
        Fact::Value(groups) if groups.lines().any(|line| line.matches(':').count() < 2) => {
            unreadable("malformed control groups")
        }
        Fact::Value(groups) => {
            let inside = GROUPS.iter().find(|(group, _)| groups.contains(group));
            value(inside.map_or("none", |(_, kind)| kind))
        }
        Fact::Absent => value("none"),
        fact => fact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let tree = Tree::open(root.path());
        (root, tree)
    }

    fn value(text: &str) -> Fact {
        Fact::Value(text.to_string())
    }

    #[test]
    fn the_newest_library_is_told_and_not_the_one_that_sorts_last() {
        let (_root, tree) = tree(&[
            ("usr/lib64/libnccl.so.2", ""),
            ("usr/lib64/libnccl.so.2.9.8", ""),
            ("usr/local/lib/libnccl.so.2.28.9", ""),
            ("usr/lib64/libnccl.so.2.30.7.backup", ""),
        ]);
        assert_eq!(library(&tree, "libnccl.so."), value("2.28.9"));
        assert_eq!(library(&tree, "libcudart.so."), Fact::Absent);
    }

    #[test]
    fn the_vendors_release_is_found_without_running_its_tool() {
        let (_root, tree) = tree(&[
            (
                "usr/bin/ofed_info",
                "#!/bin/bash\necho MLNX_OFED_LINUX-24.10-0.7.0.0:\n",
            ),
            ("sys/module/mlx5_core/version", "24.10-0.7.0\n"),
        ]);
        assert_eq!(ofed(&tree), value("MLNX_OFED_LINUX-24.10-0.7.0.0"));
    }

    #[test]
    fn drivers_of_the_kernel_itself_are_called_inbox() {
        let (_root, with) = tree(&[("sys/module/mlx5_core/refcnt", "3\n")]);
        assert_eq!(ofed(&with), value("inbox"));
        let (_root, without) = tree(&[]);
        assert_eq!(ofed(&without), Fact::Absent);
    }

    #[test]
    fn a_container_is_known_by_its_group_when_it_leaves_no_file() {
        let pod = "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-1234.scope\n";
        let (_root, inside) = tree(&[("proc/1/cgroup", pod)]);
        assert_eq!(container(&inside), value("kubernetes"));
        let (_root, bare) = tree(&[("proc/1/cgroup", "0::/init.scope\n")]);
        assert_eq!(container(&bare), value("none"));
    }
}
