//! The one table of what may depend on what.
//!
//! Changing a line here changes the architecture: say why in an ADR.

/// The crate that knows no I/O.
pub const CORE: &str = "application-core";

/// The crate that says what an integration event promises.
pub const EVENTS: &str = "event-contracts";

/// The crates of bounded contexts. What is said below of [`CONTEXT`] is said of each of them.
pub const CONTEXTS: &[&str] = &["sample-portfolio"];

/// Stands for the crate of any bounded context.
pub const CONTEXT: &str = "a context";

/// Whether an entry of a table speaks of the crate.
#[must_use]
pub fn speaks_of(entry: &str, package: &str) -> bool {
    entry == package || entry == CONTEXT && CONTEXTS.contains(&package)
}

/// A crate of the workspace and the crates of the workspace that it may depend on.
#[derive(Debug, Clone, Copy)]
pub struct CrateRule {
    /// The package.
    pub name: &'static str,
    /// What its code may use.
    pub normal: &'static [&'static str],
    /// What its build script may use.
    pub build: &'static [&'static str],
    /// What its tests may use, beyond `normal`.
    pub dev: &'static [&'static str],
}

/// All crates of the workspace.
pub const CRATES: &[CrateRule] = &[
    // It derives schemas from types: neither core nor domain knows it, see MODULES.
    CrateRule { name: EVENTS, normal: &[], build: &[], dev: &[] },
    // The core's tests use its own mocks.
    CrateRule { name: CORE, normal: &[], build: &[], dev: &[CORE] },
    CrateRule { name: "adapter-persistence-postgres", normal: &[CORE], build: &[], dev: &["test-support"] },
    CrateRule { name: "adapter-outbound", normal: &[CORE], build: &[], dev: &["test-support"] },
    CrateRule { name: "adapter-inbound", normal: &[CORE], build: &[], dev: &["test-support"] },
    CrateRule {
        name: CONTEXT,
        // The persistence adapter for its transaction type, in the module `adapter` alone: see MODULES.
        normal: &[CORE, EVENTS, "adapter-persistence-postgres"],
        build: &[],
        dev: &["test-support"],
    },
    CrateRule {
        name: "app-bootstrap",
        normal: &[CORE, EVENTS, "adapter-persistence-postgres", "adapter-outbound", "adapter-inbound", CONTEXT],
        build: &[],
        dev: &["test-support"],
    },
    CrateRule { name: "test-support", normal: &[CORE], build: &[], dev: &[] },
    CrateRule {
        name: "system-tests",
        normal: &[
            CORE,
            EVENTS,
            "adapter-persistence-postgres",
            "adapter-outbound",
            "adapter-inbound",
            "app-bootstrap",
            "test-support",
        ],
        build: &[],
        dev: &[],
    },
    CrateRule {
        name: "benchmarks",
        normal: &[
            CORE,
            "adapter-persistence-postgres",
            "adapter-outbound",
            "app-bootstrap",
            "system-tests",
            "test-support",
        ],
        build: &[],
        dev: &[],
    },
    CrateRule { name: "xtask", normal: &[], build: &[], dev: &[] },
];

/// A crate from outside and the only crates of the workspace that may name it, in tests as well.
#[derive(Debug, Clone, Copy)]
pub struct Home {
    /// The crate from outside.
    pub external: &'static str,
    /// Who may depend on it.
    pub homes: &'static [&'static str],
}

const SQL_HOMES: &[&str] = &["adapter-persistence-postgres", "test-support", "system-tests", "benchmarks"];

/// Where a technology lives. A crate that is not listed may be used anywhere but in the core and in adapters, which have
/// lists of their own.
pub const HOMES: &[Home] = &[
    // A context brings its own persistence adapter.
    Home { external: "sea-orm", homes: &["adapter-persistence-postgres", CONTEXT, "system-tests", "benchmarks"] },
    Home { external: "sqlx", homes: SQL_HOMES },
    Home { external: "tokio-postgres", homes: SQL_HOMES },
    // The bootstrap adds the application's own history of migrations.
    Home { external: "refinery", homes: &["adapter-persistence-postgres", "app-bootstrap"] },
    Home { external: "refinery-core", homes: &["adapter-persistence-postgres", "app-bootstrap"] },
    Home {
        external: "lapin",
        homes: &["adapter-inbound", "adapter-outbound", "test-support", "system-tests", "benchmarks"],
    },
    // The system tests have a collector of traces of their own.
    Home { external: "axum", homes: &["adapter-inbound", "app-bootstrap", CONTEXT, "system-tests"] },
    Home { external: "tower-http", homes: &["adapter-inbound", "app-bootstrap", CONTEXT] },
    // The webhook publisher and the receiver that tests it; a server of the inbound adapter.
    Home { external: "hyper", homes: &["adapter-inbound", "adapter-outbound", "test-support"] },
    Home { external: "hyper-util", homes: &["adapter-inbound", "adapter-outbound", "test-support"] },
    Home { external: "hyper-rustls", homes: &["adapter-outbound"] },
    Home { external: "rustls", homes: &["adapter-outbound"] },
    // Cryptography of our own stands in one place; a page of the guides verifies a webhook's signature.
    Home { external: "ring", homes: &["adapter-outbound", "test-support", "system-tests"] },
    // Schemas are derived where events are declared; the system tests plant events of their own.
    Home { external: "schemars", homes: &[EVENTS, CONTEXT, "system-tests"] },
    Home { external: "reqwest", homes: &["system-tests", "benchmarks"] },
    Home { external: "config", homes: &["app-bootstrap"] },
    Home { external: "clap", homes: &["app-bootstrap"] },
    Home { external: "clap_complete", homes: &["app-bootstrap"] },
    Home { external: "clap_mangen", homes: &["app-bootstrap"] },
    Home { external: "metrics", homes: &["app-bootstrap"] },
    Home { external: "metrics-exporter-prometheus", homes: &["app-bootstrap"] },
    Home { external: "tracing-subscriber", homes: &["app-bootstrap", "system-tests"] },
    // Adapters and contexts draw spans with `tracing`; one place makes traces of them (ADR 14).
    Home { external: "opentelemetry", homes: &["app-bootstrap"] },
    Home { external: "opentelemetry-otlp", homes: &["app-bootstrap"] },
    Home { external: "opentelemetry_sdk", homes: &["app-bootstrap"] },
    Home { external: "tracing-opentelemetry", homes: &["app-bootstrap"] },
    Home { external: "opentelemetry-proto", homes: &["system-tests"] },
    Home { external: "prost", homes: &["system-tests"] },
    Home { external: "testcontainers", homes: &["test-support"] },
    Home { external: "cargo_metadata", homes: &["xtask"] },
];

/// The crate of an adapter, and all crates from outside that its code may name.
#[derive(Debug, Clone, Copy)]
pub struct AdapterRule {
    /// The package.
    pub name: &'static str,
    /// What its code and its build script may use; its tests may use anything that has no other home.
    pub crates: &'static [&'static str],
}

/// What each adapter is made of: a crate comes in by a line here. The core's list is [`CORE_TREE`]; a context's adapters,
/// the bootstrap and tests have none.
pub const ADAPTERS: &[AdapterRule] = &[
    AdapterRule {
        name: "adapter-persistence-postgres",
        crates: &[
            "async-trait",
            "futures-util",
            "humantime-serde",
            "refinery",
            "refinery-core",
            "sea-orm",
            "secrecy",
            "serde",
            "serde_json",
            "sqlx",
            "thiserror",
            "time",
            "tokio",
            "tracing",
            "url",
            "uuid",
        ],
    },
    AdapterRule {
        name: "adapter-outbound",
        crates: &[
            "async-trait",
            "base64",
            "futures-util",
            "http-body-util",
            "humantime-serde",
            "hyper",
            "hyper-rustls",
            "hyper-util",
            "lapin",
            "percent-encoding",
            "ring",
            "rustls",
            "rustls-native-certs",
            "rustls-pki-types",
            "secrecy",
            "serde",
            "serde_json",
            "thiserror",
            "time",
            "tokio",
            "tower-service",
            "tracing",
            "url",
            "uuid",
        ],
    },
    AdapterRule {
        name: "adapter-inbound",
        crates: &[
            "async-trait",
            "axum",
            "futures-util",
            "governor",
            "humantime-serde",
            "hyper",
            "hyper-util",
            "lapin",
            "secrecy",
            "serde",
            "serde_json",
            "subtle",
            "thiserror",
            "time",
            "tokio",
            "tokio-util",
            "tower-http",
            "tracing",
            "utoipa",
            "uuid",
        ],
    },
];

/// Everything that the core is built from, on any target: neither I/O nor a runtime.
pub const CORE_TREE: &[&str] = &[
    // Named by the core.
    "async-trait",
    "futures-util",
    "serde",
    "serde_json",
    "thiserror",
    "time",
    "tracing",
    "uuid",
    // What these bring along.
    "cfg-if",
    "deranged",
    "futures-core",
    "futures-macro",
    "futures-task",
    "getrandom",
    "itoa",
    "libc",
    "memchr",
    "num-conv",
    "once_cell",
    "pin-project-lite",
    "powerfmt",
    "proc-macro2",
    "quote",
    "r-efi",
    "serde_core",
    "serde_derive",
    "slab",
    "syn",
    "thiserror-impl",
    "time-core",
    "time-macros",
    "tracing-attributes",
    "tracing-core",
    "unicode-ident",
    "zmij",
];

/// A module of a crate and what its code, tests excepted, may import.
#[derive(Debug, Clone, Copy)]
pub struct ModuleRule {
    /// The package.
    pub package: &'static str,
    /// The module: `src/<module>.rs` and everything below `src/<module>/`.
    pub module: &'static str,
    /// The modules and items of the same crate that it may see; itself is always one.
    pub modules: &'static [&'static str],
    /// The crates that it may name, as in code, beside `std`, `core` and `alloc`.
    pub crates: &'static [&'static str],
}

const CORE_CRATES: &[&str] =
    &["async_trait", "futures_util", "mockall", "serde", "serde_json", "thiserror", "time", "tracing", "uuid"];
const DOMAIN_CRATES: &[&str] = &["application_core", "serde", "thiserror", "time", "uuid"];
const APPLICATION_CRATES: &[&str] =
    &["application_core", "async_trait", "serde", "serde_json", "thiserror", "time", "tracing", "uuid"];
/// Integration events are a contract with others, whose schemas come from their types: they alone may name what derives
/// them. Domain and use cases stay free of it.
const EVENT_CRATES: &[&str] = &[
    "application_core",
    "async_trait",
    "event_contracts",
    "schemars",
    "serde",
    "serde_json",
    "thiserror",
    "time",
    "tracing",
    "uuid",
];

/// The directions inside the core and inside a context.
pub const MODULES: &[ModuleRule] = &[
    // Identifiers and backoff take time and chance from their ports; the bounds of backoff are told as those of settings.
    ModuleRule {
        package: CORE,
        module: "outbox",
        modules: &["ports::Clock", "ports::Random", "SettingProblem", "setting_duration"],
        crates: CORE_CRATES,
    },
    ModuleRule { package: CORE, module: "inbox", modules: &["outbox"], crates: CORE_CRATES },
    ModuleRule { package: CORE, module: "ports", modules: &["outbox", "inbox"], crates: CORE_CRATES },
    ModuleRule { package: CORE, module: "usecases", modules: &["outbox", "inbox", "ports"], crates: CORE_CRATES },
    ModuleRule { package: CONTEXT, module: "domain", modules: &[], crates: DOMAIN_CRATES },
    ModuleRule { package: CONTEXT, module: "integration_events", modules: &["domain"], crates: EVENT_CRATES },
    ModuleRule { package: CONTEXT, module: "ports", modules: &["domain"], crates: APPLICATION_CRATES },
    ModuleRule {
        package: CONTEXT,
        module: "application",
        modules: &["domain", "integration_events", "ports"],
        crates: APPLICATION_CRATES,
    },
];

/// A name that a rule would refuse, and why it stays.
#[derive(Debug, Clone, Copy)]
pub struct Named {
    /// The name.
    pub name: &'static str,
    /// Why it stays.
    pub reason: &'static str,
}

/// Traits in modules `ports` that end neither in `Port` nor in `Repository` or `Reader`.
pub const OTHER_PORTS: &[Named] = &[
    Named { name: "Clock", reason: "the word of everybody for what tells the time" },
    Named { name: "Random", reason: "the word of everybody for what gives chance" },
    Named { name: "UnitOfWork", reason: "the name of the pattern" },
    Named { name: "ReadinessCheck", reason: "many of them are asked, as one question" },
    Named { name: "OutboxObserver", reason: "the name of the pattern: it is told, and answers nothing" },
    // sample-only: begin
    Named { name: "IdempotencyKeys", reason: "a collection, called as its content" },
    Named { name: "IdempotencyKeyMaintenance", reason: "the side of that collection that needs no transaction" },
    // sample-only: end
];

/// Adapters whose name ends neither as adapters do nor in a word of their port.
pub const OTHER_ADAPTERS: &[Named] =
    &[Named { name: "OutboxReaper", reason: "the field's word for what returns expired leases" }];

/// A lint and the weakest level that it may have.
#[derive(Debug, Clone, Copy)]
pub struct HeldLint {
    /// The table of `[workspace.lints]`.
    pub tool: &'static str,
    /// The lint.
    pub name: &'static str,
    /// Its level, or a stronger one.
    pub level: &'static str,
}

/// The lints that keep panics and unsafe code out, and those that ask for the reason of an exception.
pub const LINTS: &[HeldLint] = &[
    HeldLint { tool: "rust", name: "unsafe_code", level: "forbid" },
    HeldLint { tool: "clippy", name: "unwrap_used", level: "warn" },
    HeldLint { tool: "clippy", name: "expect_used", level: "warn" },
    HeldLint { tool: "clippy", name: "panic", level: "warn" },
    HeldLint { tool: "clippy", name: "indexing_slicing", level: "warn" },
    HeldLint { tool: "clippy", name: "todo", level: "warn" },
    HeldLint { tool: "clippy", name: "unimplemented", level: "warn" },
    HeldLint { tool: "clippy", name: "allow_attributes", level: "warn" },
    HeldLint { tool: "clippy", name: "allow_attributes_without_reason", level: "warn" },
];

/// The licences under which a crate may come. `deny.toml` lists the same.
pub const LICENCES: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
];

/// Crates that must not be in the lock file, and why. `deny.toml` lists the same.
pub const BANNED: &[(&str, &str)] = &[
    ("openssl", "one TLS stack: rustls with ring"),
    ("openssl-sys", "one TLS stack: rustls with ring"),
    ("native-tls", "one TLS stack: rustls with ring"),
    ("aws-lc-rs", "one crypto provider: two of them make rustls refuse to choose, and this one needs a C toolchain"),
    ("aws-lc-sys", "one crypto provider: two of them make rustls refuse to choose, and this one needs a C toolchain"),
];
