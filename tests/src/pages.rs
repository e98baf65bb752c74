//! The Rust of the pages below `docs`, as documentation tests. `cargo xtask tidy` asks for every page that has some, and
//! refuses Rust that is left out of it on the pages that teach.

macro_rules! pages {
    ($($name:ident = $page:literal),* $(,)?) => {
        $(
            #[doc = include_str!($page)]
            pub mod $name {}
        )*
    };
}

pages!(
    add_a_publisher = "../../docs/guides/add-a-publisher.md",
    consume_an_event = "../../docs/guides/consume-an-event.md",
    events = "../../docs/events/README.md",
    notify_by_webhook = "../../docs/guides/notify-by-webhook.md",
    personal_data = "../../docs/guides/personal-data.md",
    test_your_use_case = "../../docs/guides/test-your-use-case.md",
    // sample-only: begin
    tutorial = "../../docs/tutorial.md",
    tutorial_ko = "../../docs/tutorial.ko.md",
    // sample-only: end
);
