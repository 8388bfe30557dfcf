//! Rows with named columns, printed as a table or in lvm2's report form.

use std::io::{self, Write};

use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table as Drawn, presets};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

/// Form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns for people.
    #[default]
    Table,
    /// JSON, with the keys of lvm2's reports.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Prints a value as JSON or YAML, or calls `table` for people.
pub(super) fn print<T: Serialize>(
    format: Format,
    value: &T,
    out: &mut dyn Write,
    table: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    match format {
        Format::Table => table(out),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, value)?;
            writeln!(out)
        }
        Format::Yaml => {
            let text = serde_saphyr::to_string(value).map_err(io::Error::other)?;
            writeln!(out, "{}", text.trim_end())
        }
    }
}

/// A column of a [`Table`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// Heading; `None` = not for people.
    pub(super) heading: Option<&'static str>,
    /// Name in JSON and YAML.
    pub(super) key: &'static str,
    /// Numbers are aligned to the right.
    pub(super) right: bool,
}

impl Column {
    /// A column of words.
    pub(super) const fn text(heading: &'static str, key: &'static str) -> Self {
        Self {
            heading: Some(heading),
            key,
            right: false,
        }
    }

    /// A column of numbers.
    pub(super) const fn number(heading: &'static str, key: &'static str) -> Self {
        Self {
            heading: Some(heading),
            key,
            right: true,
        }
    }

    /// A column for programs only.
    pub(super) const fn hidden(key: &'static str) -> Self {
        Self {
            heading: None,
            key,
            right: false,
        }
    }
}

/// Rows of one kind of object.
pub(super) struct Table<'a> {
    /// `pv`, `vg` or `lv`: the name of the list in JSON and YAML.
    pub(super) name: &'static str,
    pub(super) columns: &'a [Column],
    pub(super) rows: Vec<Vec<String>>,
}

impl Table<'_> {
    /// Prints the table. Without rows people see nothing, as with lvm2.
    pub(super) fn print(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        print(format, self, out, |out| self.draw(out))
    }

    fn draw(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let shown = |row: &[String]| -> Vec<String> {
            let cells = self.columns.iter().zip(row);
            cells
                .filter(|(column, _)| column.heading.is_some())
                .map(|(_, cell)| cell.clone())
                .collect()
        };
        let headings: Vec<&Column> = self
            .columns
            .iter()
            .filter(|column| column.heading.is_some())
            .collect();
        let mut drawn = Drawn::new();
        drawn
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        drawn.set_header(headings.iter().filter_map(|column| column.heading));
        for row in &self.rows {
            drawn.add_row(shown(row));
        }
        for (index, column) in headings.iter().enumerate() {
            if let Some(drawn) = drawn.column_mut(index) {
                drawn.set_padding((0, 1));
                if column.right {
                    drawn.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        for line in drawn.lines() {
            writeln!(out, "  {}", line.trim_end())?;
        }
        Ok(())
    }
}

/// `{"report": [{"lv": [{…}]}]}`, as lvm2 has it.
impl Serialize for Table<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("report", &[List(self)])?;
        map.end()
    }
}

struct List<'a>(&'a Table<'a>);
struct Rows<'a>(&'a Table<'a>);
struct Row<'a>(&'a [Column], &'a [String]);

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.0.name, &Rows(self.0))?;
        map.end()
    }
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.rows.len()))?;
        for row in &self.0.rows {
            list.serialize_element(&Row(self.0.columns, row))?;
        }
        list.end()
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (column, cell) in self.0.iter().zip(self.1) {
            map.serialize_entry(column.key, cell.trim_end())?;
        }
        map.end()
    }
}
