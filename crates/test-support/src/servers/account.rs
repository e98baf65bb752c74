//! Under which user a server runs.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

/// The user of a server's processes: an unprivileged one if we are root, else ourselves.
///
/// Neither PostgreSQL nor Debian's RabbitMQ run as root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// User and group to change to; `None` to stay who we are.
    ids: Option<(u32, u32)>,
}

impl Account {
    /// Ourselves.
    pub(crate) const SELF: Self = Self { ids: None };

    /// The first of `names` that exists, if we are root; `nobody` stands last by itself.
    pub(crate) fn unprivileged(names: &[&str]) -> Self {
        if !is_root() {
            return Self::SELF;
        }
        let users = fs::read_to_string(Path::new("/etc/passwd")).unwrap_or_default();
        let ids = names.iter().chain(&["nobody"]).find_map(|name| ids_of(&users, name)).unwrap_or((65_534, 65_534));
        Self { ids: Some(ids) }
    }

    /// User and group for a command, if it has to change them.
    pub(crate) fn ids(self) -> Option<(u32, u32)> {
        self.ids.filter(|_| is_root())
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn ids_of(users: &str, name: &str) -> Option<(u32, u32)> {
    let mut fields = users
        .lines()
        .map(|line| line.split(':'))
        .find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some((uid, gid))
}

#[cfg(test)]
mod tests {
    use super::ids_of;

    #[test]
    fn user_and_group_are_found_by_the_whole_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\npostgresql:x:1:1::/:\npostgres:x:101:104:,,,:/var:/bin/sh\n";
        assert_eq!(ids_of(users, "postgres"), Some((101, 104)));
        assert_eq!(ids_of(users, "rabbitmq"), None);
    }
}
