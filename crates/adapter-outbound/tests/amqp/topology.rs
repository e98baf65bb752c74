//! What must stand on the broker.

use adapter_outbound::amqp::{TopologyError, TopologySettings};
use application_core::ports::MessagePublishPort;
use lapin::{
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable},
};

use crate::stage::{Stage, argument, event, eventually, start, with_override};

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_is_missing_is_reported_at_once_with_its_cure() {
    let stage = Stage::shared("look").await;
    let there = stage.exchange("there").await;
    let mut settings = stage.settings(&stage.name("missing"), "k");
    with_override(&mut settings, "Open", &there);
    settings.amqp.topology.queue = Some(stage.name("no-queue"));
    settings.amqp.topology.parking_queue = Some(stage.name("no-parking"));
    let problems = stage.publisher(&settings).await.prepare_topology().await.unwrap();
    let objects: Vec<_> = problems.iter().map(|problem| problem.object.clone()).collect();
    let expected = [
        format!("exchange {:?}", stage.name("missing")),
        format!("queue {:?}", stage.name("no-parking")),
        format!("queue {:?}", stage.name("no-queue")),
    ];
    assert_eq!(objects, expected);
    assert!(problems.iter().all(|problem| problem.to_string().contains("amqp.topology.declare")), "{problems:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn declaring_twice_changes_nothing_and_events_flow_into_a_single_active_consumers_quorum_queue() {
    let stage = Stage::shared("declare").await;
    let exchange = stage.name("declared");
    let mut settings = stage.settings(&exchange, "{aggregate_type}.{event_type}");
    settings.amqp.topology = TopologySettings {
        declare: true,
        queue: Some(stage.name("q")),
        binding_keys: vec!["work-log.*".to_owned()],
        single_active_consumer: true,
        parking_queue: Some(stage.name("parking")),
    };
    let publisher = stage.publisher(&settings).await;
    for _ in 0..2 {
        assert_eq!(publisher.prepare_topology().await.unwrap(), []);
    }
    publisher.publish(&event("Reserved")).await.unwrap();
    let channel = stage.admin_channel().await;
    let look = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    eventually("the event is in the queue", async || {
        let queue = channel.queue_declare(stage.name("q").as_str().into(), look, FieldTable::default()).await.unwrap();
        queue.message_count() == 1
    })
    .await;

    let mut same = FieldTable::default();
    argument(&mut same, "x-queue-type", AMQPValue::LongString("quorum".into()));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(stage.name("parking").as_str().into(), options, same.clone()).await.unwrap();
    argument(&mut same, "x-single-active-consumer", AMQPValue::Boolean(true));
    channel.queue_declare(stage.name("q").as_str().into(), options, same).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_there_and_differs_is_a_typed_error_that_says_how() {
    let stage = Stage::shared("differs").await;
    let exchange = stage.exchange("e").await;
    let classic = stage.queue("classic", "", "").await;
    let mut settings = stage.settings(&exchange, "k");
    settings.amqp.topology.declare = true;
    settings.amqp.topology.queue = Some(classic.clone());
    settings.amqp.topology.single_active_consumer = false;
    let error = stage.publisher(&settings).await.prepare_topology().await.unwrap_err();
    let TopologyError::Differs { object, argument, wanted, .. } = &error else { panic!("{error:?}") };
    assert_eq!(object, &format!("queue {classic:?}"));
    assert_eq!(argument, "x-queue-type");
    assert!(wanted.contains("quorum"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_broker_the_topology_cannot_be_looked_at() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut settings = crate::stage::settings(&format!("amqp://{nobody}/v"), "e", "k");
    settings.amqp.connect_timeout = std::time::Duration::from_millis(300);
    let error = start(&settings).prepare_topology().await.unwrap_err();
    assert!(matches!(error, TopologyError::Unavailable { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn examining_declares_nothing_sends_nothing_and_names_what_differs() {
    let stage = Stage::shared("examine").await;
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "#").await;
    let mut settings = stage.settings(&exchange, "k");
    settings.amqp.topology.declare = true;
    settings.amqp.topology.queue = Some(stage.name("undeclared"));
    assert_eq!(stage.publisher(&settings).await.examine_topology().await.unwrap(), [], "a start would declare it");
    settings.amqp.topology.declare = false;
    let problems = stage.publisher(&settings).await.examine_topology().await.unwrap();
    let objects: Vec<_> = problems.iter().map(|problem| problem.object.clone()).collect();
    assert_eq!(objects, [format!("queue {:?}", stage.name("undeclared"))], "it was not declared");
    settings.amqp.topology.declare = true;
    settings.amqp.topology.queue = Some(queue.clone());
    let problems = stage.publisher(&settings).await.examine_topology().await.unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].problem.contains("x-single-active-consumer"), "{problems:?}");
    assert_eq!(stage.take_all(&queue).await.len(), 0);
}
