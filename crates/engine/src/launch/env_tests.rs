//! Rank assignments from each scheduler's variables, and what is refused.

use proptest::prelude::*;

use super::*;

const NAMES: &[&str] = &[
    "RAILGAUGE_RANK",
    "RAILGAUGE_WORLD",
    "RAILGAUGE_RENDEZVOUS",
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NODELIST",
    "SLURM_TASKS_PER_NODE",
    "SLURM_JOB_ID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
];

fn with(flags: &RankFlags, text: &str) -> Result<Option<RankAssignment>, RankAssignmentError> {
    let look = |name: &str| {
        let mut words = text.split_whitespace().filter_map(|word| word.split_once('='));
        words
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.to_string())
    };
    rank_assignment(flags, &LocalHost::default(), &look)
}

/// Rank, world, rendezvous and source that these variables give.
fn given(text: &str) -> (u32, u32, String, String) {
    let assignment = with(&RankFlags::default(), text).unwrap().unwrap();
    (
        assignment.rank,
        assignment.world,
        assignment.rendezvous.to_string(),
        assignment.source,
    )
}

fn refused(text: &str) -> String {
    with(&RankFlags::default(), text).unwrap_err().to_string()
}

#[test]
fn every_scheduler_is_understood() {
    let own = given("RAILGAUGE_RANK=1 RAILGAUGE_WORLD=4 RAILGAUGE_RENDEZVOUS=h0:777");
    assert_eq!(
        own,
        (1, 4, "h0:777".to_string(), "railgauge's variables".to_string())
    );
    let torchrun = "RANK=3 WORLD_SIZE=8 MASTER_ADDR=n1 MASTER_PORT=29500";
    assert_eq!(given(torchrun).2, "n1:29500");
    let real = given(&format!("{torchrun} TORCHELASTIC_USE_AGENT_STORE=True"));
    assert_eq!(real.2, "n1:29501", "torchrun's agent holds MASTER_PORT");
    let slurm = "SLURM_PROCID=2 SLURM_NTASKS=7 SLURM_STEP_NODELIST=h[0-2,7] SLURM_TASKS_PER_NODE=2(x3),1 SLURM_JOB_ID=41 SLURM_STEP_ID=3";
    let (rank, world, rendezvous, source) = given(slurm);
    assert_eq!(
        (rank, world, rendezvous.as_str(), source.as_str()),
        (2, 7, "h0:24331", "Slurm variables")
    );
    let hosts = with(&RankFlags::default(), slurm)
        .unwrap()
        .unwrap()
        .hosts
        .unwrap();
    assert_eq!(hosts, ["h0", "h0", "h1", "h1", "h2", "h2", "h7"]);
    let mpi = given("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 RAILGAUGE_RENDEZVOUS=[fd00::1]:5");
    assert_eq!((mpi.0, mpi.1, mpi.2.as_str()), (0, 2, "[fd00::1]:5"));
    assert_eq!(
        given("PMI_RANK=1 PMI_SIZE=2 MASTER_ADDR=h9 MASTER_PORT=6").2,
        "h9:6"
    );
}

#[test]
fn nothing_or_a_world_of_one_is_a_local_run() {
    for text in [
        "",
        "SLURM_NTASKS=4",
        "SLURM_PROCID=0 SLURM_NTASKS=1",
        "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1",
    ] {
        assert_eq!(with(&RankFlags::default(), text), Ok(None), "{text}");
    }
}

#[test]
fn an_incomplete_source_or_a_bad_value_is_named() {
    for (text, words) in [
        ("RAILGAUGE_RANK=1", "RAILGAUGE_RANK is set but RAILGAUGE_WORLD"),
        ("RAILGAUGE_WORLD=1", "RAILGAUGE_WORLD is set but RAILGAUGE_RANK"),
        ("RANK=1", "RANK is set but WORLD_SIZE"),
        (
            "OMPI_COMM_WORLD_SIZE=2",
            "OMPI_COMM_WORLD_SIZE is set but OMPI_COMM_WORLD_RANK",
        ),
        ("PMI_RANK=x PMI_SIZE=2", "PMI_RANK is malformed: `x`"),
        ("SLURM_PROCID=1", "SLURM_PROCID is set but SLURM_NTASKS"),
        (
            "SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NODELIST=h[0-",
            "SLURM_STEP_NODELIST is malformed",
        ),
        (
            "RANK=0 WORLD_SIZE=2 MASTER_ADDR=h0",
            "MASTER_ADDR is set but MASTER_PORT",
        ),
        (
            "RANK=0 WORLD_SIZE=2 MASTER_ADDR=h0 MASTER_PORT=70000",
            "MASTER_PORT is malformed",
        ),
        ("RANK=2 WORLD_SIZE=2 MASTER_ADDR=h0 MASTER_PORT=7", "rank 2 of 2"),
        (
            "RAILGAUGE_RANK=0 RAILGAUGE_WORLD=2 RAILGAUGE_RENDEZVOUS=0.0.0.0:1",
            "RAILGAUGE_RENDEZVOUS is malformed",
        ),
        (
            "PMI_RANK=0 PMI_SIZE=2",
            "set RAILGAUGE_RENDEZVOUS=HOST:PORT or --rendezvous",
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn two_launchers_that_count_differently_are_separate_worlds() {
    let error = refused("SLURM_PROCID=2 SLURM_NTASKS=4 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1");
    for words in [
        "SLURM_PROCID=2",
        "OMPI_COMM_WORLD_SIZE=1",
        "separate worlds",
        "RAILGAUGE_RANK",
    ] {
        assert!(error.contains(words), "{error}");
    }
    let agree = "SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_JOB_NODELIST=h[0-3] PMI_RANK=2 PMI_SIZE=4";
    assert_eq!(given(agree).0, 2);
    let own = format!("{agree} PMI_SIZE=9 RAILGAUGE_RANK=1 RAILGAUGE_WORLD=2");
    assert_eq!((given(&own).0, given(&own).1), (1, 2), "the operator wins");
    let nested =
        "SLURM_PROCID=1 SLURM_NTASKS=2 RANK=9 WORLD_SIZE=16 GROUP_WORLD_SIZE=2 MASTER_ADDR=h0 MASTER_PORT=9";
    assert_eq!(given(nested).0, 9, "srun started torchrun");
}

#[test]
fn flags_win_over_variables_field_by_field() {
    let flags = RankFlags {
        rank: Some(2),
        rendezvous: Some(":5".to_string()),
        ..RankFlags::default()
    };
    let assignment = with(
        &flags,
        "RAILGAUGE_RANK=0 RAILGAUGE_WORLD=4 RAILGAUGE_RENDEZVOUS=h0:777",
    )
    .unwrap()
    .unwrap();
    assert_eq!(
        (
            assignment.rank,
            assignment.world,
            assignment.rendezvous.to_string()
        ),
        (2, 4, "h0:5".to_string())
    );
    let file = RankFlags {
        hosts: Some(HostsFile::parse("a slots=2\nb").unwrap()),
        rank: Some(1),
        ..RankFlags::default()
    };
    let assignment = with(&file, "").unwrap().unwrap();
    assert_eq!(
        (assignment.world, assignment.rendezvous.to_string()),
        (3, "a:29400".to_string())
    );
    assert_eq!(assignment.hosts.unwrap(), ["a", "a", "b"]);
    let world = RankFlags {
        world: Some(9),
        ..file
    };
    assert!(with(&world, "").unwrap_err().to_string().contains("3 slots"));
}

#[test]
fn every_launcher_tells_the_ranks_of_one_host_apart() {
    let only = |set: &'static str, value: &'static str| {
        first_local_rank(move |name| (name == set).then(|| value.to_string()))
    };
    assert_eq!(only("SLURM_LOCALID", "3"), Some(3));
    assert_eq!(only("OMPI_COMM_WORLD_LOCAL_RANK", "1"), Some(1));
    assert_eq!(only("LOCAL_RANK", "none"), None);
    assert_eq!(first_local_rank(|_| None), None);
}

proptest! {
    #[test]
    fn whatever_the_variables_hold_the_assignment_is_sound_or_refused(
        values in proptest::collection::vec(proptest::option::of("[0-9]{1,3}|h\\[0-3\\]|2\\(x3\\),1|\\PC{0,12}"), NAMES.len())
    ) {
        let look = |name: &str| {
            let at = NAMES.iter().position(|known| *known == name)?;
            values[at].clone()
        };
        if let Ok(Some(assignment)) = rank_assignment(&RankFlags::default(), &LocalHost::default(), &look) {
            prop_assert!(assignment.rank < assignment.world && assignment.world <= MOST_RANKS);
            prop_assert!(topology::nodelist::check_host(&assignment.rendezvous.host).is_ok());
            prop_assert!(assignment.rendezvous.port > 0);
            prop_assert!(assignment.hosts.is_none_or(|hosts| hosts.len() == assignment.world as usize));
        }
    }

    #[test]
    fn slurm_ports_stay_in_their_range(job in any::<u32>(), step in any::<u32>()) {
        prop_assert!((24_000..32_000).contains(&slurm_port(job, step)));
    }
}
