//! Numbers in sentences for people.

/// A number with its noun: `1 event`, `2 events`. For nouns that take an `s`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_singular_and_any_other_number_plural() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "event")), ["0 events", "1 event", "2 events"]);
    }
}
