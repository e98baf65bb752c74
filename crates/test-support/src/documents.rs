//! The pages of this workspace and the blocks of code on them, for tests that hold a page to what the code does.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its path from the workspace's root.
    pub path: String,
    /// Its Markdown.
    pub text: String,
}

/// A block of fenced code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Where it is, for whoever has to mend it: `docs/tutorial.md:12`.
    pub place: String,
    /// The words behind the fence: the language first.
    pub language: String,
    /// What is in it.
    pub text: String,
}

/// The pages of the workspace's root and every page below `docs`, in the order of their paths.
///
/// # Panics
/// When a page cannot be read.
#[must_use]
#[expect(clippy::panic, reason = "a test without its pages fails")]
pub fn pages() -> Vec<Page> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = markdown_in(&root, false).and_then(|mut paths| {
        paths.extend(markdown_in(&root.join("docs"), true)?);
        paths.sort();
        let page = |path: &PathBuf| -> io::Result<Page> {
            let name = path.strip_prefix(&root).unwrap_or(path).display().to_string();
            Ok(Page { path: name, text: fs::read_to_string(path)? })
        };
        paths.iter().map(page).collect::<io::Result<Vec<_>>>()
    });
    match read {
        Ok(pages) if !pages.is_empty() => pages,
        other => panic!("no pages in {}: {other:?}", root.display()),
    }
}

fn markdown_in(folder: &Path, with_folders: bool) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if with_folders {
                found.extend(markdown_in(&path, true)?);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(found)
}

impl Page {
    /// Its blocks of fenced code of one language.
    #[must_use]
    pub fn blocks_of(&self, language: &str) -> Vec<Block> {
        let mut blocks = self.blocks();
        blocks.retain(|block| block.language == language);
        blocks
    }

    /// Its blocks of fenced code.
    fn blocks(&self) -> Vec<Block> {
        let (mut found, mut open) = (Vec::new(), None::<Block>);
        for (line, number) in self.text.lines().zip(1..) {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    let (place, language) = (format!("{}:{number}", self.path), language.trim().to_owned());
                    open = Some(Block { place, language, text: String::new() });
                }
                (Some(_), Some(_)) => found.extend(open.take()),
                (None, Some(block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        found
    }
}

impl Block {
    /// The commands of a block for a shell, those that go on in the next line in one; without comments.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        let text = self.text.replace("\\\n", "");
        let lines = text.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_page_are_found_with_their_places_and_commands() {
        let text = "# A\n```sh\n# before\nmake it   # words\ncurl -X \\\n  POST\n```\n```toml\na = 1\n```\n";
        let page = Page { path: "a.md".to_owned(), text: text.to_owned() };
        let [block] = page.blocks_of("sh").try_into().expect("one block");
        assert_eq!((block.place.as_str(), block.language.as_str()), ("a.md:2", "sh"));
        assert_eq!(block.commands(), ["make it", "curl -X   POST"]);
        let [block] = page.blocks_of("toml").try_into().expect("one block");
        assert_eq!((block.place.as_str(), block.text.as_str()), ("a.md:8", "a = 1\n"));
    }

    #[test]
    fn the_front_page_and_pages_in_folders_are_among_the_pages() {
        let paths: Vec<String> = pages().into_iter().map(|page| page.path).collect();
        for path in ["README.md", "docs/settings.md", "docs/guides/go-to-production.md"] {
            assert!(paths.iter().any(|known| known == path), "{path} in {paths:?}");
        }
    }
}
