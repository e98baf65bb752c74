//! The operator's page in a real browser.
//!
//! `SCREENSHOTS=docs/images cargo xtask test --test browser` writes the pictures of the documentation anew.

use std::{
    env, fs,
    panic::{AssertUnwindSafe, resume_unwind},
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::FutureExt;
use serde_json::Value;
use system_tests::{
    eventually,
    operated::{Operated, Outcome, TOKEN},
    webdriver::Browser,
};
use test_support::webhook::{Answer, Received, WebhookReceiver};

/// 60 events of orders that were refused and 3 of invoices that cannot be sent, all DEAD.
const EVENTS: &str = "
    INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload)
    SELECT ('0198c5a0-0000-7000-8000-0000000000' || lpad(n::text, 2, '0'))::uuid,
           CASE WHEN n > 60 THEN 'invoice' ELSE 'order' END, 'a-' || n,
           CASE WHEN n > 60 THEN 'InvoiceSent' ELSE 'OrderPlaced' END, '1'
      FROM generate_series(1, 63) n;
    UPDATE outbox_event SET status = 'DEAD', attempts = 3,
           last_error = CASE WHEN aggregate_type = 'invoice' THEN 'poison: too large' ELSE 'rejected: <b>full</b>' END;";

/// Events that are due, for charts to show: of a hundred aggregates each time.
const MORE: &str = "
    INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload)
    SELECT gen_random_uuid(), 'order', 'b-' || n, 'OrderPlaced', '1' FROM generate_series(1, 100) n";

/// An event that the receiver finds too large.
const REFUSED: &str = "
    INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload)
    SELECT gen_random_uuid(), 'order', 'c-' || gen_random_uuid(), 'OrderRefused', '1'";

const FIRST: &str = "0198c5a0-0000-7000-8000-000000000001";
const THIRD: &str = "0198c5a0-0000-7000-8000-000000000003";
const FOURTH: &str = "0198c5a0-0000-7000-8000-000000000004";
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const SECRET: &str = "whsec_dGhlIG5ld2VyIHNlY3JldCBvZiB0ZXN0cw==";
/// How long anything may take before the test gives up.
const PATIENCE: Duration = Duration::from_mins(1);

fn rows(count: usize) -> String {
    format!("document.querySelectorAll('main tbody tr').length === {count}")
}

fn says(selector: &str, text: &str) -> String {
    let (selector, text) = (Value::from(selector), Value::from(text));
    format!("(document.querySelector({selector})?.innerText ?? '').includes({text})")
}

fn figure(name: &str, text: &str) -> String {
    format!("document.querySelector('[data-figure={name}] dd')?.innerText === '{text}'")
}

/// Whether the legend of a chart tells a value above zero of a line.
fn drawn(chart: &str, line: &str) -> String {
    let (chart, line) = (Value::from(chart), Value::from(line));
    format!(
        "[...document.querySelectorAll('.chart')].filter(chart => chart.ariaLabel.startsWith({chart})) \
         .flatMap(chart => [...chart.querySelectorAll('.u-series')]) \
         .some(line => line.querySelector('.u-label').textContent === {line} \
                       && parseFloat(line.querySelector('.u-value').textContent) > 0)"
    )
}

/// Shows a view by its address, as a link does.
async fn go(browser: &Browser, address: &str) -> Outcome {
    browser.value(&format!("(location.hash = '{address}')")).await?;
    let view = address.split('?').next().unwrap_or_default();
    Ok(browser
        .until(&format!(
            "document.querySelector('main').dataset.view === '{view}' && document.querySelector('main h2') !== null"
        ))
        .await?)
}

/// The largest picture that the documentation holds, in bytes.
const LARGEST: u64 = 200_000;

/// Where the pictures of the documentation go, from the workspace's folder; none: nobody asked for them.
fn screenshots() -> Option<PathBuf> {
    let folder = env::var_os("SCREENSHOTS").filter(|folder| !folder.is_empty())?;
    Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder))
}

async fn picture(browser: &Browser, name: &str) -> Outcome {
    let Some(folder) = screenshots() else {
        return Ok(browser.screenshot(&Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)).await?);
    };
    fs::create_dir_all(&folder)?;
    let file = folder.join(name);
    browser.screenshot(&file).await?;
    let size = fs::metadata(&file)?.len();
    assert!(size < LARGEST, "{} has {size} bytes, {LARGEST} are allowed", file.display());
    Ok(())
}

/// Lets the charts see some events come and go, if a picture of them is wanted.
async fn fill_the_charts(stage: &Operated, browser: &Browser) -> Outcome {
    const LOOKS: &str =
        "performance.getEntriesByType('resource').filter(e => e.name.includes('/outbox/status')).length";
    if screenshots().is_none() {
        return Ok(());
    }
    browser.until("document.querySelector('.u-legend') !== null").await?;
    for _ in 0..10 {
        stage.execute(MORE).await?;
        let seen = browser.value(LOOKS).await?;
        browser.until(&format!("{LOOKS} > {seen}")).await?;
    }
    Ok(())
}

async fn enter_the_token(browser: &Browser) -> Outcome {
    browser.fill("dialog input", "a-wrong-token-of-enough-length").await?;
    browser.press(ENTER).await?;
    browser.until(&says("dialog", "refused")).await?;
    browser.fill("dialog input", TOKEN).await?;
    browser.click("#token-submit").await?;
    Ok(browser.until("document.querySelector('dialog') === null").await?)
}

async fn filter_and_turn_pages(browser: &Browser) -> Outcome {
    go(browser, "events").await?;
    browser.fill("select[name=status]", "DEAD").await?;
    browser.click("form.filter button").await?;
    browser.until(&rows(50)).await?;
    browser.click(".row button:nth-of-type(2)").await?;
    browser.until(&rows(13)).await?;
    browser.until("document.activeElement.matches('main .scroll')").await?;
    browser.fill("select[name=class]", "poison").await?;
    browser.click("form.filter button").await?;
    browser.until(&rows(3)).await?;
    assert!(browser.value("location.hash").await?.as_str().is_some_and(|hash| hash.contains("class=poison")));
    Ok(())
}

async fn act_on_a_group(browser: &Browser) -> Outcome {
    go(browser, "dead").await?;
    browser.until(&rows(2)).await?;
    browser.until("document.querySelector('main b') === null").await?;
    picture(browser, "dead-letters.png").await?;
    browser.click("tbody tr:nth-of-type(2) [data-action=discard]").await?;
    browser.until(&says("dialog", "3 events")).await?;
    browser.fill("dialog input[name=by]", "zoe").await?;
    browser.fill("dialog input[name=reason]", "sent by hand").await?;
    browser.click("dialog button[value=yes]").await?;
    browser.until(&rows(1)).await?;
    browser.until("document.activeElement.matches('main .scroll')").await?;
    Ok(browser.until(&says("#notice", "3 events")).await?)
}

async fn requeue_one(browser: &Browser) -> Outcome {
    go(browser, &format!("event?id={FIRST}")).await?;
    browser.click("[data-action=requeue]").await?;
    browser.click("dialog button[value=no]").await?;
    browser.until("document.querySelector('dialog') === null").await?;
    browser.click("[data-action=requeue]").await?;
    browser.fill("dialog input[name=reason]", "the queue is back").await?;
    browser.press(ENTER).await?;
    browser.until(&says(".timeline", "Requeue, by zoe: the queue is back")).await?;
    picture(browser, "event.png").await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_and_mends_dead_events_in_a_browser_without_a_complaint_of_the_page() -> Outcome {
    let browser = Browser::start().await?;
    let ended = AssertUnwindSafe(find_and_mend(&browser)).catch_unwind().await;
    browser.quit().await?;
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

async fn find_and_mend(browser: &Browser) -> Outcome {
    let answer = |sent: &Received| match sent.header("x-event-type") {
        "OrderRefused" => Answer::Status(413),
        _ => Answer::Status(204),
    };
    let receiver = WebhookReceiver::start(answer).await?;
    let stage = Operated::prepare("page").await?.with("APP__OUTBOUND__PUBLISHER", "webhook");
    let stage = stage.with("APP__OUTBOUND__WEBHOOK__URL", &receiver.url("/in"));
    let stage = stage.with("APP__OUTBOUND__WEBHOOK__SECRETS", SECRET);
    stage.execute(EVENTS).await?;
    let process = stage.serve().await?;
    browser.open(&process.ops_url("/ops/")).await?;
    enter_the_token(browser).await?;
    browser.until(&figure("dead", "63")).await?;
    browser.until("document.querySelectorAll('.chart canvas').length === 4").await?;
    browser.until(&says(".charts", "Published by all relays")).await?;
    browser.until(&says(".charts", "Failures by class in this process")).await?;

    filter_and_turn_pages(browser).await?;
    act_on_a_group(browser).await?;
    requeue_one(browser).await?;

    go(browser, "overview").await?;
    browser.until(&figure("dead", "59")).await?;
    stage.execute("SELECT outbox_discard(ARRAY['0198c5a0-0000-7000-8000-000000000002'::uuid], 'somebody')").await?;
    browser.until(&figure("dead", "58")).await?;
    fill_the_charts(&stage, browser).await?;
    picture(browser, "overview.png").await?;
    browser.prefer("dark").await?;
    browser.until("matchMedia('(prefers-color-scheme: dark)').matches").await?;
    picture(browser, "overview-dark.png").await?;
    browser.prefer("light").await?;
    go(browser, "blocked").await?;
    browser.until(&rows(58)).await?;
    picture(browser, "blocked.png").await?;
    go(browser, "overview").await?;

    skip_the_header_by_keyboard(browser).await?;
    mend_by_keyboard(browser).await?;
    see_the_charts_tell_values(&stage, browser).await?;
    read_every_view_in_korean_and_dark(browser).await?;
    let complaints = browser.complaints().await?;
    // The token that was refused on purpose.
    let unexpected: Vec<_> = complaints.iter().filter(|text| !text.contains("status of 401")).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    Ok(())
}

async fn skip_the_header_by_keyboard(browser: &Browser) -> Outcome {
    browser.value("location.reload()").await?;
    browser.until(&figure("dead", "58")).await?;
    browser.press(TAB).await?;
    browser.until("document.activeElement.className === 'skip'").await?;
    browser.press(ENTER).await?;
    Ok(browser.until("document.activeElement.id === 'content'").await?)
}

/// A requeue and a discard by keys alone. Whoever asks for a dialog is back where it was asked for when it is closed.
async fn mend_by_keyboard(browser: &Browser) -> Outcome {
    const ON_REASON: &str = "document.activeElement.name === 'reason'";
    const IN_VIEW: &str = "document.activeElement.closest('main') !== null";
    let on = |action: &str| format!("document.activeElement.dataset.action === '{action}'");
    go(browser, &format!("event?id={THIRD}")).await?;
    browser.until(&says("main", THIRD)).await?;
    browser.press(TAB).await?;
    browser.until(&on("requeue")).await?;
    browser.press(ENTER).await?;
    browser.until(ON_REASON).await?;
    browser.press(ESCAPE).await?;
    browser.until("document.querySelector('dialog') === null").await?;
    browser.until(&on("requeue")).await?;
    browser.press(ENTER).await?;
    browser.until(ON_REASON).await?;
    browser.press("bound again").await?;
    browser.press(ENTER).await?;
    browser.until(&says(".timeline", "Requeue, by zoe: bound again")).await?;
    browser.until(IN_VIEW).await?;

    go(browser, &format!("event?id={FOURTH}")).await?;
    browser.until(&says("main", FOURTH)).await?;
    browser.press(TAB).await?;
    browser.press(TAB).await?;
    browser.until(&on("discard")).await?;
    browser.press(ENTER).await?;
    browser.until(ON_REASON).await?;
    browser.press("sent by hand").await?;
    browser.press(TAB).await?;
    browser.until("document.activeElement.value === 'yes'").await?;
    browser.press(ENTER).await?;
    browser.until(&says(".timeline", "Discard, by zoe: sent by hand")).await?;
    Ok(browser.until(IN_VIEW).await?)
}

async fn see_the_charts_tell_values(stage: &Operated, browser: &Browser) -> Outcome {
    go(browser, "overview").await?;
    stage.execute(MORE).await?;
    for (chart, line) in [
        ("Backlog", "DEAD"),
        ("Published by all relays", "published"),
        ("Lag of all relays", "p50"),
        ("Lag of all relays", "p95"),
        ("Lag of all relays", "p99"),
    ] {
        browser.until(&drawn(chart, line)).await?;
    }
    // The legend tells the newest rate alone: events are refused until it tells of one.
    let told = || async {
        stage.execute(REFUSED).await.ok()?;
        let told = browser.value(&drawn("Failures by class", "poison")).await.ok()?;
        (told == Value::Bool(true)).then_some(())
    };
    Ok(eventually("a failure in its chart", PATIENCE, told).await?)
}

async fn read_every_view_in_korean_and_dark(browser: &Browser) -> Outcome {
    browser.prefer("dark").await?;
    browser.click("#language option[value=ko]").await?;
    browser.until(&says("nav", "데드 레터")).await?;
    for view in ["events", "dead", "blocked", "relays", "doctor", "audit", "settings", "overview"] {
        go(browser, view).await?;
        browser.until("document.querySelector('main table, main canvas, main p.well') !== null").await?;
    }
    picture(browser, "overview-korean.png").await?;
    go(browser, "settings").await?;
    browser.until(&says("main", "operations.ops_token")).await?;
    assert_eq!(browser.value(&says("main", TOKEN)).await?, Value::Bool(false), "the token is redacted");
    Ok(())
}
