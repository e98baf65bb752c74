//! Random tests that can be repeated: `RANDOM_TEST_SEED` names the run, `RANDOM_TEST_CASES` makes it longer.

use std::{
    env,
    hash::{BuildHasher, Hasher, RandomState},
    str::FromStr,
};

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

fn setting<T: FromStr>(name: &str) -> Option<T> {
    env::var_os(name).and_then(|value| value.to_str()?.parse().ok())
}

/// Another one in each run, unless it is set. It is printed, so that the output of a failed test names it.
#[expect(clippy::print_stdout, reason = "shown when the test fails")]
pub(crate) fn seed() -> u64 {
    let seed = setting("RANDOM_TEST_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("RANDOM_TEST_SEED={seed}");
    seed
}

/// How many cases are tried.
pub(crate) fn cases(default: u32) -> u32 {
    setting("RANDOM_TEST_CASES").unwrap_or(default)
}

/// A runner that writes no files.
pub(crate) fn runner(seed: u64, cases: u32, shrinks: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: shrinks, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}
