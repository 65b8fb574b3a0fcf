//! The tables of ibdiagnet's `db_csv`, each between `START_NAME` and `END_NAME` with a line of column names.
//!
//! A truncated table is an error: half a fabric must not be taken for the whole.

use crate::text_error::TextError;

/// A table of the file: its columns and its rows.
pub struct Table<'t> {
    /// Its name.
    pub name: &'static str,
    /// The line with the names of its columns.
    pub line: usize,
    columns: Vec<&'t str>,
    /// Its rows.
    pub rows: Vec<Row<'t>>,
}

/// A row and where it stands.
pub struct Row<'t> {
    /// Line, counted from 1.
    pub line: usize,
    cells: Vec<&'t str>,
}

impl<'t> Row<'t> {
    /// What is in a column; nothing when the row is too short.
    pub fn get(&self, column: usize) -> &'t str {
        self.cells.get(column).copied().unwrap_or_default()
    }
}

impl Table<'_> {
    /// Where a column is, when the table has it. Tables differ in how they write `NodeGUID`.
    pub fn find(&self, column: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|name| name.eq_ignore_ascii_case(column))
    }

    /// Errors about rows with too few columns, whose values may be shifted.
    pub fn cut_off(&self) -> impl Iterator<Item = TextError> {
        let short = self.rows.iter().filter(|row| !self.is_whole(row));
        short.map(|row| {
            let (has, of) = (row.cells.len(), self.columns.len());
            let message = format!("table {}: a row with {has} of {of} columns", self.name);
            TextError::at(row.line, message)
        })
    }

    /// Whether a row has all columns.
    pub fn is_whole(&self, row: &Row<'_>) -> bool {
        row.cells.len() >= self.columns.len()
    }

    /// The same of one that it must have.
    pub fn column(&self, column: &str) -> Result<usize, TextError> {
        self.find(column)
            .ok_or_else(|| TextError::at(self.line, format!("table {} has no column `{column}`", self.name)))
    }
}

/// One table; none when the file does not have it.
pub fn table<'t>(text: &'t str, name: &'static str) -> Result<Option<Table<'t>>, TextError> {
    let (start, end) = (format!("START_{name}"), format!("END_{name}"));
    let mut lines = (1..)
        .zip(text.lines())
        .map(|(number, line)| (number, line.trim_end()));
    let Some((began, _)) = lines.find(|(_, line)| *line == start) else {
        return Ok(None);
    };
    let Some((line, header)) = lines.next() else {
        return Err(TextError::at(began, format!("table {name} is truncated")));
    };
    let mut rows = Vec::new();
    for (number, line) in lines {
        if line == end {
            return Ok(Some(Table {
                name,
                line: began + 1,
                columns: cells(header),
                rows,
            }));
        }
        if !line.is_empty() {
            rows.push(Row {
                line: number,
                cells: cells(line),
            });
        }
    }
    Err(TextError::at(
        line,
        format!("table {name} is truncated: `{end}` is missing"),
    ))
}

/// The cells of a line, without their quotes. A quoted cell may hold commas.
fn cells(line: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let (mut from, mut quoted) = (0, false);
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => {
                cells.push(bare(&line[from..at]));
                from = at + 1;
            }
            _ => {}
        }
    }
    cells.push(bare(&line[from..]));
    cells
}

fn bare(cell: &str) -> &str {
    let cell = cell.trim();
    let inner = cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"'));
    inner.unwrap_or(cell)
}
