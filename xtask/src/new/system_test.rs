//! The tests of contexts as they run: a file each below `tests/system/contexts`, and the list of them.

use super::NewError;
use crate::tree::Tree;

const LIST: &str = "tests/system/contexts.rs";

/// Adds a test to the tree.
///
/// # Errors
/// [`NewError::Exists`] if there is one of that name; [`NewError::Place`] if there is no list.
pub(super) fn add(tree: &mut Tree, module: &str, text: String) -> Result<(), NewError> {
    let file = format!("tests/system/contexts/{module}.rs");
    if tree.text(&file).is_some() {
        return Err(NewError::Exists(file));
    }
    let list = tree.text(LIST).map(str::trim_end);
    let list = list.ok_or_else(|| NewError::Place { file: LIST.to_owned(), what: "the list of them".to_owned() })?;
    // Formatting puts it in its place among its neighbours.
    let gap = if list.lines().last().is_some_and(|line| line.starts_with("//!")) { "\n" } else { "" };
    let list = format!("{list}\n{gap}mod {module};\n");
    tree.set(LIST, list);
    tree.set(&file, text);
    Ok(())
}
