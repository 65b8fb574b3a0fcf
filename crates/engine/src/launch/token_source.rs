//! Where the run's token comes from when processes are not started by railgauge itself: a variable or a file that only its
//! owner can read. Never the command line, which every user of a machine can see.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{Token, variables};

/// A token file is no longer than this.
const LONGEST: u64 = 256;

/// No usable token was found.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It is not set.
    #[error(
        "the run's token is missing: every process must have the same one; export RAILGAUGE_TOKEN=$(railgauge token) \
before starting them, or name a file with RAILGAUGE_TOKEN_FILE or --token-file"
    )]
    Missing,
    /// It is not 64 hexadecimal digits.
    #[error("{0}: the run token must be 64 hexadecimal digits; make one with `railgauge token`")]
    Malformed(String),
    /// The file cannot be read.
    #[error("cannot read the token file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Other users can read it.
    #[error(
        "the token file {} has mode {mode:03o}: other users can read it; run chmod 600 {}",
        path.display(),
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// The token, from the named file, else from the variables.
pub fn find(named: Option<&Path>, look: &dyn Fn(&str) -> Option<String>) -> Result<Token, TokenError> {
    if let Some(path) = named {
        return read(path);
    }
    if let Some(text) = look(variables::TOKEN) {
        let bad = |_| TokenError::Malformed(variables::TOKEN.to_string());
        return text.parse().map_err(bad);
    }
    match look(variables::TOKEN_FILE) {
        Some(path) => read(Path::new(&path)),
        None => Err(TokenError::Missing),
    }
}

/// Reads a token file that only its owner can read.
pub fn read(path: &Path) -> Result<Token, TokenError> {
    let unreadable = |source| TokenError::Unreadable {
        path: path.to_path_buf(),
        source,
    };
    // Opening a pipe without a writer would block for ever.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(nix::libc::O_NONBLOCK);
    let file = options.open(path).map_err(unreadable)?;
    // Of the open file, not the path, which may be exchanged in between.
    let mode = file.metadata().map_err(unreadable)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(TokenError::Exposed {
            path: path.to_path_buf(),
            mode,
        });
    }
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).map_err(unreadable)?;
    let text = String::from_utf8(bytes).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| TokenError::Malformed(path.display().to_string()))
}

/// Writes a token into a new file that only its owner can read.
pub fn write(path: &Path, token: &Token) -> io::Result<()> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{}", token.to_hex())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_file_is_read_back_only_while_other_users_cannot_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::generate().unwrap();
        write(&path, &token).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(read(&path).unwrap().matches(token.as_bytes()));
        assert!(
            write(&path, &token).is_err(),
            "an existing file is not overwritten"
        );
        for mode in [0o640, 0o604, 0o660] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
    }

    #[test]
    fn a_missing_token_says_how_to_make_one_and_a_bad_one_is_not_repeated() {
        let error = find(None, &|_| None).unwrap_err().to_string();
        assert!(
            error.contains("export RAILGAUGE_TOKEN=$(railgauge token)"),
            "{error}"
        );
        let half = |name: &str| (name == variables::TOKEN).then(|| "c0ffee".to_string());
        let error = find(None, &half).unwrap_err().to_string();
        assert!(
            error.contains("RAILGAUGE_TOKEN") && !error.contains("c0ffee"),
            "{error}"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::generate().unwrap();
        write(&path, &token).unwrap();
        let named = |name: &str| (name == variables::TOKEN_FILE).then(|| path.display().to_string());
        assert!(find(None, &named).unwrap().matches(token.as_bytes()));
    }
}
