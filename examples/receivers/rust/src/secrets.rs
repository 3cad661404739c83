use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const PREFIX: &str = "whsec_";

/// Bounds a file of secrets. An endpoint has at most 25 secrets of 58 bytes.
const MAX_BYTES: u64 = 65_536;

/// There is no secret, or one is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSecret;

impl fmt::Display for NoSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret must be the endpoint's complete secret, starting with whsec_")
    }
}

impl std::error::Error for NoSecret {}

/// An endpoint's complete secrets (`whsec_…`). There are several after a rotation.
pub struct Secrets {
    file: Option<PathBuf>, // None: the secrets never change
    read: Mutex<LastRead>,
}

struct LastRead {
    list: Arc<[String]>,
    at: u64, // Unix seconds
}

impl Secrets {
    /// Returns secrets that never change.
    pub fn of(list: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, NoSecret> {
        let list: Vec<String> = list.into_iter().map(Into::into).collect();
        check(&list)?;
        Ok(Self { file: None, read: Mutex::new(LastRead { list: list.into(), at: 0 }) })
    }

    /// Returns the secrets in a file, one per line. It picks up changes of the file when webhooks
    /// arrive, at most once per second. You can add and remove secrets without a restart.
    pub fn from_file(file: impl AsRef<Path>) -> io::Result<Self> {
        let list = read(file.as_ref())?;
        let file = Some(file.as_ref().to_owned());
        Ok(Self { file, read: Mutex::new(LastRead { list, at: 0 }) })
    }

    /// Returns the secrets at a time. If the file can't be read, it returns the previous ones.
    pub fn current(&self, now_seconds: u64) -> Arc<[String]> {
        // The list is complete even if another thread panicked.
        let mut last = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = self.file.as_ref().filter(|_| last.at != now_seconds) {
            last.at = now_seconds;
            match read(file) {
                Ok(list) => last.list = list,
                Err(error) => eprintln!("cannot read the secrets; keeping the previous ones: {error}"),
            }
        }
        last.list.clone()
    }
}

fn read(file: &Path) -> io::Result<Arc<[String]>> {
    let invalid = |why: &dyn fmt::Display| io::Error::other(format!("{}: {why}", file.display()));
    let mut text = String::new();
    let length = File::open(file)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| invalid(&error))?;
    if length as u64 > MAX_BYTES {
        return Err(invalid(&"too large for a file of secrets"));
    }
    let list: Vec<String> = text.split_whitespace().map(Into::into).collect();
    check(&list).map_err(|error| invalid(&error))?;
    Ok(list.into())
}

/// Requires valid secrets, because anyone can sign with an empty one.
pub(crate) fn check(list: &[impl AsRef<str>]) -> Result<(), NoSecret> {
    if list.is_empty() || !list.iter().all(|secret| is_secret(secret.as_ref())) {
        return Err(NoSecret);
    }
    Ok(())
}

/// Rejects spaces and quotation marks.
fn is_secret(text: &str) -> bool {
    let may_be = |b: u8| b.is_ascii_alphanumeric() || b"+/=_-".contains(&b);
    text.strip_prefix(PREFIX).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(may_be))
}
