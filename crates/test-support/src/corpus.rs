//! Inputs to begin from and small edits of them: what a fuzzer does, on stable Rust and under a property test.
//!
//! A corpus is a folder of files that belongs to a test. A property test draws which file it begins from and what it
//! changes in it; whatever it finds is shrunk to few edits of one file. An input that once broke something is kept by
//! adding it to the folder.

use std::{fs, path::Path};

/// No input grows beyond this many bytes.
const LONGEST: usize = 64 * 1024;

/// Pieces that texts are likely to be read wrongly with.
const PIECES: [&[u8]; 16] = [
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\\u0000",
    b"\\ud800",
    b"\"",
    b"{",
    b"[[[[[[[[[[[[[[[[",
    b"null",
    b"1e999",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"%00",
    b"%ff",
    "\u{feff}".as_bytes(),
    "\u{10ffff}".as_bytes(),
];

/// One change: where, which, and with what. Every value means something.
pub type Edit = (u16, u8, u8);

/// The files of a folder, in the order of their names.
///
/// # Panics
/// When the folder cannot be read or holds no file.
#[must_use]
#[expect(clippy::panic, reason = "a test without its corpus fails")]
pub fn read(folder: impl AsRef<Path>) -> Vec<Vec<u8>> {
    let folder = folder.as_ref();
    let listed = fs::read_dir(folder).and_then(|entries| {
        let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
        paths.sort();
        paths.iter().map(fs::read).collect::<Result<Vec<_>, _>>()
    });
    match listed {
        Ok(files) if !files.is_empty() => files,
        other => panic!("no corpus in {}: {other:?}", folder.display()),
    }
}

/// The file number `begin`, counted around, with all edits made one after the other.
#[must_use]
pub fn edited(corpus: &[Vec<u8>], begin: usize, edits: &[Edit]) -> Vec<u8> {
    let of = |number: usize| corpus.get(number.checked_rem(corpus.len()).unwrap_or(0)).map_or(&[][..], Vec::as_slice);
    let mut bytes = of(begin).to_vec();
    for (place, kind, with) in edits {
        let at = usize::from(*place).checked_rem(bytes.len()).unwrap_or(0);
        let (head, tail) = bytes.split_at(at);
        let some = usize::from(*with % 32).min(tail.len());
        let (piece, rest) = tail.split_at(some);
        bytes = match kind % 7 {
            0 => [head, &[*with], tail.get(1..).unwrap_or_default()].concat(),
            1 => [head, &[*with], tail].concat(),
            2 => [head, rest].concat(),
            3 => [head, &piece.repeat(usize::from(*with) * 4), tail].concat(),
            4 => head.to_vec(),
            5 => [head, of(begin.wrapping_add(usize::from(*with)))].concat(),
            _ => [head, PIECES.get(usize::from(*with) % PIECES.len()).copied().unwrap_or_default(), tail].concat(),
        };
        bytes.truncate(LONGEST);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, edited};

    #[test]
    fn every_edit_of_any_file_is_made_and_none_grows_beyond_the_bound() {
        for corpus in [vec![], vec![Vec::new()], vec![b"abc".to_vec(), b"defg".to_vec()]] {
            for kind in 0..=u8::MAX {
                let edits = [(3, kind, 255), (7, kind, 1), (u16::MAX, kind, 40)].repeat(40);
                assert!(edited(&corpus, 1, &edits).len() <= LONGEST);
            }
        }
        assert_eq!(edited(&[b"abc".to_vec()], 7, &[(1, 0, b'x'), (0, 2, 1)]), b"xc");
    }
}
