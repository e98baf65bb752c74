//! A bounded context with its first aggregate: a crate, a migration, and the places that have to know it.

use std::collections::BTreeSet;

use super::{
    NewError, TemplateError, Words, system_test,
    template::{Values, fill},
};
use crate::{
    Error,
    rename::{Name, taken},
    tree::Tree,
};

const TEMPLATES: &str = "templates/aggregate/";
const CONTEXTS: &str = "crates/app-bootstrap/src/contexts.rs";
const TABLE: &str = "xtask/src/arch/table.rs";
const MIGRATIONS: &str = "migrations/app/";
const EXPECTED: &str = "NAME --context NAME --events A,B";

const FEWEST_EVENTS: usize = 2;
const MOST_EVENTS: usize = 12;

/// What is asked for, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    name: Words,
    context: Name,
    events: Vec<Words>,
}

impl Aggregate {
    /// Reads the arguments behind `new aggregate`, for the workspace of the tree.
    ///
    /// # Errors
    /// [`NewError`] names what is wrong; [`Error::UnknownArgument`].
    pub fn parse(arguments: &[String], tree: &Tree) -> Result<Self, Error> {
        let (mut name, mut context, mut events) = (None, None, None);
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let slot = match argument.as_str() {
                "--context" => &mut context,
                "--events" => &mut events,
                other if other.starts_with('-') || name.is_some() => {
                    return Err(Error::UnknownArgument {
                        command: "new",
                        argument: other.to_owned(),
                        expected: EXPECTED,
                    });
                }
                _ => {
                    name = Some(argument);
                    continue;
                }
            };
            *slot = rest.next();
        }
        let name = Words::try_new("the aggregate's name", name.ok_or(NewError::Missing("NAME"))?)?;
        let context = context.ok_or(NewError::Missing("--context NAME"))?;
        let events = events_of(events.ok_or(NewError::Missing("--events A,B"))?)?;
        let context =
            Name::try_new(context, &taken(tree)).map_err(|source| NewError::Name { part: "--context", source })?;
        Ok(Self { name, context, events })
    }

    /// Adds the context to the tree.
    ///
    /// # Errors
    /// [`NewError`].
    pub(super) fn add_to(&self, tree: &mut Tree) -> Result<(), NewError> {
        let context = self.context.kebab();
        let registered = format!("crates/app-bootstrap/src/contexts/{}.rs", self.context.snake());
        let (home, stem) = (format!("crates/{context}/"), self.migration(tree));
        if let Some((path, _)) = tree.files().find(|(path, _)| path.starts_with(&home) || *path == registered) {
            return Err(NewError::Exists(path.to_owned()));
        }
        let table = format!("CREATE TABLE {} ", self.table());
        if let Some((path, _)) =
            tree.files().find(|(path, text)| path.starts_with("migrations/") && text.contains(&table))
        {
            return Err(NewError::Exists(format!("the table {} of {path}", self.table())));
        }
        let (values, events) = (self.values(&stem), self.event_values());
        let templates: Vec<(String, String)> = tree
            .files()
            .filter_map(|(path, text)| Some((path.strip_prefix(TEMPLATES)?.strip_suffix(".tmpl")?, text)))
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .collect();
        if templates.is_empty() {
            return Err(TemplateError::Missing(TEMPLATES.to_owned()).into());
        }
        for (path, template) in templates {
            let text = fill(&format!("{TEMPLATES}{path}.tmpl"), &template, &values, &events)?;
            match path.as_str() {
                "migration.sql" => tree.set(&format!("{MIGRATIONS}{stem}.sql"), text),
                "context.rs" => tree.set(&registered, text),
                "system.rs" => system_test::add(tree, &self.context.snake(), text)?,
                _ => tree.set(&format!("{home}{path}"), text),
            }
        }
        self.register(tree)
    }

    /// The places that have to know the context.
    fn register(&self, tree: &mut Tree) -> Result<(), NewError> {
        let (context, module) = (self.context.kebab(), self.context.snake());
        let dependency = format!("{context} = {{ path = \"crates/{context}\" }}\n");
        let inserts = [
            ("Cargo.toml", "test-support = { path = \"crates/test-support\" }\n", dependency),
            (
                "crates/app-bootstrap/Cargo.toml",
                "application-core.workspace = true\n",
                format!("{context}.workspace = true\n"),
            ),
            (CONTEXTS, "use std::{fmt, sync::Arc, time::Duration};\n", format!("mod {module};\n\n")),
            (CONTEXTS, "const CONTEXTS: &[Context] = &[", format!("{module}::CONTEXT, ")),
            (TABLE, "pub const CONTEXTS: &[&str] = &[", format!("\"{context}\", ")),
        ];
        for (file, place, new) in inserts {
            let text = tree.text(file).filter(|text| text.matches(place).count() == 1);
            let text =
                text.ok_or_else(|| NewError::Place { file: file.to_owned(), what: place.trim_end().to_owned() })?;
            // A list goes on behind its beginning; whole lines stand before the one that is known.
            let with = if place.ends_with('[') { format!("{place}{new}") } else { format!("{new}{place}") };
            let text = text.replace(place, &with).replace(", ]", "]");
            tree.set(file, text);
        }
        Ok(())
    }

    /// The name of the migration, with the next number of the application's history.
    fn migration(&self, tree: &Tree) -> String {
        let numbers = tree.files().filter_map(|(path, _)| {
            path.strip_prefix(MIGRATIONS)?.strip_prefix('V')?.split_once("__")?.0.parse::<u32>().ok()
        });
        format!("V{}__{}", numbers.max().unwrap_or(0) + 1, self.table())
    }

    /// With the context before it, no aggregate's name is a word of SQL.
    fn table(&self) -> String {
        format!("{}_{}", self.context.snake(), self.name.joined('_'))
    }

    fn values(&self, stem: &str) -> Values {
        let events: Vec<String> = self.events.iter().map(|event| event.joined('_').to_ascii_uppercase()).collect();
        let first = self.events.first().map(|event| event.as_str().to_owned()).unwrap_or_default();
        let pascal = self.context.kebab().split('-').map(|word| {
            let (first, rest) = word.split_at(1);
            format!("{}{rest}", first.to_ascii_uppercase())
        });
        Values::from([
            ("Aggregate", self.name.as_str().to_owned()),
            ("aggregate", self.name.joined('_')),
            ("aggregate-kebab", self.name.joined('-')),
            ("words", self.name.joined(' ')),
            ("Context", pascal.collect()),
            ("context", self.context.kebab().to_owned()),
            ("context_snake", self.context.snake()),
            ("table", self.table()),
            ("First", first),
            ("chain", events.join(" → ")),
            ("statuses", events.iter().map(|event| format!("'{event}'")).collect::<Vec<_>>().join(", ")),
            ("migration", format!("{stem}.sql")),
            ("migration_stem", stem.to_owned()),
        ])
    }

    fn event_values(&self) -> Vec<Values> {
        let before = std::iter::once(None).chain(self.events.iter().map(Some));
        let values = self.events.iter().zip(before).map(|(event, before)| {
            Values::from([
                ("Event", event.as_str().to_owned()),
                ("EVENT", event.joined('_').to_ascii_uppercase()),
                ("event-kebab", event.joined('-')),
                (
                    "previous",
                    before.map_or_else(|| "None".to_owned(), |before| format!("Some(Self::{})", before.as_str())),
                ),
            ])
        });
        values.collect()
    }
}

fn events_of(list: &str) -> Result<Vec<Words>, NewError> {
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    let distinct = names.iter().collect::<BTreeSet<_>>().len();
    if distinct != names.len() || !(FEWEST_EVENTS..=MOST_EVENTS).contains(&names.len()) {
        return Err(NewError::Events { count: names.len(), distinct, fewest: FEWEST_EVENTS, most: MOST_EVENTS });
    }
    names.into_iter().map(|name| Words::try_new("an event's name", name)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Aggregate, CONTEXTS, TABLE};
    use crate::{
        Error,
        new::{NewError, new},
        rename::NameError,
        tree::{
            Tree,
            fixture::{copy_of_the_workspace, planted},
        },
    };

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn parse(line: &str) -> Result<Aggregate, NewError> {
        let folder = planted(&[("Cargo.lock", "name = \"serde_json\"\n")]);
        match Aggregate::parse(&words(line), &Tree::read(folder.path()).unwrap()) {
            Ok(aggregate) => Ok(aggregate),
            Err(Error::New(error)) => Err(error),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn context_is_made_from_the_templates_and_registered() {
        let folder = copy_of_the_workspace();
        let made =
            new(folder.path(), &words("aggregate SalesOrder --context shop-floor --events Placed,PaidInFull")).unwrap();
        let tree = Tree::read(folder.path()).unwrap();
        for path in [
            "crates/shop-floor/Cargo.toml",
            "crates/shop-floor/src/domain.rs",
            "crates/app-bootstrap/src/contexts/shop_floor.rs",
            "tests/system/contexts/shop_floor.rs",
        ] {
            assert!(made.iter().any(|new| new == path), "{path} of {made:?}");
        }
        assert!(
            made.iter()
                .any(|path| path.starts_with("migrations/app/V") && path.ends_with("__shop_floor_sales_order.sql"))
        );
        let domain = tree.text("crates/shop-floor/src/domain.rs").unwrap();
        assert!(domain.contains("Self::PaidInFull => Some(Self::Placed),") && domain.contains("\"PAID_IN_FULL\""));
        let delivery = tree.text("tests/system/contexts/shop_floor.rs").unwrap();
        assert!(delivery.contains("/shop-floor/sales-order/{ID}") && delivery.contains("\"SalesOrderPaidInFull\","));
        assert!(
            !delivery.contains("{{") && tree.text("tests/system/contexts.rs").unwrap().contains("\nmod shop_floor;\n")
        );
        let contexts = tree.text(CONTEXTS).unwrap();
        assert!(contexts.contains("mod shop_floor;") && contexts.contains("&[shop_floor::CONTEXT"), "{contexts}");
        assert!(tree.text(TABLE).unwrap().contains("CONTEXTS: &[&str] = &[\"shop-floor\""));
        assert!(!tree.files().any(|(path, text)| path.starts_with("crates/shop-floor") && text.contains("{{")));

        let again = new(folder.path(), &words("aggregate Other --context shop-floor --events Made,Gone")).unwrap_err();
        let Error::New(NewError::Name { source: NameError::Taken { .. }, .. }) = again else { panic!("{again}") };
    }

    #[test]
    fn missing_name_context_or_events_is_named() {
        for (line, missing) in [
            ("--context billing --events A1,B1", "NAME"),
            ("Invoice --events Issued,Paid", "--context NAME"),
            ("Invoice --context", "--context NAME"),
            ("Invoice --context billing", "--events A,B"),
        ] {
            assert_eq!(parse(line), Err(NewError::Missing(missing)), "{line}");
        }
    }

    #[test]
    fn name_that_cannot_be_used_is_refused_with_its_value() {
        for name in ["invoice", "I", "In-voice", "SQLTable", "Result", &"X".repeat(31)] {
            let error = parse(&format!("{name} --context billing --events Issued,Paid")).unwrap_err();
            assert!(matches!(&error, NewError::TypeName { value, bound: 30, .. } if value == name), "{error}");
        }
        let error = parse("Invoice --context billing --events Issued,paid").unwrap_err();
        assert!(matches!(&error, NewError::TypeName { value, .. } if value == "paid"), "{error}");
        for context in ["Billing", "serde-json", "type", "test"] {
            let error = parse(&format!("Invoice --context {context} --events Issued,Paid")).unwrap_err();
            assert!(matches!(error, NewError::Name { part: "--context", .. }), "{error}");
        }
    }

    #[test]
    fn events_too_few_too_many_or_twice_are_refused_with_their_number() {
        let many = (0..13).map(|n| format!("E{n}")).collect::<Vec<_>>().join(",");
        for (events, count, distinct) in [("Issued", 1, 1), ("Paid,Paid", 2, 1), (many.as_str(), 13, 13)] {
            let error = parse(&format!("Invoice --context billing --events {events}")).unwrap_err();
            assert_eq!(error, NewError::Events { count, distinct, fewest: 2, most: 12 });
        }
    }

    #[test]
    fn table_that_exists_and_place_that_has_changed_are_refused_before_anything_is_written() {
        let aggregate = parse("Invoice --context billing --events Issued,Paid").unwrap();
        let table = [("migrations/outbox/V1__x.sql", "CREATE TABLE billing_invoice (id uuid);")];
        let mut tree = Tree::read(planted(&table).path()).unwrap();
        assert!(matches!(aggregate.add_to(&mut tree), Err(NewError::Exists(what)) if what.contains("billing_invoice")));
        let template = [("templates/aggregate/src/lib.rs.tmpl", "//! {{words}}\n")];
        let mut tree = Tree::read(planted(&template).path()).unwrap();
        assert!(matches!(aggregate.add_to(&mut tree), Err(NewError::Place { file, .. }) if file == "Cargo.toml"));
        let mut tree = Tree::default();
        assert!(matches!(aggregate.add_to(&mut tree), Err(NewError::Template(_))));
    }

    #[test]
    fn unknown_word_is_a_usage_error() {
        let folder = planted(&[]);
        for line in ["", "thing X", "aggregate Invoice --contxt billing", "aggregate Invoice Other", "adr a b"] {
            assert!(new(folder.path(), &words(line)).unwrap_err().is_usage(), "{line}");
        }
        assert!(matches!(new(folder.path(), &words("adr")), Err(Error::New(NewError::Missing("TITLE")))));
    }
}
