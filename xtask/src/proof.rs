//! A suite's own count: a sentence with numbers, such as `lost: 0`.

use std::fmt;

/// Sentences that differ in their numbers alone can be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    /// What stands before, between and after the numbers.
    pub(crate) words: Vec<String>,
    numbers: Vec<u64>,
}

impl Proof {
    /// Takes a line apart.
    pub(crate) fn read(line: &str) -> Self {
        let mut proof = Self::default();
        let mut rest = line;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let (word, tail) = rest.split_at(start);
            let end = tail
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(tail.len());
            let (digits, tail) = tail.split_at(end);
            proof.words.push(word.to_owned());
            proof.numbers.push(digits.parse().unwrap_or(u64::MAX));
            rest = tail;
        }
        proof.words.push(rest.to_owned());
        proof
    }

    /// Adds the numbers of a proof with the same words.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, more) in self.numbers.iter_mut().zip(&other.numbers) {
            *mine = mine.saturating_add(*more);
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = self.words.iter();
        for number in &self.numbers {
            f.write_str(words.next().map_or("", String::as_str))?;
            write!(f, "{number}")?;
        }
        f.write_str(words.next().map_or("", String::as_str))
    }
}
