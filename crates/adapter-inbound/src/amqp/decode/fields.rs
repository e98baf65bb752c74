//! The known fields of a JSON object, each as the text that stands there.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{error::Category, value::RawValue};

use super::error::DecodeError;

/// Borrowed from the body; holds one value per known field, so its size does not grow with the body.
#[derive(Debug)]
pub(super) struct Fields<'a>(Vec<(&'static str, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Reads an object, passing over the fields that are not in `names`; of a repeated field, the last value counts.
    pub(super) fn read(text: &'a str, names: &'static [&'static str]) -> Result<Self, DecodeError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let fields = Known(names).deserialize(&mut reader).map_err(|error| not_an_object(&error))?;
        reader.end().map_err(|error| not_an_object(&error))?;
        Ok(fields)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    /// The text of the value, byte for byte.
    pub(super) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.get())
    }

    /// A string or a number as text; `null` is like no field.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<String>, DecodeError> {
        let invalid = |raw: &str| DecodeError::invalid(name, "a string or a number", raw);
        match self.raw(name) {
            None | Some("null") => Ok(None),
            Some(raw) => match raw.as_bytes().first() {
                Some(b'"') => serde_json::from_str(raw).map(Some).map_err(|_unshown| invalid(raw)),
                Some(b'-' | b'0'..=b'9') => Ok(Some(raw.to_owned())),
                _ => Err(invalid(raw)),
            },
        }
    }
}

/// The parser's own words may repeat the body, so only their kind and place are kept.
fn not_an_object(error: &serde_json::Error) -> DecodeError {
    let category = match error.classify() {
        Category::Io | Category::Syntax => "syntax",
        Category::Data => "data",
        Category::Eof => "eof",
    };
    DecodeError::NotAnObject { category, line: error.line(), column: error.column() }
}

struct Known(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Known {
    type Value = Fields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Known {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields: Vec<(&'static str, &'de RawValue)> = Vec::new();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            let Some(name) = self.0.iter().find(|name| **name == key) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value = map.next_value()?;
            match fields.iter_mut().find(|(known, _)| known == name) {
                Some(field) => field.1 = value,
                None => fields.push((name, value)),
            }
        }
        Ok(Fields(fields))
    }
}
