//! Running a program that the operator names: without a shell, with a time limit and a limit on its output.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How often a running command is polled.
const TICK: Duration = Duration::from_millis(5);
/// How much of its standard error is passed on.
const MAX_STDERR: usize = 400;

/// The program and its arguments, separated by spaces; none when the text is blank. No shell reads them: quotes have no meaning.
pub fn words(text: &str) -> Option<Vec<String>> {
    let words: Vec<String> = text.split_whitespace().map(str::to_string).collect();
    (!words.is_empty()).then_some(words)
}

/// The standard output of a program, at most `most` bytes.
pub fn output(words: &[String], most: u64, patience: Duration) -> Result<Vec<u8>, String> {
    answer(words, Vec::new(), &[], most, patience)
}

/// The standard output of a program that gets `input` on its standard input and `variables` in its environment.
pub fn answer(
    words: &[String],
    input: Vec<u8>,
    variables: &[(&str, &str)],
    most: u64,
    patience: Duration,
) -> Result<Vec<u8>, String> {
    let until = Instant::now() + patience;
    let (program, arguments) = words.split_first().ok_or("no command")?;
    let stdin = match input.is_empty() {
        true => Stdio::null(),
        false => Stdio::piped(),
    };
    let mut child = Command::new(program)
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start it: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program need not read all of its input.
        std::thread::spawn(move || stdin.write_all(&input));
    }
    let printed = collect(child.stdout.take(), most + 1);
    let errors = collect(child.stderr.take(), MAX_STDERR as u64);
    let ended = wait(&mut child, until);
    // Processes it left behind would keep its output open.
    let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
    let _ = child.wait();
    let stderr = errors.recv_timeout(TICK).unwrap_or_default();
    let stderr = String::from_utf8_lossy(&stderr);
    let because = match stderr.trim() {
        "" => String::new(),
        text => format!(": {}", text.escape_debug()),
    };
    match ended {
        None => return Err(format!("it did not end within {patience:?}{because}")),
        Some(status) if !status.success() => return Err(format!("{status}{because}")),
        Some(_) => {}
    }
    let left = until.saturating_duration_since(Instant::now()).max(TICK);
    let printed = printed
        .recv_timeout(left)
        .map_err(|_| "its output did not end".to_string())?;
    match printed.len() as u64 > most {
        true => Err(format!("it printed more than the {most} bytes allowed")),
        false => Ok(printed),
    }
}

/// Its exit status; none when it did not end in time.
fn wait(child: &mut Child, until: Instant) -> Option<std::process::ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(TICK),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Reads on a thread of its own, so that neither stream waits for the other.
fn collect(stream: Option<impl Read + Send + 'static>, most: u64) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // A truncated output is an error of its reader.
            let _ = stream.by_ref().take(most).read_to_end(&mut bytes);
            // A command that still writes must neither block nor get SIGPIPE.
            let _ = sender.send(bytes);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(String::from).to_vec()
    }

    #[test]
    fn a_program_hears_its_input_and_finds_its_variables() {
        let script = shell("cat; printf %s \"$LOUD\"");
        let said = answer(
            &script,
            b"hello ".to_vec(),
            &[("LOUD", "page; id")],
            100,
            PATIENCE,
        );
        assert_eq!(said.unwrap(), b"hello page; id");
    }

    #[test]
    fn a_program_that_does_not_listen_is_no_failure_and_one_that_fails_says_why() {
        let much = vec![b'x'; 1 << 20];
        assert_eq!(answer(&shell("true"), much, &[], 100, PATIENCE), Ok(Vec::new()));
        let failed = answer(
            &shell("echo no such room >&2; exit 3"),
            Vec::new(),
            &[],
            100,
            PATIENCE,
        );
        let why = failed.unwrap_err();
        assert!(
            why.contains("exit status: 3") && why.contains("no such room"),
            "{why}"
        );
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let why = output(&shell("sleep 1000"), 100, Duration::from_millis(50)).unwrap_err();
        assert!(why.contains("did not end within 50ms"), "{why}");
    }

    #[test]
    fn words_are_what_stands_between_spaces() {
        assert_eq!(
            words("  a  'b c' "),
            Some(["a", "'b", "c'"].map(String::from).to_vec())
        );
        assert_eq!(words(" \t"), None);
    }
}
