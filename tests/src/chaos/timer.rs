//! The one place where chaos lets time pass on purpose: a fault begins late and lasts a while, clients are paced.

use std::time::Duration;

pub(crate) async fn lasting(time: Duration) {
    tokio::time::sleep(time).await;
}
