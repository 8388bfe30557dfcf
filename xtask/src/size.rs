//! Sizes as people type them: `512`, `64M`, `2G`.

use anyhow::{Context, Result, bail};

/// Reads a size with an optional binary suffix (`K`, `M`, `G`, `T`) as bytes.
pub(crate) fn parse(text: &str) -> Result<u64> {
    let (digits, shift) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 10),
        Some('m' | 'M') => (&text[..text.len() - 1], 20),
        Some('g' | 'G') => (&text[..text.len() - 1], 30),
        Some('t' | 'T') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number: u64 = digits
        .parse()
        .with_context(|| format!("size {text:?}: want a number with K, M, G or T, such as 512M"))?;
    match number.checked_mul(1 << shift) {
        Some(0) => bail!("size {text:?}: must not be zero"),
        Some(bytes) => Ok(bytes),
        None => bail!("size {text:?}: too large"),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn suffixes_are_binary() {
        assert_eq!(parse("512").unwrap(), 512);
        assert_eq!(parse("3g").unwrap(), 3 << 30);
        assert_eq!(parse("64M").unwrap(), 64 << 20);
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in ["", "G", "0", "-1M", "1.5G", "1P", "99999999999T"] {
            assert!(parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
