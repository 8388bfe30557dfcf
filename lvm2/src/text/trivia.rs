//! What stands between items: blanks and comments.
//!
//! The rest of the line behind an item is stored in front of the next one but
//! belongs to the item it follows: `a = 1 # of a`. The functions here keep
//! such comments with their item when items come and go.

/// White space as C's `isspace` has it.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// Whether a text is nothing but blanks and comments.
pub(super) fn is_trivia(text: &str) -> bool {
    let blank = |line: &str| {
        let code = line.split('#').next().unwrap_or_default();
        code.bytes().all(is_space)
    };
    !text.contains('\0') && text.split('\n').all(blank)
}

/// Splits trivia into the comment that belongs to the item before it and the
/// rest, which begins with the line break.
fn split_comment(trivia: &str) -> (&str, &str) {
    let line_end = trivia.find('\n').unwrap_or(trivia.len());
    match trivia.split_at_checked(line_end) {
        Some((line, rest)) if line.contains('#') => (line, rest),
        _ => ("", trivia),
    }
}

/// Whether something put right behind this would become part of a comment.
pub(super) fn ends_in_comment(trivia: &str) -> bool {
    trivia
        .rsplit('\n')
        .next()
        .is_some_and(|line| line.contains('#'))
}

/// The trivia before an item that is put where `gap` is now, and what becomes
/// of `gap` behind it. `first`: nothing comes before the new item.
pub(super) fn open(gap: &str, first: bool, blank_line: bool) -> (String, String) {
    if first && gap.is_empty() {
        return (String::new(), "\n".to_owned());
    }
    if first && gap.contains('#') {
        // Comments at the top stay at the top.
        let line_break = if ends_in_comment(gap) { "\n" } else { "" };
        return (format!("{gap}{line_break}"), "\n".to_owned());
    }
    let (comment, rest) = split_comment(gap);
    let lead = format!("{comment}{}", if blank_line { "\n\n" } else { "\n" });
    let line_break = if rest.contains('\n') { "" } else { "\n" };
    (lead, format!("{rest}{line_break}"))
}

/// What stands before the next item, or closes the section, when the item
/// between `lead` and `next` is removed. `first`: nothing comes before it.
pub(super) fn close(lead: &str, next: &str, first: bool) -> String {
    let (_, rest) = split_comment(next);
    // A comment in front of the first item is about the section.
    let kept = if first && lead.contains('#') {
        lead
    } else if first {
        return if lead.is_empty() {
            rest.trim_start().to_owned()
        } else {
            rest.to_owned()
        };
    } else {
        split_comment(lead).0
    };
    if ends_in_comment(kept) && !rest.starts_with('\n') {
        return format!("{kept}\n{rest}");
    }
    if kept.is_empty() && rest.is_empty() {
        // Without anything between them two items could run together.
        return lead.to_owned();
    }
    format!("{kept}{rest}")
}
