//! Rebuilds the crate when a migration is added, which the embedding macro alone would not notice.

fn main() {
    println!("cargo::rerun-if-changed=../../migrations/outbox");
}
