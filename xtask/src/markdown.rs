//! Reading Markdown as far as the checks need it: tables, code spans, links, sections.

use std::collections::BTreeMap;

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The cells of its first line.
    pub header: Vec<String>,
    /// The other lines.
    pub rows: Vec<Row>,
}

/// A line of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The line in the file, from 1.
    pub line: usize,
    /// The cells, without blanks around them.
    pub cells: Vec<String>,
}

impl Table {
    /// The position of the column with this title, whatever its case.
    #[must_use]
    pub fn column(&self, title: &str) -> Option<usize> {
        self.header.iter().position(|cell| cell.eq_ignore_ascii_case(title))
    }
}

impl Row {
    /// The text of a cell; empty if the line is too short.
    #[must_use]
    pub fn cell(&self, column: usize) -> &str {
        self.cells.get(column).map_or("", String::as_str)
    }
}

/// The lines outside fenced code, with their numbers from 1.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => return Some((index + 1, line)),
            _ => {}
        }
        None
    })
}

/// A block of fenced code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence<'a> {
    /// The words behind the fence: the language first.
    pub language: &'a str,
    /// Its lines, with their numbers from 1.
    pub lines: Vec<(usize, &'a str)>,
}

/// All blocks of fenced code.
#[must_use]
pub fn fences(text: &str) -> Vec<Fence<'_>> {
    let (mut found, mut open) = (Vec::new(), None::<Fence<'_>>);
    for (index, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some(Fence { language: language.trim(), lines: Vec::new() }),
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(fence)) => fence.lines.push((index + 1, line)),
            (None, None) => {}
        }
    }
    found
}

/// What a link behind `#` calls the headings of the text; one that is there again is numbered from 1.
pub fn anchors(text: &str) -> impl Iterator<Item = String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).filter_map(|(_, line)| line.strip_prefix('#'));
    headings.map(move |heading| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name = kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>();
        let before = seen.entry(name.clone()).and_modify(|before| *before += 1).or_default();
        if *before == 0 { name } else { format!("{name}-{before}") }
    })
}

/// All tables of the text.
#[must_use]
pub fn tables(text: &str) -> Vec<Table> {
    let mut found = Vec::new();
    let mut block: Vec<Row> = Vec::new();
    let mut last = 0;
    for (line, content) in prose(text).chain([(usize::MAX, "")]) {
        let content = content.trim();
        if content.starts_with('|') && (block.is_empty() || line == last + 1) {
            block.push(Row { line, cells: cells(content) });
        } else {
            finish(&mut block, &mut found);
        }
        last = line;
    }
    found
}

/// Makes a table of the lines if the second one is the rule below a header.
fn finish(block: &mut Vec<Row>, found: &mut Vec<Table>) {
    let mut rows = block.drain(..);
    let (Some(header), Some(rule)) = (rows.next(), rows.next()) else { return };
    if rule.cells.iter().all(|cell| cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':'))) {
        found.push(Table { header: header.cells, rows: rows.collect() });
    }
}

fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let (mut escaped, mut in_code) = (false, false);
    for c in line.strip_prefix('|').unwrap_or(line).chars() {
        in_code ^= c == '`';
        match (c, cells.last_mut()) {
            ('|', _) if !escaped && !in_code => cells.push(String::new()),
            (c, Some(cell)) => {
                if escaped && c == '|' {
                    cell.pop();
                }
                cell.push(c);
            }
            (_, None) => {}
        }
        escaped = c == '\\';
    }
    if cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// The code spans of a line.
#[must_use]
pub fn codes(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).filter(|code| !code.is_empty()).collect()
}

/// The targets of the links and images of a line, code spans excepted.
#[must_use]
pub fn links(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for text in line.split('`').step_by(2) {
        let mut rest = text;
        while let Some((_, after)) = rest.split_once("](") {
            let target = after.split([')', ' ']).next().unwrap_or_default();
            found.push(target.trim_matches(['<', '>']));
            rest = after;
        }
        if let Some((_, target)) = text.split_once("]: ").filter(|_| text.starts_with('[')) {
            found.push(target.split(' ').next().unwrap_or_default());
        }
    }
    found
}

/// The text below the heading, or after the bold words, that say `title`, up to the next heading.
#[must_use]
pub fn section<'a>(text: &'a str, title: &str) -> Option<&'a str> {
    let mut start = None;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let is_heading = line.starts_with('#');
        match start {
            Some(start) if is_heading => return text.get(start..offset),
            None if is_heading && line.trim_start_matches('#').trim() == title => start = Some(offset + line.len()),
            None => {
                let bold = format!("**{title}");
                if line.trim_start().starts_with(&bold) {
                    start = Some(offset);
                }
            }
            Some(_) => {}
        }
        offset += line.len();
    }
    start.and_then(|start| text.get(start..))
}

#[cfg(test)]
mod tests {
    use super::{Fence, anchors, codes, fences, links, section, tables};

    #[test]
    fn tables_are_read_with_their_lines() {
        let text = "# T\n\n| A | B |\n| --- | :-: |\n| `a|b` | x \\| y |\n| c |\n\ntext | no\n```\n| A |\n| - |\n```\n";
        let [table] = tables(text).try_into().unwrap();
        assert_eq!(table.header, ["A", "B"]);
        assert_eq!(table.column("b"), Some(1));
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[0].cells, ["`a|b`", "x | y"]);
        assert_eq!((table.rows[1].line, table.rows[1].cell(0), table.rows[1].cell(1)), (6, "c", ""));
    }

    #[test]
    fn table_at_the_end_of_the_text_is_read() {
        assert_eq!(tables("| A |\n|---|\n| x |").len(), 1);
    }

    #[test]
    fn code_spans_and_links_are_found() {
        assert_eq!(codes("see `a` and `b::c`."), ["a", "b::c"]);
        assert_eq!(links("[a](b.md) ![c](d/e.svg \"t\") `[f](g)` [h](<i j>)"), ["b.md", "d/e.svg", "i"]);
        assert_eq!(links("[ref]: other.md"), ["other.md"]);
    }

    #[test]
    fn fenced_code_and_headings_are_found() {
        let text = "# A `b`, C-d!\n```rust,ignore\n# no heading\n```\n## 한국어 판\n# a b c-d\n";
        assert_eq!(fences(text), [Fence { language: "rust,ignore", lines: vec![(3, "# no heading")] }]);
        assert_eq!(anchors(text).collect::<Vec<_>>(), ["a-b-c-d", "한국어-판", "a-b-c-d-1"]);
    }

    #[test]
    fn section_ends_at_the_next_heading() {
        let text = "# A\n\n## Confirmation\n`one`\n\n## B\n`two`\n";
        assert_eq!(section(text, "Confirmation"), Some("`one`\n\n"));
        assert_eq!(section("# A\n**Confirmation**: `x`\n", "Confirmation"), Some("**Confirmation**: `x`\n"));
        assert_eq!(section("# A\n", "Confirmation"), None);
    }
}
