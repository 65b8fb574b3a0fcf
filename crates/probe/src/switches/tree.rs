//! Live or recorded trees: a folder with one sub-folder per switch, each with that switch's sysfs.

use std::path::Path;

use super::{PortBytes, PortTable, Width};
use crate::sysfs;

/// Where in a switch's folder its sysfs may begin.
const ROOTS: &[&str] = &["sys", "."];

/// Puts in the ports of one switch, whose folder this is. Whether it is one at all.
pub(super) fn read(folder: &Path, switch: &str, table: &mut PortTable) -> Result<bool, String> {
    let roots = ROOTS.iter().map(|root| folder.join(root));
    let Some(root) = roots.into_iter().find(|root| root.join("class/net").is_dir()) else {
        return Ok(false);
    };
    for interface in sysfs::interfaces(&root) {
        let counters = sysfs::read_counters(&root, &interface.name);
        let counter = |name: &str| {
            let mut named = counters.iter().filter(|(found, _)| found == name);
            named.find_map(|(_, value)| *value)
        };
        let bytes = PortBytes {
            tx_bytes: counter("tx_bytes"),
            rx_bytes: counter("rx_bytes"),
            width: Width::Bits64,
        };
        table.put(switch, &interface.name, bytes)?;
    }
    Ok(true)
}
