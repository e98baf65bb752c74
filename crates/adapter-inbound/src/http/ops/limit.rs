//! How many requests one address may send: a script gone wild must not take the database from the relay, and a token must
//! not be guessed at full speed.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    num::NonZeroU32,
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    http::{StatusCode, header::RETRY_AFTER},
    middleware::Next,
    response::{IntoResponse, Response},
};
use governor::{
    DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock, DefaultClock},
};

use crate::http::{problem_details::ProblemDetails, server::Peer};

const PER_SECOND: NonZeroU32 = NonZeroU32::new(50).unwrap();
const AT_ONCE: NonZeroU32 = NonZeroU32::new(100).unwrap();
/// Beyond this many addresses those are forgotten that have been quiet for long enough.
const MOST_ADDRESSES: usize = 1_000;

/// 50 requests a second from one address, and 100 at once after a rest.
#[derive(Debug)]
pub(super) struct RequestLimit {
    addresses: DefaultKeyedRateLimiter<IpAddr>,
    clock: DefaultClock,
}

impl RequestLimit {
    pub(super) fn new() -> Self {
        let quota = Quota::per_second(PER_SECOND).allow_burst(AT_ONCE);
        Self { addresses: RateLimiter::keyed(quota), clock: DefaultClock::default() }
    }

    /// The seconds to wait, if the address has sent too many.
    fn refusal(&self, address: IpAddr) -> Option<u64> {
        if self.addresses.len() > MOST_ADDRESSES {
            self.addresses.retain_recent();
        }
        let early = self.addresses.check_key(&counted(address)).err()?;
        Some(early.wait_time_from(self.clock.now()).as_secs().max(1))
    }
}

/// Whoever has one address of version 6 has all of its network's 2^64.
fn counted(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// Refuses before the token is looked at, so that guesses count.
pub(super) async fn check(State(limit): State<Arc<RequestLimit>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0);
    let Some(seconds) = limit.refusal(peer) else { return next.run(request).await };
    let problem = ProblemDetails::new(StatusCode::TOO_MANY_REQUESTS, "there were too many requests from this address");
    ([(RETRY_AFTER, seconds.to_string())], problem).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_sends_too_much_waits_and_no_other() {
        let limit = RequestLimit::new();
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let refused = (0..10_000).find_map(|_| limit.refusal(one)).expect("it is refused");
        assert_eq!(refused, 1);
        assert_eq!(limit.refusal(other), None);
    }

    #[test]
    fn addresses_of_one_network_of_version_6_count_as_one() {
        let limit = RequestLimit::new();
        let address = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n]);
        assert!((0..10_000).any(|n| limit.refusal(address(n)).is_some()));
        assert_eq!(limit.refusal("2001:db8:0:1::1".parse().unwrap()), None);
    }
}
