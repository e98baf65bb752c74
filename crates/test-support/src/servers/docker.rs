//! The Docker engine, through its command line and, for starting containers, testcontainers.

use std::{process::Stdio, time::Duration};

use testcontainers::{ContainerRequest, GenericImage, ImageExt, ReuseDirective, runners::AsyncRunner};
use tokio::{process::Command, time::timeout};

use super::{env, error::ServersError};

const COMMAND: Duration = Duration::from_mins(1);

/// Runs one `docker` command; its output without the white space at the end.
pub(crate) async fn docker(arguments: &[&str]) -> Result<String, ServersError> {
    let failed = |output: String| ServersError::Command { command: format!("docker {}", arguments.join(" ")), output };
    let run = Command::new("docker").args(arguments).stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(COMMAND, run)
        .await
        .map_err(|_elapsed| failed(format!("no answer within {COMMAND:?}")))?
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()))
    }
}

/// The version of a running engine, or why there is none.
pub(crate) async fn engine() -> Result<String, String> {
    if env::find_on_path("docker").is_none() {
        return Err("there is no `docker` command".to_owned());
    }
    docker(&["version", "--format", "{{.Server.Version}}"]).await.map_err(|error| error.to_string())
}

/// Starts a container under a name of ours with one of its ports on a fixed port of this host.
///
/// It is marked for reuse only so that testcontainers leaves its removal to the supervisor, which also does it after
/// a SIGKILL. The name is new, so that nothing is really used again.
pub(crate) async fn start(
    request: ContainerRequest<GenericImage>,
    name: &str,
    port: u16,
    inner_port: u16,
) -> Result<String, ServersError> {
    let failed = |error: testcontainers::TestcontainersError| ServersError::Command {
        command: format!("start container {name}"),
        output: error.to_string(),
    };
    let mut request = request
        .with_container_name(name)
        .with_mapped_port(port, testcontainers::core::ContainerPort::Tcp(inner_port))
        .with_reuse(ReuseDirective::Always);
    if engine_is_local() {
        request = request.with_host_config_modifier(|config| {
            let bindings = config.port_bindings.iter_mut().flat_map(|ports| ports.values_mut());
            for binding in bindings.flatten().flatten() {
                binding.host_ip = Some("127.0.0.1".to_owned());
            }
        });
    }
    let container = request.start().await.map_err(failed)?;
    let host = container.get_host().await.map_err(failed)?.to_string();
    // With an explicit address family the client cannot try another one than the port is bound to.
    Ok(if host == "localhost" { "127.0.0.1".to_owned() } else { host })
}

/// True if a port of 127.0.0.1 is reachable from here and from nowhere else.
fn engine_is_local() -> bool {
    let host = env::text("DOCKER_HOST").unwrap_or_default();
    let inside_a_container = std::path::Path::new("/.dockerenv").exists();
    (host.is_empty() || host.starts_with("unix:")) && !inside_a_container
}
