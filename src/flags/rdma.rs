//! Flags about RDMA. A suite's `[verbs]` table may set them too; the command line wins.

use clap::Args;

use crate::error::CliError;
use plan::Plan;
use topology::suite::{CompletionChoice, GpuDirectChoice, VerbsSettings};

/// Flags about RDMA.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "RDMA (with --transport verbs)")]
pub struct RdmaFlags {
    /// GID index of the port (`show_gids` lists them) [default: RoCE v2 with the rail's address]
    #[arg(long, value_name = "N")]
    pub gid_index: Option<u8>,
    /// Traffic class of RoCE packets, 0 to 255: DSCP x 4 + ECN bits [default: 0]
    #[arg(long, value_name = "N")]
    pub traffic_class: Option<u8>,
    /// Service level (InfiniBand) or priority, 0 to 15 [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=15))]
    pub service_level: Option<u8>,
    /// Packet payload in bytes: 256, 512, 1024, 2048 or 4096 [default: the largest that both ports allow]
    #[arg(long, value_name = "BYTES", value_parser = path_mtu)]
    pub path_mtu: Option<u16>,
    /// How completions are awaited: auto, poll or event
    #[arg(long, value_name = "HOW")]
    pub completion: Option<CompletionChoice>,
    /// GPUDirect RDMA: auto, on (refuse the run without it) or off
    #[arg(long, value_name = "WHETHER")]
    pub gpudirect: Option<GpuDirectChoice>,
}

impl RdmaFlags {
    /// The flags as settings.
    pub fn settings(&self) -> VerbsSettings {
        VerbsSettings {
            service_level: self.service_level,
            traffic_class: self.traffic_class,
            path_mtu: self.path_mtu,
            gid_index: self.gid_index,
            completion: self.completion,
            gpudirect: self.gpudirect,
        }
    }

    /// Refuses flags that no cell of the plan uses.
    pub fn check_used(&self, plan: &Plan) -> Result<(), CliError> {
        let typed = [
            ("--gid-index", self.gid_index.is_some()),
            ("--traffic-class", self.traffic_class.is_some()),
            ("--service-level", self.service_level.is_some()),
            ("--path-mtu", self.path_mtu.is_some()),
            ("--completion", self.completion.is_some()),
            ("--gpudirect", self.gpudirect.is_some()),
        ];
        let is_used = plan.cells.iter().any(|cell| cell.verbs.is_some());
        match typed.iter().find(|(_, is_typed)| *is_typed && !is_used) {
            Some((flag, _)) => Err(CliError::Usage(format!(
                "{flag} is about RDMA, and no cell of this run uses RDMA; add --transport verbs"
            ))),
            None => Ok(()),
        }
    }
}

fn path_mtu(text: &str) -> Result<u16, String> {
    let mtu = text.parse().ok();
    mtu.filter(|mtu| VerbsSettings::PATH_MTUS.contains(mtu))
        .ok_or_else(|| "must be 256, 512, 1024, 2048 or 4096".to_string())
}
