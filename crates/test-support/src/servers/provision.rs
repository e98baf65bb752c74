//! Obtaining one server by the first way that works.

use std::path::Path;

use testcontainers::GenericImage;

use super::{
    control_file::ControlFile,
    docker, env,
    error::{Attempts, ServersError},
    host::Host,
    install,
    options::Options,
    random,
    server::{Server, wait_until_ready},
    service::{Address, Program, Service},
    supervisor::Supervisor,
    way::Way,
};

/// Another process may take a port between our look at it and the server's start.
const PORT_ATTEMPTS: usize = 3;

/// Obtains a server of the kind: the surrounding run's, else by the first way that works.
///
/// # Cancellation
/// What was started so far is stopped and removed.
pub(crate) async fn provision<S: Service>(options: &Options) -> Result<Server<S>, ServersError> {
    if options.url_allowed
        && let Some(attached) = attach::<S>()?
    {
        return Ok(attached);
    }
    let only = match options.way {
        Some(way) => Some(way),
        None => Way::from_environment()?,
    };
    let mut attempts = Attempts::default();
    for way in Way::ALL.into_iter().filter(|way| only.is_none_or(|only| only == *way)) {
        let obtained = match way {
            Way::Url => by_url::<S>(options).await,
            Way::Docker => by_docker::<S>(options).await,
            Way::Installed => by_binaries::<S>(options, way).await,
            Way::Install => by_installation::<S>(options).await,
        };
        match obtained {
            Ok(server) => {
                options.step(&server.describe());
                return Ok(server);
            }
            Err(Obstacle::Absent(reason)) => attempts.add(way, reason),
            Err(Obstacle::Failed(error)) => {
                let reason = error.chain();
                options.step(&format!("{} not obtained through {}: {reason}", S::NAME, way.describe()));
                attempts.add(way, reason);
            }
            Err(Obstacle::Fatal(error)) => return Err(error),
        }
    }
    let remedy = install::remedy(options.url_allowed.then_some(S::URL_VARIABLE));
    Err(ServersError::NoWay { server: S::NAME, attempts, remedy })
}

/// Why a way led nowhere.
enum Obstacle {
    /// What it needs is not there.
    Absent(String),
    /// It was tried and failed; the next way may work.
    Failed(ServersError),
    /// The user's own choice does not work; another server would be a surprise.
    Fatal(ServersError),
}

impl From<ServersError> for Obstacle {
    fn from(error: ServersError) -> Self {
        Self::Failed(error)
    }
}

/// The server of the run that surrounds this process, if there is one.
fn attach<S: Service>() -> Result<Option<Server<S>>, ServersError> {
    let Some(file) = ControlFile::from_environment()? else {
        return Ok(None);
    };
    let given = env::text(S::URL_VARIABLE);
    match (file.record::<S>(), given, file.missing::<S>()) {
        (Some(record), Some(url), _) if record.url == url => {
            Ok(Some(Server::new(url, Way::Url, record.host.clone(), None)))
        }
        (_, None, Some(reason)) => Err(ServersError::Missing { server: S::NAME, reason: reason.to_owned() }),
        // Another URL than the run's, or none: the user's own choice.
        _ => Ok(None),
    }
}

async fn by_url<S: Service>(options: &Options) -> Result<Server<S>, Obstacle> {
    if !options.url_allowed {
        return Err(Obstacle::Absent("one that was given is not used here, for it may be stopped".to_owned()));
    }
    let url = env::text(S::URL_VARIABLE).ok_or_else(|| Obstacle::Absent(format!("{} is not set", S::URL_VARIABLE)))?;
    wait_until_ready::<S>(&url, None, std::time::Duration::from_secs(15)).await.map_err(Obstacle::Fatal)?;
    Ok(Server::new(url, Way::Url, None, None))
}

async fn by_docker<S: Service>(options: &Options) -> Result<Server<S>, Obstacle> {
    let version = docker::engine().await.map_err(Obstacle::Absent)?;
    if options.identity.is_some() {
        return Err(Obstacle::Absent(format!("no container of {} speaks TLS here", S::NAME)));
    }
    let descriptor = env::text(S::IMAGE_VARIABLE).unwrap_or_else(|| S::IMAGE.to_owned());
    let (image, tag) = match descriptor.rsplit_once(':') {
        Some((image, tag)) if !tag.contains('/') => (image, tag),
        _ => (descriptor.as_str(), "latest"),
    };
    options.step(&format!("starting {} from the image {descriptor} in Docker {version}", S::NAME));
    let name = format!("test-servers-{}-{}", S::SLUG, random::token()?);
    let [port] = random::free_ports()?;
    let (request, url_of) = S::container(GenericImage::new(image, tag), options)?;
    // Before the container: a SIGKILL in between must not leave it behind.
    let supervisor = Supervisor::of_container(&name)?;
    let address = docker::start(request, &name, port, S::INNER_PORT).await?;
    let url = url_of(&address, port);
    let host = Host::Container { name };
    wait_until_ready::<S>(&url, Some(&host), S::READY_WITHIN).await?;
    Ok(Server::new(url, Way::Docker, Some(host), Some(supervisor)))
}

async fn by_binaries<S: Service>(options: &Options, way: Way) -> Result<Server<S>, Obstacle> {
    let programs = S::find().map_err(Obstacle::Absent)?;
    let (address, host, supervisor) = launch::<S>(&programs, options).await?;
    Ok(Server::new(address.url, way, Some(host), Some(supervisor)).with_tls_port(address.tls_port))
}

/// Starts a process of installed programs and waits until it accepts connections.
pub(crate) async fn launch<P: Program>(
    programs: &Path,
    options: &Options,
) -> Result<(Address, Host, Supervisor), ServersError> {
    options.step(&format!("starting {} from {}", P::NAME, programs.display()));
    let mut attempt = 1;
    loop {
        let account = P::account();
        let (supervisor, directory) = Supervisor::of_directory(P::SLUG, account)?;
        let address = P::set_up(programs, &directory, options)?;
        let host = Host::Process { directory, account };
        host.start().await?;
        match wait_until_ready::<P>(&address.url, Some(&host), P::READY_WITHIN).await {
            Ok(()) => return Ok((address, host, supervisor)),
            Err(ServersError::EndedAtStart { log, .. }) if attempt < PORT_ATTEMPTS && tells_of_a_taken_port(&log) => {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

fn tells_of_a_taken_port(log: &str) -> bool {
    let log = log.to_lowercase();
    log.contains("already in use") || log.contains("eaddrinuse")
}

async fn by_installation<S: Service>(options: &Options) -> Result<Server<S>, Obstacle> {
    // Found after all: that way has failed already, and installing would not mend it.
    if S::find().is_ok() {
        return Err(Obstacle::Absent("the binaries are installed already".to_owned()));
    }
    install::install(&install::missing_servers(), options).await.map_err(|obstacle| match obstacle {
        install::Obstacle::Absent(reason) => Obstacle::Absent(reason),
        install::Obstacle::Failed(error) => Obstacle::Failed(error),
    })?;
    by_binaries(options, Way::Install).await
}
