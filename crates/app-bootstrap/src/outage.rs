//! One line when something begins to fail and one when it works again, however often it is tried meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether something fails at the moment; shared by all who try it.
#[derive(Debug, Default)]
pub(crate) struct Outage(AtomicBool);

impl Outage {
    /// Notes a failure; `true`: the first one, which is worth a line.
    pub(crate) fn begins(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Notes a success; `true`: it ends an outage, which is worth a line.
    pub(crate) fn ends(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::Outage;

    #[test]
    fn only_the_first_failure_and_the_first_success_after_it_count() {
        let outage = Outage::default();
        assert!(!outage.ends());
        assert_eq!([outage.begins(), outage.begins(), outage.ends(), outage.ends()], [true, false, true, false]);
        assert!(outage.begins(), "the next outage");
    }
}
