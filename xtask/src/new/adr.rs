//! A decision record with the next number.

use super::{
    NewError, TemplateError,
    template::{Values, fill},
};
use crate::{Error, process, tree::Tree};

const TEMPLATE: &str = "templates/adr.md";
const FOLDER: &str = "docs/adr/";
const LONGEST: usize = 80;

/// Today's date, as a record has it.
pub(super) fn today() -> Result<String, Error> {
    let mut date = std::process::Command::new("date");
    Ok(process::output_of(date.args(["-u", "+%F"]))?.trim().to_owned())
}

pub(super) fn add_to(tree: &mut Tree, title: &str, date: &str) -> Result<(), NewError> {
    let actual = title.chars().count();
    let words: Vec<String> = title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    if actual > LONGEST || words.is_empty() || title.chars().any(char::is_control) {
        return Err(NewError::Title { value: title.escape_debug().to_string(), actual, bound: LONGEST });
    }
    let slug = words.join("-");
    let records: Vec<&str> = tree.files().filter_map(|(path, _)| path.strip_prefix(FOLDER)).collect();
    if let Some(record) = records.iter().find(|record| record.get(5..) == Some(format!("{slug}.md").as_str())) {
        return Err(NewError::Exists(format!("{FOLDER}{record}")));
    }
    let newest = records.iter().filter_map(|record| record.get(..4)?.parse::<u32>().ok()).max().unwrap_or(0);
    let number = newest + 1;
    let values = [("number", number.to_string()), ("title", title.to_owned()), ("date", date.to_owned())];
    let template = tree.text(TEMPLATE).ok_or_else(|| TemplateError::Missing(TEMPLATE.to_owned()))?;
    let text = fill(TEMPLATE, template, &Values::from(values), &[])?;
    tree.set(&format!("{FOLDER}{number:04}-{slug}.md"), text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{TEMPLATE, add_to};
    use crate::{
        new::{NewError, TemplateError},
        tree::{Tree, fixture::planted},
        workspace,
    };

    fn tree(template: &str) -> Tree {
        let folder =
            planted(&[(TEMPLATE, template), ("docs/adr/0012-order-and-parking.md", ""), ("docs/adr/README.md", "")]);
        Tree::read(folder.path()).unwrap()
    }

    #[test]
    fn record_gets_the_next_number_and_a_name_from_its_title() {
        let mut tree = tree("# {{number}}. {{title}} ({{date}})\n");
        add_to(&mut tree, "Keep money in cents, not floats!", "2026-01-02").unwrap();
        let path = "docs/adr/0013-keep-money-in-cents-not-floats.md";
        assert_eq!(tree.text(path), Some("# 13. Keep money in cents, not floats! (2026-01-02)\n"));
    }

    #[test]
    fn title_without_a_word_too_long_or_with_a_line_break_is_refused_with_its_length() {
        for title in ["", "!!", &"x".repeat(81), "a\nb"] {
            let error = add_to(&mut tree(""), title, "").unwrap_err();
            assert!(matches!(error, NewError::Title { bound: 80, .. }), "{error}");
        }
        add_to(&mut tree(""), &"x".repeat(80), "").unwrap();
    }

    #[test]
    fn title_of_another_record_is_refused() {
        let error = add_to(&mut tree(""), "Order and parking", "").unwrap_err();
        assert_eq!(error, NewError::Exists("docs/adr/0012-order-and-parking.md".to_owned()));
    }

    #[test]
    fn template_that_is_gone_is_named() {
        let mut tree = Tree::default();
        assert_eq!(add_to(&mut tree, "A", ""), Err(TemplateError::Missing(TEMPLATE.to_owned()).into()));
    }

    /// `tidy` asks every record for a status and a section Confirmation.
    #[test]
    fn own_template_has_what_tidy_asks_for() {
        let mut tree = Tree::read(&workspace::root()).unwrap();
        add_to(&mut tree, "A title that no record has", "2026-01-02").unwrap();
        let (_, text) = tree.files().find(|(path, _)| path.ends_with("a-title-that-no-record-has.md")).unwrap();
        assert!(text.starts_with("---\nstatus: ") && text.contains("## Confirmation\n"), "{text}");
    }
}
