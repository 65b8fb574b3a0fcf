//! The counters themselves.
//!
//! Widths: InfiniBand defines those of ports, which stay at their end (`ports/N/counters`; where a device keeps more bits it
//! shows larger numbers, which are believed). Queue counters of mlx5 have 32 bits and begin again, those of its congestion control
//! 64. Names of ethtool are those of mlx5, which the kernel documents in `networking/device_drivers/ethernet/mellanox/mlx5`.

use super::AtItsEnd::{Sticks, Wraps};
use super::CounterKind::{Congestion, Flap, Gpu, Loss, Pcie, Physical, Traffic};
use super::CounterSource::{Ethtool, Gpu as Nvml, Hardware, Interface, Pcie as PciBus, Port};
use super::CounterUnit::{Bits, Bytes, Events, Microseconds, Packets, Ticks, Words};
use super::{AtItsEnd, Counter, CounterKind, CounterSource, CounterUnit};
use crate::gpu_counters;

const fn counter(
    source: CounterSource,
    name: &'static str,
    kind: CounterKind,
    unit: CounterUnit,
    (bits, end): (u8, AtItsEnd),
) -> Counter {
    Counter {
        name,
        source,
        kind,
        unit,
        bits,
        end,
    }
}

/// As wide as the number it is kept in.
const WIDE: (u8, AtItsEnd) = (64, Wraps);
/// Of 32 bits, and begins again.
const ROUND: (u8, AtItsEnd) = (32, Wraps);

/// Every counter that is read around cells. A new one is a line here, and a rule in `suites/counters.toml` when it means trouble.
pub const COUNTERS: &[Counter] = &[
    // Interfaces: below the interface's folder, or in its `statistics`.
    counter(Interface, "carrier_changes", Flap, Events, ROUND),
    counter(Interface, "rx_bytes", Traffic, Bytes, WIDE),
    counter(Interface, "rx_crc_errors", Physical, Packets, WIDE),
    counter(Interface, "rx_dropped", Loss, Packets, WIDE),
    counter(Interface, "rx_errors", Physical, Packets, WIDE),
    counter(Interface, "rx_frame_errors", Physical, Packets, WIDE),
    counter(Interface, "rx_missed_errors", Congestion, Packets, WIDE),
    counter(Interface, "rx_packets", Traffic, Packets, WIDE),
    counter(Interface, "tx_bytes", Traffic, Bytes, WIDE),
    counter(Interface, "tx_carrier_errors", Physical, Packets, WIDE),
    counter(Interface, "tx_dropped", Loss, Packets, WIDE),
    counter(Interface, "tx_errors", Physical, Packets, WIDE),
    counter(Interface, "tx_packets", Traffic, Packets, WIDE),
    // Ports, as InfiniBand defines them.
    counter(
        Port,
        "excessive_buffer_overrun_errors",
        Congestion,
        Events,
        (4, Sticks),
    ),
    counter(Port, "link_downed", Flap, Events, (8, Sticks)),
    counter(Port, "link_error_recovery", Physical, Events, (8, Sticks)),
    counter(Port, "local_link_integrity_errors", Physical, Events, (4, Sticks)),
    counter(Port, "port_rcv_data", Traffic, Words, WIDE),
    counter(Port, "port_rcv_errors", Physical, Packets, (16, Sticks)),
    counter(Port, "port_rcv_packets", Traffic, Packets, WIDE),
    counter(
        Port,
        "port_rcv_remote_physical_errors",
        Physical,
        Packets,
        (16, Sticks),
    ),
    counter(Port, "port_xmit_data", Traffic, Words, WIDE),
    counter(Port, "port_xmit_discards", Congestion, Packets, (16, Sticks)),
    counter(Port, "port_xmit_packets", Traffic, Packets, WIDE),
    counter(Port, "port_xmit_wait", Congestion, Ticks, (32, Sticks)),
    counter(Port, "symbol_error", Physical, Events, (16, Sticks)),
    // What devices count on top of that; no device has all of them.
    counter(Hardware, "completer_retry_err", Loss, Events, WIDE),
    counter(Hardware, "duplicate_request", Loss, Packets, ROUND),
    counter(Hardware, "implied_nak_seq_err", Loss, Events, ROUND),
    counter(Hardware, "link_downed", Flap, Events, WIDE),
    counter(Hardware, "local_ack_timeout_err", Loss, Events, ROUND),
    counter(Hardware, "np_cnp_sent", Congestion, Packets, WIDE),
    counter(Hardware, "np_ecn_marked_roce_packets", Congestion, Packets, WIDE),
    counter(Hardware, "out_of_buffer", Congestion, Packets, ROUND),
    counter(Hardware, "out_of_seq_request", Loss, Packets, WIDE),
    counter(Hardware, "out_of_sequence", Loss, Packets, ROUND),
    counter(Hardware, "packet_seq_err", Loss, Events, ROUND),
    counter(Hardware, "rcvd_pkts", Traffic, Packets, WIDE),
    counter(Hardware, "rcvd_rnr_err", Congestion, Events, WIDE),
    counter(Hardware, "rcvd_seq_err", Loss, Events, WIDE),
    counter(Hardware, "retry_exceeded_err", Loss, Events, WIDE),
    counter(Hardware, "retry_rnr_exceeded_err", Congestion, Events, WIDE),
    counter(Hardware, "rnr_nak_retry_err", Congestion, Events, ROUND),
    counter(Hardware, "roce_adp_retrans", Loss, Events, ROUND),
    counter(Hardware, "roce_slow_restart", Congestion, Events, ROUND),
    counter(Hardware, "rp_cnp_handled", Congestion, Packets, WIDE),
    counter(Hardware, "rp_cnp_ignored", Congestion, Packets, WIDE),
    counter(Hardware, "rx_icrc_encapsulated", Physical, Packets, WIDE),
    counter(Hardware, "send_err", Loss, Events, WIDE),
    counter(Hardware, "send_rnr_err", Congestion, Events, WIDE),
    counter(Hardware, "sent_pkts", Traffic, Packets, WIDE),
    // What drivers tell ethtool. `outbound_pci_stalled_rd` and `_wr` are percentages; their events are counted.
    counter(Ethtool, "link_down_events_phy", Flap, Events, ROUND),
    counter(Ethtool, "module_bad_shorted", Physical, Events, WIDE),
    counter(Ethtool, "module_bus_stuck", Physical, Events, WIDE),
    counter(Ethtool, "module_high_temp", Physical, Events, WIDE),
    counter(Ethtool, "module_unplug", Flap, Events, WIDE),
    counter(Ethtool, "outbound_pci_buffer_overflow", Pcie, Packets, WIDE),
    counter(Ethtool, "outbound_pci_stalled_rd_events", Pcie, Events, ROUND),
    counter(Ethtool, "outbound_pci_stalled_wr_events", Pcie, Events, ROUND),
    counter(Ethtool, "rx_bytes_phy", Traffic, Bytes, WIDE),
    counter(Ethtool, "rx_corrected_bits_phy", Physical, Bits, WIDE),
    counter(Ethtool, "rx_crc_errors_phy", Physical, Packets, WIDE),
    counter(Ethtool, "rx_discards_phy", Congestion, Packets, WIDE),
    counter(
        Ethtool,
        "rx_global_pause_duration",
        Congestion,
        Microseconds,
        WIDE,
    ),
    counter(Ethtool, "rx_out_of_buffer", Congestion, Packets, ROUND),
    counter(Ethtool, "rx_packets_phy", Traffic, Packets, WIDE),
    counter(Ethtool, "rx_pause_ctrl_phy", Congestion, Packets, WIDE),
    counter(Ethtool, "rx_pci_signal_integrity", Pcie, Events, ROUND),
    counter(Ethtool, "rx_pcs_symbol_err_phy", Physical, Events, WIDE),
    counter(Ethtool, "rx_prio*_discards", Congestion, Packets, WIDE),
    counter(Ethtool, "rx_prio*_pause", Congestion, Packets, WIDE),
    counter(Ethtool, "rx_prio*_pause_duration", Congestion, Microseconds, WIDE),
    counter(Ethtool, "rx_symbol_err_phy", Physical, Events, WIDE),
    counter(Ethtool, "tx_bytes_phy", Traffic, Bytes, WIDE),
    counter(Ethtool, "tx_discards_phy", Congestion, Packets, WIDE),
    counter(Ethtool, "tx_errors_phy", Physical, Packets, WIDE),
    counter(
        Ethtool,
        "tx_global_pause_duration",
        Congestion,
        Microseconds,
        WIDE,
    ),
    counter(Ethtool, "tx_packets_phy", Traffic, Packets, WIDE),
    counter(Ethtool, "tx_pause_ctrl_phy", Congestion, Packets, WIDE),
    counter(Ethtool, "tx_pause_storm_error_events", Congestion, Events, WIDE),
    counter(Ethtool, "tx_pause_storm_warning_events", Congestion, Events, WIDE),
    counter(Ethtool, "tx_pci_signal_integrity", Pcie, Events, ROUND),
    counter(Ethtool, "tx_prio*_pause", Congestion, Packets, WIDE),
    counter(Ethtool, "tx_prio*_pause_duration", Congestion, Microseconds, WIDE),
    // Errors that the PCI bus reports about the device, each file a list of them.
    counter(PciBus, "aer_dev_correctable/BadDLLP", Pcie, Events, WIDE),
    counter(PciBus, "aer_dev_correctable/BadTLP", Pcie, Events, WIDE),
    counter(PciBus, "aer_dev_correctable/Rollover", Pcie, Events, WIDE),
    counter(PciBus, "aer_dev_correctable/RxErr", Pcie, Events, WIDE),
    counter(PciBus, "aer_dev_correctable/Timeout", Pcie, Events, WIDE),
    counter(PciBus, "aer_dev_fatal/TOTAL_ERR_FATAL", Pcie, Events, WIDE),
    counter(PciBus, "aer_dev_nonfatal/TOTAL_ERR_NONFATAL", Pcie, Events, WIDE),
    // Read with a GPU's other sensors.
    counter(Nvml, gpu_counters::ECC_CORRECTED, Gpu, Events, WIDE),
    counter(Nvml, gpu_counters::ECC_UNCORRECTED, Gpu, Events, WIDE),
    counter(Nvml, gpu_counters::NVLINK_CRC_DATA, Gpu, Events, WIDE),
    counter(Nvml, gpu_counters::NVLINK_CRC_FLIT, Gpu, Events, WIDE),
    counter(Nvml, gpu_counters::NVLINK_RECOVERIES, Gpu, Events, WIDE),
    counter(Nvml, gpu_counters::NVLINK_REPLAYS, Gpu, Events, WIDE),
    counter(Nvml, gpu_counters::PCIE_REPLAYS, Gpu, Events, WIDE),
];
