//! The environment variables that steer the servers, read in this one place.

use std::{ffi::OsString, path::PathBuf};

/// Allows one way only: `url`, `docker`, `installed` or `install`.
pub const FORCED_WAY: &str = "TEST_SERVERS";
/// Path of the file that says how to control the servers which the URLs name.
pub const CONTROL: &str = "TEST_SERVERS_CONTROL";
/// The pooler before PostgreSQL, set by `test-servers run --pgbouncer`.
pub(crate) const PGBOUNCER_URL: &str = "PGBOUNCER_URL";
/// Keeps the databases of tests when it is set.
pub const KEEP_DB: &str = "KEEP_DB";

/// The variable's text; `None` if it is unset, empty or not UTF-8.
pub(crate) fn text(name: &str) -> Option<String> {
    std::env::var_os(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty())
}

/// The pooler that a surrounding `test-servers run --pgbouncer` put before PostgreSQL.
#[must_use]
pub fn pgbouncer_url() -> Option<String> {
    text(PGBOUNCER_URL)
}

pub(crate) fn is_set(name: &str) -> bool {
    text(name).is_some_and(|value| value != "0")
}

pub(crate) fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// The folder for temporary files that the user has set.
pub(crate) fn temporary_folder() -> Option<OsString> {
    std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty())
}

/// The first executable of that name on the search path.
pub(crate) fn find_on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path()).map(|folder| folder.join(program)).find(|path| path.is_file())
}
