//! Counters of RDMA ports worth reading before and after a measurement.

use std::path::Path;

use super::port_folder;
use crate::fabric::sysfs::number;

/// What the port itself counts, as InfiniBand defines it.
const OF_THE_PORT: &[&str] = &[
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_wait",
    "symbol_error",
];

/// What the device counts on top of that; no device has all of them.
const OF_THE_HARDWARE: &[&str] = &[
    "completer_retry_err",
    "duplicate_request",
    "implied_nak_seq_err",
    "link_downed",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_seq_request",
    "out_of_sequence",
    "packet_seq_err",
    "rcvd_pkts",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_slow_restart",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_icrc_encapsulated",
    "send_err",
    "send_rnr_err",
    "sent_pkts",
];

/// The counters of a port that there are, by their kernel names, the same order every time. A counter that both the port
/// and the device have is told once, as the port counts it.
pub fn read_counters(root: &Path, device: &str, port: u8) -> Vec<(String, u64)> {
    let Some(folder) = port_folder(root, device, port) else {
        return Vec::new();
    };
    let mut found: Vec<(String, u64)> = Vec::new();
    for (kind, names) in [("counters", OF_THE_PORT), ("hw_counters", OF_THE_HARDWARE)] {
        for name in names {
            let is_known = found.iter().any(|(known, _)| known == name);
            if let Some(value) = number(&folder.join(kind).join(name)).filter(|_| !is_known) {
                found.push((name.to_string(), value));
            }
        }
    }
    found
}
