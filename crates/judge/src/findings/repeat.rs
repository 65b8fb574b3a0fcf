//! The command that repeats a measurement: the one that was typed, narrowed to the suspect.
//!
//! Names come from other machines, so every word is quoted for a shell: pasted, it runs this command and nothing
//! else.

use record::Run;

/// Options of the original command that a repetition drops: it writes to its own folder, is not part of a history and
/// notifies no one.
const LEFT_OUT: [&str; 4] = ["--out", "--history", "--notify", "--notify-severity"];
/// The option it replaces when it has another filter.
const FILTER: &str = "--only";
/// The command that searches for a suspect itself, and its options that name one.
const DIAGNOSE: &str = "diagnose";
const NAMING: [&str; 3] = ["--out", "--suspect", "--rail"];

/// The original command with `--only filter`, after what it was launched with on every host. Filter terms are
/// `key=value`, joined by commas.
pub(crate) fn command(run: &Run, terms: &[(&str, &str)]) -> String {
    let mut words = started_as(run);
    let arguments = match run.command.get(1..) {
        Some(arguments) if !arguments.is_empty() => without_replaced(arguments, !terms.is_empty()),
        _ => vec!["run".to_string(), run.suite.clone()],
    };
    // Only `run` has suites to narrow; an ad-hoc command is one measurement already.
    let takes_filter = arguments.first().is_some_and(|subcommand| subcommand == "run");
    words.extend(arguments);
    if takes_filter && !terms.is_empty() {
        let filter: Vec<String> = terms
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        words.extend([FILTER.to_string(), filter.join(",")]);
    }
    quoted(&words)
}

/// The same for one part, or one rail: `diagnose` then measures nothing else.
pub(super) fn command_about(
    run: &Run,
    terms: &[(&str, &str)],
    part: Option<&str>,
    rail: Option<&str>,
) -> String {
    if run.command.get(1).is_none_or(|subcommand| subcommand != DIAGNOSE) {
        return command(run, terms);
    }
    let mut words = started_as(run);
    words.extend(without(&run.command[1..], &NAMING));
    words.extend(part.into_iter().flat_map(|part| option("--suspect", part)));
    words.extend(rail.into_iter().flat_map(|rail| option("--rail", rail)));
    quoted(&words)
}

/// An option and its value; a value that looks like an option is joined with `=`.
fn option(name: &str, value: &str) -> Vec<String> {
    match value.starts_with('-') {
        false => vec![name.to_string(), value.to_string()],
        true => vec![format!("{name}={value}")],
    }
}

/// What comes before the subcommand.
fn started_as(run: &Run) -> Vec<String> {
    match &run.started_as {
        Some(before) => before.split_whitespace().map(str::to_string).collect(),
        None => vec!["railgauge".to_string()],
    }
}

fn quoted(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

fn without_replaced(arguments: &[String], has_filter: bool) -> Vec<String> {
    let filter = has_filter.then_some(FILTER);
    let replaced: Vec<&str> = LEFT_OUT.into_iter().chain(filter).collect();
    without(arguments, &replaced)
}

/// The arguments without these options and their values.
fn without(arguments: &[String], replaced: &[&str]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut skip_value = false;
    for argument in arguments {
        if std::mem::take(&mut skip_value) {
            continue;
        }
        skip_value = replaced.contains(&argument.as_str());
        let is_joined = replaced
            .iter()
            .any(|option| argument.starts_with(&format!("{option}=")));
        if !skip_value && !is_joined {
            kept.push(argument.clone());
        }
    }
    kept
}

/// A word as a shell reads it back unchanged.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_string();
    }
    // Characters that reorder or hide text are written as escapes.
    let is_hidden = |c: char| c.is_control() || !(c.is_ascii() || c.is_alphanumeric());
    if word.chars().any(is_hidden) {
        let escaped: String = word
            .chars()
            .map(|c| match c {
                '\\' => r"\\".to_string(),
                // A shell without $'...' quotes would take `\'` for their end.
                '\'' => r"\x27".to_string(),
                c if is_hidden(c) => c
                    .to_string()
                    .bytes()
                    .map(|byte| format!("\\x{byte:02x}"))
                    .collect(),
                c => c.to_string(),
            })
            .collect();
        return format!("$'{escaped}'");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::fixture::Fixture;

    fn run_of(command: &[&str]) -> Run {
        let mut run = Fixture::rails(2).recorded().run;
        run.command = command.iter().map(ToString::to_string).collect();
        run
    }

    #[test]
    fn the_command_is_the_one_typed_narrowed_to_the_suspect() {
        let run = run_of(&[
            "/opt/railgauge",
            "run",
            "smoke",
            "--ranks",
            "4",
            "--out",
            "/tmp/x",
            "--only=size=1M",
        ]);
        assert_eq!(
            command(&run, &[("test", "rails"), ("rail", "rail1")]),
            "railgauge run smoke --ranks 4 --only test=rails,rail=rail1"
        );
        assert_eq!(command(&run, &[]), "railgauge run smoke --ranks 4 --only=size=1M");
        let of_a_night = run_of(&[
            "railgauge",
            "run",
            "nightly",
            "--history",
            "/srv/nights",
            "--notify=/usr/local/bin/tell",
            "--notify-severity",
            "page",
        ]);
        assert_eq!(
            command(&of_a_night, &[]),
            "railgauge run nightly",
            "it wakes nobody"
        );
        let mut elsewhere = run_of(&["railgauge", "run", "rails"]);
        elsewhere.started_as = Some("srun -N4 railgauge".to_string());
        assert_eq!(
            command(&elsewhere, &[("rail", "rail1")]),
            "srun -N4 railgauge run rails --only rail=rail1"
        );
        let diagnose = run_of(&[
            "railgauge",
            "diagnose",
            "--suspect",
            "h1",
            "--seed=2",
            "--rail=rail0",
        ]);
        assert_eq!(
            command_about(
                &diagnose,
                &[("test", "links")],
                Some("h2-rail1-leaf1"),
                Some("rail1")
            ),
            "railgauge diagnose --seed=2 --suspect h2-rail1-leaf1 --rail rail1"
        );
        let adhoc = run_of(&["railgauge", "all-reduce", "-b", "8"]);
        assert_eq!(command(&adhoc, &[("rail", "rail1")]), "railgauge all-reduce -b 8");
    }

    #[test]
    fn a_hostile_name_cannot_start_a_command() {
        let run = run_of(&[]);
        let text = command(&run, &[("rail", "r'; rm -rf ~; echo \u{1b}[2J")]);
        assert!(
            text.ends_with(r"--only $'rail=r\x27; rm -rf ~; echo \x1b[2J'"),
            "{text}"
        );
        let hidden = command(&run, &[("rail", "r\u{202e}1 größe")]);
        assert!(
            hidden.ends_with(r"--only $'rail=r\xe2\x80\xae1 größe'"),
            "{hidden}"
        );
        let diagnose = run_of(&["railgauge", "diagnose"]);
        assert_eq!(
            command_about(&diagnose, &[], Some("--out=/etc"), Some("-r")),
            "railgauge diagnose --suspect=--out=/etc --rail=-r"
        );
        let text = command(&run, &[("rail", "$(reboot)")]);
        assert!(text.ends_with("--only 'rail=$(reboot)'"), "{text}");
    }
}
