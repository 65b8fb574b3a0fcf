//! Which rank of its host a process is, where whoever started it says so.

/// Variables that tell it: Open MPI, MPICH and Intel MPI, Slurm, torchrun.
const VARIABLES: [&str; 5] = [
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "PMI_LOCAL_RANK",
    "SLURM_LOCALID",
    "LOCAL_RANK",
];

/// This process's number among the ranks of its host, from the environment.
pub fn local_rank() -> Option<u32> {
    first_number(|name| std::env::var(name).ok())
}

fn first_number(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    VARIABLES
        .iter()
        .find_map(|name| variable(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_one_host_are_told_apart_whoever_started_them() {
        let only = |set: &'static str, value: &'static str| {
            first_number(move |name| (name == set).then(|| value.to_string()))
        };
        assert_eq!(only("SLURM_LOCALID", "3"), Some(3));
        assert_eq!(only("OMPI_COMM_WORLD_LOCAL_RANK", "1"), Some(1));
        assert_eq!(only("LOCAL_RANK", "none"), None);
        assert_eq!(first_number(|_| None), None);
    }
}
