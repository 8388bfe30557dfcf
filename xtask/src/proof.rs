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
        let (mut word, mut rest) = (String::new(), line);
        while let Some(next) = rest.chars().next() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            // Those of `lvm2` are a part of the word.
            if digits > 0 && !word.ends_with(char::is_alphabetic) {
                let (number, tail) = rest.split_at(digits);
                proof.words.push(std::mem::take(&mut word));
                proof.numbers.push(number.parse().unwrap_or(u64::MAX));
                rest = tail;
            } else {
                let (part, tail) = rest.split_at(digits.max(next.len_utf8()));
                word.push_str(part);
                rest = tail;
            }
        }
        proof.words.push(word);
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

#[cfg(test)]
mod tests {
    use super::Proof;

    #[test]
    fn numbers_are_added_and_words_with_digits_are_none() {
        let mut proof = Proof::read("judged by lvm2: 25, refused: 0");
        proof.add(&Proof::read("judged by lvm2: 196, refused: 1"));
        assert_eq!(proof.to_string(), "judged by lvm2: 221, refused: 1");
        let line = "12 by x86_64 \u{2014} 7";
        assert_eq!(Proof::read(line).to_string(), line);
    }
}
