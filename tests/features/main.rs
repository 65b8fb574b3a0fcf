//! What a binary without a feature says when it is asked for it. A program of its own, small: `ci/test` builds it without features, and
//! all other tests with them.

#[cfg(not(all(feature = "mpi", feature = "rdma")))]
mod without {
    use std::process::{Command, Output};

    /// `railgauge` with arguments, in an empty folder, outside any launcher.
    fn railgauge(arguments: &[&str]) -> (i32, String) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_railgauge"));
        command.args(arguments).current_dir(&folder);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["OMPI_", "PMI", "SLURM_", "RAILGAUGE_"]
                .iter()
                .any(|family| text.starts_with(family))
            {
                command.env_remove(&name);
            }
        }
        let Output { status, stderr, .. } = command.output().unwrap();
        let code = status.code().expect("it ends by itself");
        (code, String::from_utf8_lossy(&stderr).into_owned())
    }

    #[cfg(not(feature = "mpi"))]
    #[test]
    fn mpi_says_how_to_build_it() {
        let (code, error) = railgauge(&["run", "smoke", "--launch", "mpi"]);
        assert_eq!(code, 3, "{error}");
        for advice in [
            "cargo build --release --features mpi",
            "libopenmpi-dev",
            "--launch env",
        ] {
            assert!(error.contains(advice), "{error}");
        }
    }

    #[cfg(not(feature = "mpi"))]
    #[test]
    fn mpi_in_a_lab_says_how_to_build_it() {
        if !nix::unistd::Uid::effective().is_root() {
            crate::skip::skip("lab", "not root");
            return;
        }
        let name = format!("f{}", std::process::id());
        let (code, error) = railgauge(&["lab", "up", "2x1", "--name", &name]);
        assert_eq!(code, 0, "{error}");
        let (code, error) = railgauge(&[
            "lab", "run", "--name", &name, "--launch", "mpi", "--", "run", "smoke",
        ]);
        railgauge(&["lab", "down", "--name", &name]);
        assert_eq!(code, 3, "{error}");
        assert!(error.contains("--features mpi"), "{error}");
    }

    #[cfg(not(feature = "rdma"))]
    #[test]
    fn rdma_says_how_to_build_it() {
        let (code, error) = railgauge(&["run", "smoke", "--transport", "verbs"]);
        assert_eq!(code, 3, "{error}");
        for advice in [
            "asks for the verbs transport",
            "rank 0 (",
            "this binary was built without RDMA",
            "cargo build --release --features rdma",
        ] {
            assert!(error.contains(advice), "{error}");
        }
    }
}

#[cfg(not(all(feature = "mpi", feature = "rdma")))]
#[path = "../support/skip.rs"]
mod skip;
