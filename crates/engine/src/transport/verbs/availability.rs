//! Whether this process can use RDMA at all, and what to do when it cannot.

/// Why there are no verbs here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerbsUnavailable {
    /// The binary was built without RDMA.
    #[error("this binary was built without RDMA; build it with `cargo build --release --features rdma`")]
    NotBuilt,
    /// The user-space library is not installed.
    #[error("libibverbs.so.1 not found; install rdma-core (Debian: libibverbs1 ibverbs-providers)")]
    NoLibrary,
    /// The kernel has no RDMA subsystem.
    #[error(
        "the kernel has no RDMA (no /sys/class/infiniband_verbs); load ib_uverbs and the NIC's driver, and in a \
         container pass /dev/infiniband on"
    )]
    NoKernel,
    /// There is no device.
    #[error("no RDMA device on this host; `rdma link` or `ibv_devices` would list one")]
    NoDevice,
    /// Something else.
    #[error("RDMA devices cannot be listed: {0}")]
    Other(String),
}

/// Whether verbs can be used here, in a binary built without them.
#[cfg(not(feature = "rdma"))]
pub fn probe() -> Result<(), VerbsUnavailable> {
    Err(VerbsUnavailable::NotBuilt)
}

/// Whether verbs can be used here: library, kernel and at least one device.
#[cfg(feature = "rdma")]
pub fn probe() -> Result<(), VerbsUnavailable> {
    match super::context::device_names() {
        Ok(names) if names.is_empty() => Err(VerbsUnavailable::NoDevice),
        Ok(_) => Ok(()),
        Err(error) => Err(match error.raw_os_error() {
            // The loader's substitutes for a missing library answer so.
            Some(nix::libc::EOPNOTSUPP) => VerbsUnavailable::NoLibrary,
            Some(nix::libc::ENOSYS) => VerbsUnavailable::NoKernel,
            _ => VerbsUnavailable::Other(error.to_string()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_what_to_do() {
        let cases = [
            (VerbsUnavailable::NotBuilt, "--features rdma"),
            (VerbsUnavailable::NoLibrary, "install rdma-core"),
            (VerbsUnavailable::NoKernel, "load ib_uverbs"),
            (VerbsUnavailable::NoDevice, "ibv_devices"),
        ];
        for (missing, advice) in cases {
            assert!(missing.to_string().contains(advice), "{missing}");
        }
    }

    #[test]
    fn a_machine_without_rdma_says_which_part_of_it_is_missing() {
        // Wherever this runs, the answer is one of the named ones: a bare error code helps nobody.
        if let Err(missing) = probe() {
            assert!(!matches!(missing, VerbsUnavailable::Other(_)), "{missing}");
        }
    }
}
