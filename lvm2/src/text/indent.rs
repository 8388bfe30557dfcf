//! A tree laid out for people, as LVM2 lays out its backup files.

use super::tree::{Item, Section};
use super::value::Scalar;

impl Section {
    /// Appends the items one a line, indented by `depth` tabs and without
    /// comments. Blank lines stay where there are some.
    pub fn print_indented_into(&self, depth: usize, out: &mut String) {
        for item in &self.items {
            if has_blank_line(item.lead()) {
                out.push('\n');
            }
            item.print_indented_into(depth, out);
        }
        if has_blank_line(&self.tail) {
            out.push('\n');
        }
    }
}

impl Item {
    fn print_indented_into(&self, depth: usize, out: &mut String) {
        indent(depth, out);
        out.push_str(self.raw_key());
        match self.section() {
            Some(section) => {
                out.push_str(" {\n");
                section.print_indented_into(depth.saturating_add(1), out);
                indent(depth, out);
                out.push_str("}\n");
            }
            None => {
                out.push_str(" = ");
                self.print_value_into(depth, out);
                out.push('\n');
            }
        }
    }

    /// The value as it is written, the lines of a long array indented too.
    fn print_value_into(&self, depth: usize, out: &mut String) {
        let raw = self.raw_body();
        let elements = self.value().map_or(&[][..], |value| value.elements());
        // A line break inside of a string is part of the string.
        let in_string = |scalar: &Scalar| scalar.as_str().is_some_and(|text| text.contains('\n'));
        if elements.iter().any(in_string) {
            out.push_str(raw);
            return;
        }
        for (number, line) in raw.lines().map(str::trim).enumerate() {
            if number > 0 {
                out.push('\n');
                let inner = usize::from(!line.starts_with(']'));
                indent(depth.saturating_add(inner), out);
            }
            out.push_str(line);
        }
    }
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n('\t', depth));
}

/// Whether a line between the item before and this one is empty.
fn has_blank_line(trivia: &str) -> bool {
    let Some((between, _)) = trivia.rsplit_once('\n') else {
        return false;
    };
    let mut lines = between.split('\n').skip(1);
    lines.any(|line| line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indented(text: &str) -> String {
        let mut out = String::new();
        Section::parse(text.as_bytes())
            .unwrap()
            .print_indented_into(1, &mut out);
        out
    }

    #[test]
    fn sections_arrays_and_blank_lines() {
        let text = "a {\nb = 1\n\nc = [\n\"pv0\", 0,\n\"pv1\", 8\n]\nd = [\"x\", \"y\"]\n}\n";
        assert_eq!(
            indented(text),
            "\ta {\n\t\tb = 1\n\n\t\tc = [\n\t\t\t\"pv0\", 0,\n\t\t\t\"pv1\", 8\n\t\t]\n\
             \t\td = [\"x\", \"y\"]\n\t}\n"
        );
    }

    #[test]
    fn comments_go_and_strings_stay() {
        assert_eq!(
            indented("a=1 # one\n#two\nb = \"line\n  line\""),
            "\ta = 1\n\tb = \"line\n  line\"\n"
        );
        assert_eq!(indented("s{t=2}"), "\ts {\n\t\tt = 2\n\t}\n");
    }
}
