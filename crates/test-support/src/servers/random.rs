//! Random names, passwords and free ports.

use std::net::{Ipv4Addr, TcpListener};

use super::error::ServersError;

/// Below every system's ephemeral range: no outgoing connection takes such a port while its server restarts.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Sixteen hexadecimal digits.
pub(crate) fn token() -> Result<String, ServersError> {
    Ok(format!("{:016x}", bits()?))
}

/// That many different ports, on which nothing listens at this moment, and which no outgoing connection takes.
///
/// # Errors
/// [`ServersError::Io`] when no free one was found.
pub fn free_ports<const N: usize>() -> Result<[u16; N], ServersError> {
    let mut ports = [0; N];
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = free_port()?;
        *port = listener.local_addr().map_err(ServersError::io("look at a free port"))?.port();
        held.push(listener);
    }
    Ok(ports)
}

fn free_port() -> Result<TcpListener, ServersError> {
    let mut refusal = None;
    for _ in 0..100 {
        let span = u64::from(PORTS.end - PORTS.start);
        let offset = u16::try_from(bits()? % span).unwrap_or_default();
        match TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORTS.start + offset)) {
            Ok(listener) => return Ok(listener),
            Err(error) => refusal = Some(error),
        }
    }
    let refusal = refusal.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into());
    Err(ServersError::io("find a free port")(refusal))
}

fn bits() -> Result<u64, ServersError> {
    getrandom::u64().map_err(|error| ServersError::io("get random bits")(error.into()))
}

#[cfg(test)]
mod tests {
    use super::free_ports;

    #[test]
    fn ports_of_one_call_differ() {
        let [a, b, c] = free_ports().unwrap();
        assert!(a != b && b != c && a != c);
    }
}
