//! `railgauge lab`: a fabric in a box. Arguments and calls; everything else is in `lab`.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use crate::error::CliError;
use lab::{self, FAULT_HELP, Fault, Lab, LabName, Launch, Run, Shape, Status};
use record::units::{Nanos, Rate};

/// What to do with a lab.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  railgauge lab up 4x2 --leaves 2 --spines 2 --rate 200mbit\n  \
railgauge lab fault slow-cable:h2-rail1-leaf1=60%\n  railgauge lab run -- run rails\n  railgauge lab down"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

/// Which lab.
#[derive(Debug, Args)]
struct Which {
    /// Name of the lab
    #[arg(long, default_value = "lab")]
    name: LabName,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build hosts, rails, leaves and spines from network namespaces
    Up(Up),
    /// Remove a lab and everything that runs in it
    Down {
        #[command(flatten)]
        which: Which,
        /// All labs of this machine
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Run a command on one host (or switch, or mgmt) of the lab
    Exec {
        #[command(flatten)]
        which: Which,
        /// End with the process that started this one
        #[arg(long, hide = true)]
        die_with_parent: bool,
        /// The host
        host: String,
        /// The command
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Run a railgauge command on every host of the lab
    #[command(
        after_help = "Examples:\n  railgauge lab run -- run rails --out /tmp/rails\n  \
railgauge lab run --respawn 60s -- burn-in rails --for 1h    # then kill a host's process: railgauge lab fault kill:h2"
    )]
    Run {
        #[command(flatten)]
        which: Which,
        /// How ranks are started
        #[arg(long, default_value = "env")]
        launch: Launch,
        /// Ranks on each host
        #[arg(long, default_value_t = 1)]
        per_host: u32,
        /// Restart a process this long after it dies, as long as rank 0 runs [default: never]
        #[arg(long, value_name = "DUR")]
        respawn: Option<Nanos>,
        /// Run another program with these arguments
        #[arg(long, hide = true)]
        program: Option<PathBuf>,
        /// Arguments of railgauge
        #[arg(last = true, required = true)]
        arguments: Vec<OsString>,
    },
    /// Inject faults
    #[command(after_help = format!("Faults:\n{FAULT_HELP}"))]
    Fault {
        #[command(flatten)]
        which: Which,
        /// The faults
        #[arg(required = true)]
        faults: Vec<Fault>,
    },
    /// Heal faults, named with or without their value
    Heal {
        #[command(flatten)]
        which: Which,
        /// The faults
        #[arg(required_unless_present = "all")]
        faults: Vec<String>,
        /// All active faults
        #[arg(long, conflicts_with = "faults")]
        all: bool,
    },
    /// Show the lab and its active faults
    Status {
        #[command(flatten)]
        which: Which,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the lab's topology file
    Topology {
        #[command(flatten)]
        which: Which,
    },
    /// Print the inventory of the lab's switches, as --switch-inventory reads it
    Inventory {
        #[command(flatten)]
        which: Which,
    },
    /// Print the counters of all switch ports
    Counters {
        #[command(flatten)]
        which: Which,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Build a fabric, degrade one cable, run, name it, tear down; under a minute
    Demo,
    /// Run a command line on a host, as a remote shell would (for mpirun)
    #[command(hide = true)]
    Agent {
        name: LabName,
        host: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        words: Vec<String>,
    },
    /// Run a host's kernel and pass it its cables (started by railgauge itself)
    #[command(hide = true)]
    Guest { name: LabName, host: String },
    /// Be the first process of a host's kernel
    #[command(hide = true)]
    GuestInit {
        name: LabName,
        host: String,
        /// Words that the kernel adds to every command line
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        added: Vec<String>,
    },
    /// Run commands inside a host's kernel on request
    #[command(hide = true)]
    GuestAgent,
    /// Flap a cable until the fault is healed (started by railgauge itself)
    #[command(hide = true)]
    Flap { name: LabName, cable: String },
    /// Stall a port until the fault is healed (started by railgauge itself)
    #[command(hide = true)]
    Stall { name: LabName, port: String },
    /// Disturb packets of a port until the fault is healed (started by railgauge itself)
    #[command(hide = true)]
    Disturb { name: LabName, port: String },
}

#[derive(Debug, Args)]
struct Up {
    /// HOSTSxRAILS
    #[arg(default_value = "4x2")]
    shape: String,
    #[command(flatten)]
    which: Which,
    /// Leaf switches per rail
    #[arg(long, default_value_t = 2)]
    leaves: u16,
    /// Spine switches per rail
    #[arg(long, default_value_t = 2)]
    spines: u16,
    /// Parallel cables between each leaf and spine
    #[arg(long, default_value_t = 1)]
    trunk: u16,
    /// Rate of every cable in each direction
    #[arg(long, default_value = "200mbit")]
    rate: Rate,
    /// Rate of the cables between switches, if different
    #[arg(long)]
    uplink_rate: Option<Rate>,
    /// Largest packet on the rails
    #[arg(long, default_value_t = 9000)]
    mtu: u32,
    /// Seed of the switches' hash functions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Give every host a kernel of its own, with RDMA on its rails: user-mode Linux, built by ci/rdma-kernel
    #[arg(long, value_name = "KERNEL")]
    guests: Option<PathBuf>,
}

/// Runs the action.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    match &arguments.action {
        Action::Up(up) => bring_up(up),
        Action::Down { all: true, .. } => {
            let names: Vec<String> = lab::down_all()?.iter().map(LabName::to_string).collect();
            match names.is_empty() {
                true => println!("no labs"),
                false => println!("removed {}", names.join(", ")),
            }
            Ok(0)
        }
        Action::Down { which, .. } => {
            match lab::down(&which.name)? {
                true => println!("removed lab {}", which.name),
                false => println!("there is no lab {}", which.name),
            }
            Ok(0)
        }
        Action::Exec {
            which,
            die_with_parent,
            host,
            command,
        } => become_process(&which.name, host, command.clone(), *die_with_parent),
        Action::Agent { name, host, words } => {
            let shell = ["sh".into(), "-c".into(), words.join(" ").into()];
            become_process(name, host, shell.to_vec(), false)
        }
        Action::Run {
            which,
            launch,
            per_host,
            respawn,
            program,
            arguments,
        } => {
            let run = Run {
                launch: *launch,
                per_host: *per_host,
                respawn: respawn.map(Duration::from),
                program: program.clone(),
                arguments: arguments.clone(),
                built_with_mpi: cfg!(feature = "mpi"),
            };
            Ok(lab::run(&Lab::open(&which.name)?, &run)?)
        }
        Action::Fault { which, faults } => {
            write(&Status::of(&lab::fault(&which.name, faults)?).to_string());
            Ok(0)
        }
        Action::Heal { which, all: true, .. } => {
            let healed = lab::heal_all(&which.name)?;
            healed.iter().for_each(|fault| println!("healed {fault}"));
            Ok(0)
        }
        Action::Heal { which, faults, .. } => {
            write(&Status::of(&lab::heal(&which.name, faults)?).to_string());
            Ok(0)
        }
        Action::Status { which, json } => {
            let status = Status::of(&Lab::open(&which.name)?);
            match json {
                true => print_json(&status),
                false => write(&status.to_string()),
            }
            Ok(0)
        }
        Action::Topology { which } => {
            write(&Lab::open(&which.name)?.wiring.topology().to_toml());
            Ok(0)
        }
        Action::Inventory { which } => {
            write(&lab::switch_inventory(&Lab::open(&which.name)?).to_toml());
            Ok(0)
        }
        Action::Counters { which, json } => {
            print_counters(&Lab::open(&which.name)?, *json);
            Ok(0)
        }
        Action::Demo => Ok(lab::demo()?),
        Action::Guest { name, host } => Ok(lab::guest_supervise(name, host).map(|()| 0)?),
        Action::GuestInit { name, host, .. } => Err(lab::guest_init(name, host).into()),
        Action::GuestAgent => Ok(lab::guest_serve().map(|()| 0)?),
        Action::Flap { name, cable } => Ok(lab::flap(name, cable).map(|()| 0)?),
        Action::Stall { name, port } => Ok(lab::stall(name, port).map(|()| 0)?),
        Action::Disturb { name, port } => Ok(lab::disturb(name, port).map(|()| 0)?),
    }
}

fn bring_up(up: &Up) -> Result<u8, CliError> {
    let shape = Shape {
        leaves: up.leaves,
        spines: up.spines,
        trunk: up.trunk,
        rate: up.rate,
        uplink: up.uplink_rate.unwrap_or(up.rate),
        mtu: up.mtu,
        seed: up.seed,
        guests: up.guests.as_deref().map(lab::guest_kernel).transpose()?,
        ..Shape::parse(&up.shape)?
    };
    let started = Instant::now();
    let lab = lab::up(&up.which.name, &shape)?;
    let seconds = started.elapsed().as_secs_f64();
    let (what, topology) = (shape.describe(), lab.topology_file());
    write(&format!(
        "lab {}: {what}; up in {seconds:.2} s\ntopology: {}\n",
        lab.name,
        topology.display()
    ));
    if let Some(warning) = shape.warning() {
        write(&format!("{warning}\n"));
    }
    Ok(0)
}

fn become_process(
    name: &LabName,
    host: &str,
    words: Vec<OsString>,
    dies_with_parent: bool,
) -> Result<u8, CliError> {
    let lab = Lab::open(name)?;
    let node = lab.wiring.node("node", host, |_| true)?;
    let command = lab::Command {
        words,
        dies_with_parent,
    };
    Ok(lab::exec(&lab, node, &command)?)
}

fn print_counters(lab: &Lab, json: bool) {
    let counters = lab::counters(lab);
    if json {
        return print_json(&lab::counters_file(&counters));
    }
    let mut text = String::new();
    for port in counters {
        let known = |(name, value): &(String, Option<u64>)| match value {
            Some(value) => format!("{name}={value}"),
            None => format!("{name}=unknown"),
        };
        let values: Vec<String> = port.counters.iter().map(known).collect();
        text.push_str(&format!("{}/{}: {}\n", port.switch, port.port, values.join(" ")));
    }
    write(&text);
}

fn print_json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => write(&(text + "\n")),
        Err(error) => eprintln!("railgauge: {error}"),
    }
}

/// Writes to standard output; a closed pipe is not an error.
fn write(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
