//! The ways to obtain a server, in the order in which they are tried.

use super::{env, error::ServersError};

/// One way to obtain a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A server that the caller runs, named by `DATABASE_URL` or `AMQP_URL`.
    Url,
    /// A container of a running Docker engine.
    Docker,
    /// A throwaway process of server binaries that are installed.
    Installed,
    /// Installation by the system's package manager, then as [`Way::Installed`].
    Install,
}

impl Way {
    /// All ways, the preferred one first.
    pub const ALL: [Self; 4] = [Self::Url, Self::Docker, Self::Installed, Self::Install];

    /// The word for this way in `TEST_SERVERS`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Docker => "docker",
            Self::Installed => "installed",
            Self::Install => "install",
        }
    }

    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::Url => "a URL",
            Self::Docker => "a Docker engine",
            Self::Installed => "installed binaries",
            Self::Install => "installation by apt-get",
        }
    }

    /// The only way allowed by `TEST_SERVERS`, if it is set.
    ///
    /// # Errors
    /// [`ServersError::Setting`] for a word that names no way.
    pub fn from_environment() -> Result<Option<Self>, ServersError> {
        let Some(value) = env::text(env::FORCED_WAY) else {
            return Ok(None);
        };
        Self::ALL.into_iter().find(|way| way.word() == value).map(Some).ok_or(ServersError::Setting {
            name: env::FORCED_WAY,
            value,
            expected: "url, docker, installed or install",
        })
    }
}
