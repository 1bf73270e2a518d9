//! A folder of backups, each named by its time.

use std::path::{Path, PathBuf};
use std::{fs, io};

use jiff::Timestamp;

use super::BackupError;

const PREFIX: &str = "flux-resourceset-";
const SUFFIX: &str = ".jsonl.gz";
/// Names that sort by time, in UTC.
const TIME: &str = "%Y%m%dT%H%M%SZ";

/// The file of a backup that is made now.
pub fn file_in(folder: &Path) -> PathBuf {
    folder.join(name_at(Timestamp::now()))
}

fn name_at(time: Timestamp) -> String {
    format!("{PREFIX}{}{SUFFIX}", time.strftime(TIME))
}

/// Removes all but the latest backups of a folder. Files with other names stay. Returns what was removed.
pub fn prune(folder: &Path, keep: u32) -> Result<Vec<PathBuf>, BackupError> {
    let failed = |path: &Path, error: io::Error| BackupError::Write {
        file: path.display().to_string(),
        error,
    };
    let mut backups = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let entry = entry.map_err(|error| failed(folder, error))?;
        if entry.file_name().to_str().is_some_and(is_backup) {
            backups.push(entry.path());
        }
    }
    backups.sort();
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    backups.truncate(backups.len().saturating_sub(keep));
    for old in &backups {
        fs::remove_file(old).map_err(|error| failed(old, error))?;
    }
    Ok(backups)
}

/// Whether a file has the name of a backup: nothing else in the folder is ever removed.
fn is_backup(name: &str) -> bool {
    let time = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = |time: &str| {
        let parts = time.strip_suffix('Z').and_then(|time| time.split_once('T'));
        parts.is_some_and(|(date, time)| date.len() == 8 && time.len() == 6 && digits(date) && digits(time))
    };
    time.is_some_and(is_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_backups_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |seconds: i64| name_at(Timestamp::from_second(seconds).expect("a time"));
        let others = [
            "fleet.jsonl.gz",
            "flux-resourceset-.jsonl.gz",
            "flux-resourceset-20260101T000000Z.jsonl.gz.partial",
        ];
        let names = [at(2_000_000_000), at(0), at(1_000_000_000), at(1_999_999_999)];
        for name in names.iter().map(String::as_str).chain(others) {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        assert_eq!(names[1], "flux-resourceset-19700101T000000Z.jsonl.gz");
        assert_eq!(prune(folder.path(), 4).expect("pruned"), [""; 0].map(PathBuf::from));
        let removed = prune(folder.path(), 2).expect("pruned");
        assert_eq!(removed, [&names[1], &names[2]].map(|name| folder.path().join(name)));
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 2 + others.len());
        assert!(is_backup(&name_at(Timestamp::now())));
    }
}
