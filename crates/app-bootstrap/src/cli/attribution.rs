//! Who acts, and why: recorded with every change.

use application_core::outbox::{Attribution, InvalidAttribution, OperatorName, Reason};
use clap::Args;

#[derive(Debug, Clone, Args)]
pub(super) struct AttributionArgs {
    /// Who is recorded as having done it [default: the operating system's user].
    #[arg(long, value_name = "NAME", value_parser = operator)]
    by: Option<OperatorName>,
    /// Why, for the record.
    #[arg(long, value_parser = reason)]
    reason: Option<Reason>,
}

impl AttributionArgs {
    pub(super) fn attribution(self) -> Attribution {
        Attribution { operator: self.by.unwrap_or_else(user), reason: self.reason }
    }
}

fn operator(text: &str) -> Result<OperatorName, InvalidAttribution> {
    OperatorName::try_new(text)
}

fn reason(text: &str) -> Result<Reason, InvalidAttribution> {
    Reason::try_new(text)
}

/// The name that the machine knows this user by, or the number. Not the environment's: anybody may set that.
fn user() -> OperatorName {
    let uid = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = name_of(uid, &users).and_then(|name| OperatorName::try_new(name).ok());
    name.unwrap_or_else(|| OperatorName::from_stored(format!("uid {uid}")))
}

fn name_of(uid: u32, users: &str) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid.to_string()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_as_the_machine_knows_it() {
        let users = "root:x:0:0:root:/root:/bin/bash\n\nbroken\nzoe:x:1000:1000:,,,:/home/zoe:/bin/sh\n";
        assert_eq!((name_of(1_000, users), name_of(0, users), name_of(7, users)), (Some("zoe"), Some("root"), None));
    }
}
