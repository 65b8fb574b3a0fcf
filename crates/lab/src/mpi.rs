//! The mpirun command line that starts ranks across a lab.
//!
//! mpirun itself runs on h0 and reaches the other hosts through `lab agent`, which replaces the remote shell. Its own
//! traffic stays on the management network, and it detects within seconds when that is cut.

use std::ffi::OsString;
use std::path::Path;

use super::config::MANAGEMENT;
use super::{Lab, LabError, Run, tools};

/// mpirun with everything it needs to run `words` as ranks on every host.
pub fn command(lab: &Lab, run: &Run, this: &Path, words: &[OsString]) -> Result<Vec<OsString>, LabError> {
    let runs_this = words.first().is_some_and(|program| program == this.as_os_str());
    if runs_this && !run.built_with_mpi {
        return Err(LabError::CannotRun(
            "this railgauge was built without MPI; build it with: cargo build --features mpi (needs openmpi-bin \
             libopenmpi-dev libclang-dev), or use --launch env"
                .to_string(),
        ));
    }
    let mpirun = tools::find("mpirun").ok_or(LabError::MissingTool {
        tool: "mpirun",
        package: "openmpi-bin",
    })?;
    let agent = format!("{} lab agent {}", this.display(), lab.name);
    if this
        .to_str()
        .is_none_or(|path| path.contains(char::is_whitespace))
    {
        let message = format!(
            "mpirun cannot start agents from a path with spaces: {}",
            this.display()
        );
        return Err(LabError::CannotRun(message));
    }
    let mut line = vec![mpirun.into_os_string()];
    line.extend(
        arguments(lab.wiring.shape.hosts, run.per_host, &agent)
            .into_iter()
            .map(OsString::from),
    );
    line.extend_from_slice(words);
    Ok(line)
}

fn arguments(hosts: u16, per_host: u32, agent: &str) -> Vec<String> {
    let hosts: Vec<String> = (0..hosts).map(|host| format!("h{host}:{per_host}")).collect();
    let parameters = [
        ("plm", "rsh"),
        ("plm_rsh_agent", agent),
        ("plm_rsh_no_tree_spawn", "1"),
        ("oob_tcp_if_include", MANAGEMENT),
        ("btl_tcp_if_include", MANAGEMENT),
        ("btl", "self,vader,tcp"),
        ("pml", "ob1"),
        ("btl_vader_single_copy_mechanism", "none"),
        ("mpi_yield_when_idle", "1"),
        ("oob_tcp_keepalive_time", "2"),
        ("oob_tcp_keepalive_intvl", "1"),
        ("oob_tcp_keepalive_probes", "3"),
        // When a rank dies mpirun ends the others: time for rank 0 to write what was measured, on a busy machine, too.
        ("odls_base_sigkill_timeout", "20"),
    ];
    let mut line = ["--allow-run-as-root", "--bind-to", "none", "--host"]
        .map(str::to_string)
        .to_vec();
    line.push(hosts.join(","));
    for (name, value) in parameters {
        line.extend(["--mca".to_string(), name.to_string(), value.to_string()]);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpirun_keeps_off_the_rails_and_notices_a_cut_management_network() {
        let line = arguments(3, 2, "/x/railgauge lab agent lab").join(" ");
        assert!(line.contains("--host h0:2,h1:2,h2:2 "), "{line}");
        assert!(
            line.contains("--mca plm_rsh_agent /x/railgauge lab agent lab --mca"),
            "{line}"
        );
        assert!(
            line.contains("btl_tcp_if_include mg0") && line.contains("oob_tcp_if_include mg0"),
            "{line}"
        );
        assert!(line.contains("oob_tcp_keepalive_time 2"), "{line}");
        assert!(line.contains("odls_base_sigkill_timeout 20"), "{line}");
    }
}
