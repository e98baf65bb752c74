//! Templates: text with `{{name}}` for a value, and lines from `{{each event}}` to `{{end}}` that are repeated.

use std::collections::BTreeMap;

/// Why a template cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TemplateError {
    /// There is none.
    #[error("there is no template {0}")]
    Missing(String),
    /// It names a value that does not exist.
    #[error("line {line} of the template {file} names `{name}`, which is no value")]
    Unknown {
        /// The template.
        file: String,
        /// The line, from 1; of the text without its repetitions.
        line: usize,
        /// The name.
        name: String,
    },
    /// A repetition does not end, or ends without a beginning.
    #[error("the template {0} has `{{{{each event}}}}` or `{{{{end}}}}` without the other one")]
    Repetition(String),
}

/// The values of a template.
pub(super) type Values = BTreeMap<&'static str, String>;

const EACH: &str = "{{each event}}";
const END: &str = "{{end}}";

/// The template with its values; what is between the marks once for each of `events`, whose values come first.
pub(super) fn fill(file: &str, template: &str, values: &Values, events: &[Values]) -> Result<String, TemplateError> {
    let repetition = || TemplateError::Repetition(file.to_owned());
    let (mut filled, mut block) = (String::new(), None::<Vec<(usize, &str)>>);
    for (index, line) in template.split_inclusive('\n').enumerate() {
        match (line.trim(), &mut block) {
            (EACH, None) => block = Some(Vec::new()),
            (EACH, Some(_)) | (END, None) => return Err(repetition()),
            (END, Some(lines)) => {
                for event in events {
                    let mut all = values.clone();
                    all.extend(event.clone());
                    for (index, line) in lines.iter() {
                        filled.push_str(&fill_line(file, *index, line, &all)?);
                    }
                }
                block = None;
            }
            (_, Some(lines)) => lines.push((index, line)),
            (_, None) => filled.push_str(&fill_line(file, index, line, values)?),
        }
    }
    if block.is_some() { Err(repetition()) } else { Ok(filled) }
}

fn fill_line(file: &str, index: usize, line: &str, values: &Values) -> Result<String, TemplateError> {
    let (mut filled, mut rest) = (String::new(), line);
    while let Some((before, (name, after))) =
        rest.split_once("{{").and_then(|(before, after)| Some((before, after.split_once("}}")?)))
    {
        let unknown = || TemplateError::Unknown { file: file.to_owned(), line: index + 1, name: name.to_owned() };
        filled.push_str(before);
        filled.push_str(values.get(name).ok_or_else(unknown)?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::{TemplateError, Values, fill};

    fn filled(template: &str) -> Result<String, TemplateError> {
        let event = |name: &str| Values::from([("event", name.to_owned())]);
        fill("a.rs", template, &Values::from([("name", "order".to_owned())]), &[event("Issued"), event("Paid")])
    }

    #[test]
    fn values_are_filled_in_and_blocks_repeated() {
        let template = "struct {{name}};\n  {{each event}}\n{{name}}{{event}},\n{{end}}\n{ {x} }\n";
        assert_eq!(filled(template).unwrap(), "struct order;\norderIssued,\norderPaid,\n{ {x} }\n");
    }

    #[test]
    fn value_that_does_not_exist_is_named_with_its_line() {
        let error = filled("a\n{{event}}\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2 of the template a.rs names `event`, which is no value");
    }

    #[test]
    fn block_without_its_other_end_is_refused() {
        for template in ["{{each event}}\n", "{{end}}\n", "{{each event}}\n{{each event}}\n{{end}}\n"] {
            assert_eq!(filled(template), Err(TemplateError::Repetition("a.rs".to_owned())));
        }
        let text = TemplateError::Repetition("a.rs".to_owned()).to_string();
        assert_eq!(text, "the template a.rs has `{{each event}}` or `{{end}}` without the other one");
    }
}
