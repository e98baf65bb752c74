//! A part of a context that exists: a port, an adapter of such a port, a consumer.

use std::collections::BTreeMap;

use super::{
    NewError, TemplateError, Words, system_test,
    template::{Values, fill},
};
use crate::{Error, tree::Tree};

/// How a consumer is tested as it runs.
const CONSUMER_AS_IT_RUNS: &str = "templates/part/consumer_system.rs.tmpl";

/// What is asked for, checked.
#[derive(Debug)]
pub(super) struct Part {
    kind: Kind,
    name: Words,
    context: String,
    /// The port of an adapter, or the event of a consumer.
    of: Option<Words>,
}

/// The parts that can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Port,
    Adapter,
    Consumer,
}

impl Kind {
    const fn template(self) -> &'static str {
        match self {
            Self::Port => "templates/part/port.rs.tmpl",
            Self::Adapter => "templates/part/adapter.rs.tmpl",
            Self::Consumer => "templates/part/consumer.rs.tmpl",
        }
    }

    /// The option that the kind needs beside `--context`.
    const fn option(self) -> Option<&'static str> {
        match self {
            Self::Port => None,
            Self::Adapter => Some("--port"),
            Self::Consumer => Some("--event"),
        }
    }

    const fn expected(self) -> &'static str {
        match self {
            Self::Port => "NAME --context NAME",
            Self::Adapter => "NAME --port NAME --context NAME",
            Self::Consumer => "NAME --event NAME --context NAME",
        }
    }
}

impl Part {
    /// Reads the arguments behind `new port` and the like.
    ///
    /// # Errors
    /// [`NewError`] names what is wrong; [`Error::UnknownArgument`].
    pub(super) fn parse(kind: Kind, arguments: &[String]) -> Result<Self, Error> {
        let (mut name, mut options) = (None, BTreeMap::new());
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if argument == "--context" || kind.option() == Some(argument.as_str()) {
                options.insert(argument.as_str(), rest.next());
            } else if argument.starts_with('-') || name.is_some() {
                let (argument, expected) = (argument.clone(), kind.expected());
                return Err(Error::UnknownArgument { command: "new", argument, expected });
            } else {
                name = Some(argument);
            }
        }
        let name = Words::of_module("the name", name.ok_or(NewError::Missing("NAME"))?)?;
        let mut value = |option: &'static str| options.remove(option).flatten().ok_or(NewError::Missing(option));
        let context = value("--context")?.clone();
        let of = match kind.option() {
            None => None,
            Some(option) => {
                let text = value(option)?.as_str();
                let text = if kind == Kind::Adapter { text.strip_suffix("Port").unwrap_or(text) } else { text };
                Some(Words::try_new(option, text)?)
            }
        };
        Ok(Self { kind, name, context, of })
    }

    /// Adds the part to its context.
    ///
    /// # Errors
    /// [`NewError`].
    pub(super) fn add_to(&self, tree: &mut Tree) -> Result<(), NewError> {
        let home = format!("crates/{}/src", self.context);
        let module = self.name.joined('_');
        if !tree.files().any(|(path, _)| path.starts_with(&format!("{home}/"))) {
            return Err(NewError::NoContext(self.context.clone()));
        }
        let (folder, module, parents) = match self.kind {
            Kind::Port => ("ports", module, ["ports.rs", "ports/mod.rs"]),
            Kind::Adapter => ("adapter", module, ["adapter.rs", "adapter/mod.rs"]),
            Kind::Consumer => ("adapter", "consumer".to_owned(), ["adapter.rs", "adapter/mod.rs"]),
        };
        let file = format!("{home}/{folder}/{module}.rs");
        if tree.text(&file).is_some() {
            return Err(NewError::Exists(file));
        }
        if self.kind == Kind::Adapter {
            self.require_port(tree, &home)?;
        }
        let text = self.filled(tree, self.kind.template())?;
        if self.kind == Kind::Consumer {
            let as_it_runs = self.filled(tree, CONSUMER_AS_IT_RUNS)?;
            self.register_handler(tree)?;
            let name = format!("{}_{}", self.context.replace('-', "_"), self.name.joined('_'));
            system_test::add(tree, &name, as_it_runs)?;
        }
        declare(tree, &parents.map(|parent| format!("{home}/{parent}")), &module)?;
        tree.set(&file, text);
        Ok(())
    }

    fn filled(&self, tree: &Tree, template: &str) -> Result<String, NewError> {
        let text = tree.text(template).ok_or_else(|| TemplateError::Missing(template.to_owned()))?;
        Ok(fill(template, text, &self.values(), &[])?)
    }

    /// The template fits the ports that `new port` makes.
    fn require_port(&self, tree: &Tree, home: &str) -> Result<(), NewError> {
        let Some(port) = &self.of else { return Ok(()) };
        let file = format!("{home}/ports/{}.rs", port.joined('_'));
        let what = format!("pub trait {}Port", port.as_str());
        match tree.text(&file) {
            Some(text) if text.contains(&what) => Ok(()),
            _ => Err(NewError::Place { file, what }),
        }
    }

    /// Hands the consumer's handler to the process, which calls the one of each context.
    fn register_handler(&self, tree: &mut Tree) -> Result<(), NewError> {
        let (snake, contexts) = (self.context.replace('-', "_"), "crates/app-bootstrap/src/contexts/");
        let name = format!("ConsumerName::new(\"{}\")", self.name.joined('-'));
        // Two of one name would take each other's records for their own; start-up refuses them.
        let of_contexts = |path: &str| path.starts_with(contexts) || path.contains("/src/adapter/");
        let is_taken = |(path, text): &(&str, &str)| of_contexts(path) && text.contains(&name);
        if let Some((path, _)) = tree.files().find(is_taken) {
            return Err(NewError::Exists(format!("the consumer {} of {path}", self.name.joined('-'))));
        }
        let file = format!("{contexts}{snake}.rs");
        let mut text = tree.text(&file).unwrap_or_default().to_owned();
        if text.contains("handler: Some(") {
            return Err(NewError::SecondHandler(file));
        }
        let handler = format!("handler: Some(Handler {{ name: {name}, handler: Arc::new({}) }})", self.name.as_str());
        let imports = format!(
            "use std::sync::Arc;\n\nuse application_core::ports::ConsumerName;\nuse {snake}::adapter::consumer::{};\n",
            self.name.as_str()
        );
        let place = format!("use {snake}::");
        for (old, new) in [
            ("handler: None", handler),
            ("use super::{BoundedContext, Context};", "use super::{BoundedContext, Context, Handler};".to_owned()),
            (&place, format!("{imports}{place}")),
        ] {
            if text.matches(old).count() != 1 {
                return Err(NewError::Place { file, what: old.to_owned() });
            }
            text = text.replace(old, &new);
        }
        tree.set(&file, text);
        Ok(())
    }

    fn values(&self) -> Values {
        let mut values = Values::from([
            ("Name", self.name.as_str().to_owned()),
            ("name", self.name.joined('_')),
            ("name-kebab", self.name.joined('-')),
            ("words", self.name.joined(' ')),
        ]);
        if let Some(of) = &self.of {
            values.insert("Port", of.as_str().to_owned());
            values.insert("port", of.joined('_'));
            values.insert("Event", of.as_str().to_owned());
        }
        values
    }
}

/// Declares the module behind the first lines of the module above it, which say what that is.
fn declare(tree: &mut Tree, parents: &[String], module: &str) -> Result<(), NewError> {
    let found = parents.iter().find_map(|parent| Some((parent, tree.text(parent)?)));
    let (parent, text) = found.ok_or_else(|| NewError::Place {
        file: parents.first().cloned().unwrap_or_default(),
        what: "the module".to_owned(),
    })?;
    let head: usize = text.split_inclusive('\n').take_while(|line| line.starts_with("//!")).map(str::len).sum();
    let (before, after) = text.split_at(head);
    let after = after.strip_prefix('\n').unwrap_or(after);
    // Formatting puts it in its place among its neighbours.
    let gap = if after.starts_with("pub mod ") { "" } else { "\n" };
    let text = format!("{before}\npub mod {module};\n{gap}{after}");
    let parent = parent.clone();
    tree.set(&parent, text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Kind, Part};
    use crate::{
        Error,
        new::{NewError, new},
        tree::{Tree, fixture::copy_of_the_workspace},
    };

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn refused(outcome: Result<Vec<String>, Error>) -> NewError {
        match outcome {
            Err(Error::New(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    /// A copy of this workspace with a context of its own.
    fn workspace() -> tempfile::TempDir {
        let folder = copy_of_the_workspace();
        new(folder.path(), &words("aggregate Bill --context shop-floor --events Made,Paid")).unwrap();
        folder
    }

    #[test]
    fn port_adapter_and_consumer_are_made_and_declared() {
        let folder = workspace();
        let root = folder.path();
        new(root, &words("port ExchangeRates --context shop-floor")).unwrap();
        new(root, &words("adapter FixedRates --port ExchangeRatesPort --context shop-floor")).unwrap();
        new(root, &words("consumer BillPayments --event BillPaid --context shop-floor")).unwrap();
        let tree = Tree::read(root).unwrap();
        let text = |path: &str| tree.text(path).unwrap_or_else(|| panic!("{path}")).to_owned();
        assert!(text("crates/shop-floor/src/ports/exchange_rates.rs").contains("pub trait ExchangeRatesPort: Send"));
        assert!(text("crates/shop-floor/src/ports.rs").contains("\n\npub mod exchange_rates;\n\nuse "));
        let adapter = text("crates/shop-floor/src/adapter/fixed_rates.rs");
        assert!(adapter.contains("impl ExchangeRatesPort for FixedRates") && !adapter.contains("{{"), "{adapter}");
        let declared = text("crates/shop-floor/src/adapter.rs");
        assert!(declared.contains("\npub mod consumer;\npub mod fixed_rates;\npub mod http;\n"), "{declared}");
        let context = text("crates/app-bootstrap/src/contexts/shop_floor.rs");
        assert!(context.contains("ConsumerName::new(\"bill-payments\"), handler: Arc::new(BillPayments)"), "{context}");
        assert!(text("crates/shop-floor/src/adapter/consumer.rs").contains("EVENT_TYPE: &str = \"BillPaid\""));
        let as_it_runs = text("tests/system/contexts/shop_floor_bill_payments.rs");
        assert!(as_it_runs.contains("service.commit(\"BillPaid\", \"{}\")"), "{as_it_runs}");
        assert!(as_it_runs.contains("handled(\"bill-payments\", 1)"), "{as_it_runs}");
        assert!(text("tests/system/contexts.rs").contains("\nmod shop_floor_bill_payments;\n"));

        let again = refused(new(root, &words("consumer Other --event BillPaid --context shop-floor")));
        assert_eq!(again, NewError::Exists("crates/shop-floor/src/adapter/consumer.rs".to_owned()));
        let again = refused(new(root, &words("port ExchangeRates --context shop-floor")));
        assert_eq!(again, NewError::Exists("crates/shop-floor/src/ports/exchange_rates.rs".to_owned()));
    }

    #[test]
    fn keyword_as_the_name_of_a_module_is_refused_before_anything_is_written() {
        let folder = workspace();
        for line in ["port Move --context shop-floor", "adapter Type --port Rates --context shop-floor"] {
            let error = refused(new(folder.path(), &words(line)));
            assert!(matches!(error, NewError::Keyword { part: "the name", .. }), "{line}: {error}");
        }
        assert!(!folder.path().join("crates/shop-floor/src/ports/move.rs").exists());
    }

    #[test]
    fn contexts_have_a_handler_each_beside_those_of_others() {
        let folder = workspace();
        let root = folder.path();
        new(root, &words("aggregate Note --context back-office --events Made,Sent")).unwrap();
        new(root, &words("consumer BillPayments --event BillPaid --context shop-floor")).unwrap();
        let same = refused(new(root, &words("consumer BillPayments --event BillPaid --context back-office")));
        let place = "the consumer bill-payments of crates/app-bootstrap/src/contexts/shop_floor.rs";
        assert_eq!(same, NewError::Exists(place.to_owned()));
        new(root, &words("consumer Reminders --event BillMade --context back-office")).unwrap();
        for (context, name) in [("shop_floor", "bill-payments"), ("back_office", "reminders")] {
            let file = root.join(format!("crates/app-bootstrap/src/contexts/{context}.rs"));
            let text = std::fs::read_to_string(file).unwrap();
            assert!(text.contains(&format!("handler: Some(Handler {{ name: ConsumerName::new(\"{name}\")")), "{text}");
        }
    }

    #[test]
    fn second_handler_of_a_context_is_refused_before_anything_is_written() {
        let folder = workspace();
        let (name, root) = ("crates/app-bootstrap/src/contexts/shop_floor.rs", folder.path());
        let text = std::fs::read_to_string(root.join(name)).unwrap().replace("handler: None", "handler: Some(it)");
        std::fs::write(root.join(name), text).unwrap();
        let error = refused(new(root, &words("consumer BillPayments --event BillPaid --context shop-floor")));
        assert_eq!(error, NewError::SecondHandler(name.to_owned()));
        assert!(!root.join("crates/shop-floor/src/adapter/consumer.rs").exists());
        assert!(!root.join("tests/system/contexts/shop_floor_bill_payments.rs").exists());
    }

    #[test]
    fn context_and_port_that_are_not_there_are_named() {
        let folder = workspace();
        let none = refused(new(folder.path(), &words("port Rates --context nowhere")));
        assert_eq!(none, NewError::NoContext("nowhere".to_owned()));
        let none = refused(new(folder.path(), &words("adapter FixedRates --port Rates --context shop-floor")));
        assert!(matches!(&none, NewError::Place { what, .. } if what == "pub trait RatesPort"), "{none}");
    }

    #[test]
    fn missing_and_unknown_arguments_are_named() {
        for (kind, line, missing) in [
            (Kind::Port, "--context a", "NAME"),
            (Kind::Port, "Rates", "--context"),
            (Kind::Adapter, "Rates --context a", "--port"),
            (Kind::Consumer, "Rates --context a --event", "--event"),
        ] {
            let Err(Error::New(error)) = Part::parse(kind, &words(line)) else { panic!("{line}") };
            assert_eq!(error, NewError::Missing(missing), "{line}");
        }
        for line in ["Rates Other --context a", "Rates --port X --context a"] {
            assert!(Part::parse(Kind::Port, &words(line)).unwrap_err().is_usage(), "{line}");
        }
    }
}
