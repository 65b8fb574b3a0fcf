//! This machine, as it is recorded.

use serde::{Deserialize, Serialize};

use record::HostRecord;

/// What a run records about the machine this process is on.
pub fn here() -> HostRecord {
    HostRecord {
        name: name(),
        cores: cores(),
        kernel: kernel(),
        machine: Some(identity().machine),
    }
}

/// The host name; `localhost` when the machine has none.
fn name() -> String {
    let name = nix::unistd::gethostname().ok();
    let name = name.and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_string())
}

/// CPU cores this process may use, containers and affinity masks considered.
fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    u32::try_from(cores).unwrap_or(u32::MAX)
}

/// System and release of the kernel; `unknown` when it does not say.
fn kernel() -> String {
    match nix::sys::utsname::uname() {
        Ok(names) => format!(
            "{} {}",
            names.sysname().to_string_lossy(),
            names.release().to_string_lossy()
        ),
        Err(_) => "unknown".to_string(),
    }
}

/// What distinguishes this machine and its network from another of the same name: the boot id and the network namespace.
pub fn identity() -> Identity {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    Identity {
        // Without a boot id, machines are distinguished by name only.
        machine: Some(boot.trim().to_string())
            .filter(|boot| !boot.is_empty())
            .unwrap_or_else(name),
        network: network.display().to_string(),
    }
}

/// What names the monotonic clock of this process: the same for all processes of a kernel and time namespace. None where the kernel
/// does not say which it is.
pub fn clock() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // Kernels without time namespaces have one clock.
    let time = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    let boot = boot.trim();
    (!boot.is_empty()).then(|| format!("{boot} {}", time.display()))
}

/// Two processes with the same identity are on one host; two with the same machine share its cores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The running kernel.
    pub machine: String,
    /// The network namespace on it.
    pub network: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_can_say_which_machine_it_is_about() {
        let host = here();
        assert!(!host.name.is_empty());
        assert!(host.cores >= 1);
        assert!(
            host.kernel.starts_with("Linux ") && host.kernel.len() > 8,
            "{}",
            host.kernel
        );
    }
}
