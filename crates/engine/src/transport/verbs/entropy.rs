//! Which UDP source port RoCE packets carry, so that their path through ECMP switches is known before they are sent.
//!
//! The sender's kernel derives the source port of a RoCE v2 packet from the flow label of the queue pair's address, or, without a
//! label, from the numbers of the two queue pairs. It does so for every device.

/// RoCE v2 packets are sent from ports of this range.
pub const PORTS: std::ops::RangeInclusive<u16> = 0xC000..=0xFFFF;

/// RoCE v2 packets are sent to this port.
pub const ROCE_PORT: u16 = 4791;

/// Bits of a flow label.
const LABEL_BITS: u32 = 0x000f_ffff;
/// Bits of a flow label that a port has room for; the rest is folded into them.
const PORT_BITS: u32 = 0x3fff;

/// The source port that a flow label gives.
pub fn port_of_label(label: u32) -> u16 {
    let label = label & LABEL_BITS;
    let folded = (label & PORT_BITS) ^ (label >> 14);
    *PORTS.start() | folded as u16
}

/// The flow label that gives a source port, the smallest of them; none for a port that RoCE packets cannot have. Label 0
/// means "any" to the kernel, so the first port of the range has a label with folded bits.
pub fn label_of_port(port: u16) -> Option<u32> {
    if !PORTS.contains(&port) {
        return None;
    }
    match u32::from(port) & PORT_BITS {
        0 => Some(1 << 14 | 1),
        bits => Some(bits),
    }
}

/// The source port of a queue pair whose label was left to the kernel.
pub fn port_of_pair(queue_pair: u32, peer: u32) -> u16 {
    let product = u64::from(queue_pair) * u64::from(peer);
    let folded = product ^ (product >> 20);
    let folded = folded ^ (folded >> 40);
    port_of_label((folded & u64::from(LABEL_BITS)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_seen_on_the_wire_give_the_ports_seen_there() {
        // Captured from Soft-RoCE on Linux 6.12.
        assert_eq!(port_of_label(1), 0xC001);
        assert_eq!(port_of_label(77_777), 0xEFD5);
    }

    #[test]
    fn every_port_of_the_range_has_a_label_that_is_not_the_kernels_word_for_any() {
        for port in PORTS {
            let label = label_of_port(port).unwrap();
            assert!(label != 0 && label <= LABEL_BITS);
            assert_eq!(port_of_label(label), port);
        }
        assert_eq!(label_of_port(0xBFFF), None);
    }

    #[test]
    fn a_pair_of_queue_pairs_has_one_port_within_the_range_in_either_direction() {
        for (one, other) in [(17, 18), (0x00ff_ffff, 0x00ff_ffff), (1, 0x00ab_cdef)] {
            let port = port_of_pair(one, other);
            assert!(PORTS.contains(&port));
            assert_eq!(port, port_of_pair(other, one));
        }
    }
}
