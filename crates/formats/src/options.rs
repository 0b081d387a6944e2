//! Options for reading and writing files, and their form in `COPY`.

use thalweg_types::{Error, Result, SqlState};

use crate::Format;

/// The presence of a line of names at the beginning of delimited text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// It is present if the first line contains names of columns.
    #[default]
    Auto,
    Absent,
    Present,
    /// It is present, and its names must be those of the columns, in order.
    Match,
}

/// Some columns, or all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ColumnSet {
    #[default]
    None,
    All,
    Named(Vec<String>),
}

impl ColumnSet {
    /// True if the set has the column; names are compared exactly.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        match self {
            ColumnSet::None => false,
            ColumnSet::All => true,
            ColumnSet::Named(names) => names.iter().any(|known| known == name),
        }
    }
}

/// The marks of delimited text. The format determines marks that are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub delimiter: Option<u8>,
    pub quote: Option<u8>,
    pub escape: Option<u8>,
    /// Text for NULL.
    pub null: Option<String>,
}

impl Marks {
    /// The delimiter: the given one, or a comma for CSV and a tab for other formats.
    #[must_use]
    pub fn delimiter_for(&self, format: Format) -> u8 {
        self.delimiter.unwrap_or(if format == Format::Csv { b',' } else { b'\t' })
    }

    /// The quote character, by default `"`.
    #[must_use]
    pub fn quote(&self) -> u8 {
        self.quote.unwrap_or(b'"')
    }

    /// The escape character within quotes, by default the quote itself.
    #[must_use]
    pub fn escape(&self) -> u8 {
        self.escape.unwrap_or_else(|| self.quote())
    }

    /// The text that represents NULL: the given one, or `\N` for [`Format::Text`] and the empty
    /// text for others.
    #[must_use]
    pub fn null_for(&self, format: Format) -> &str {
        self.null.as_deref().unwrap_or(if format == Format::Text { "\\N" } else { "" })
    }

    /// Checks that the marks are distinguishable.
    fn validate(&self, format: Format) -> Result<()> {
        let delimiter = self.delimiter_for(format);
        if matches!(delimiter, b'\n' | b'\r' | b'\\') {
            return Err(invalid("COPY delimiter cannot be newline, carriage return or backslash"));
        }
        if format != Format::Text && delimiter == self.quote() {
            return Err(invalid("COPY delimiter and quote must be different"));
        }
        let null = self.null_for(format);
        if null.bytes().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return Err(invalid("COPY null representation cannot use newline or carriage return"));
        }
        if null.bytes().any(|byte| byte == delimiter) {
            return Err(invalid("COPY delimiter must not appear in the NULL specification"));
        }
        Ok(())
    }
}

/// Options for reading files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// `None`: the format that the file's name implies.
    pub format: Option<Format>,
    pub header: Header,
    pub marks: Marks,
    /// The names of the file's fields, in order, if the file itself does not contain them.
    pub columns: Option<Vec<String>>,
    /// Columns in which even a quoted value can be NULL.
    pub force_null: ColumnSet,
    /// Columns in which no value is NULL.
    pub force_not_null: ColumnSet,
}

/// Compression of Parquet files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    None,
    #[default]
    Snappy,
    Zstd,
}

/// Options for writing files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// `None`: the format that the file's name implies.
    pub format: Option<Format>,
    pub header: bool,
    pub marks: Marks,
    /// Columns whose values are quoted even if this is not necessary.
    pub force_quote: ColumnSet,
    pub compression: Compression,
    /// Number of rows in a Parquet file's row groups.
    pub row_group_rows: usize,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions {
            format: None,
            header: false,
            marks: Marks::default(),
            force_quote: ColumnSet::None,
            compression: Compression::default(),
            row_group_rows: 262_144,
        }
    }
}

impl ReadOptions {
    /// Parses the options of a `COPY … FROM` statement, names and values. Commas separate lists of
    /// columns; an option without a value has an empty one. Without the option for a header, the
    /// first line is a row, whatever it contains.
    pub fn from_copy<'a>(
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<ReadOptions> {
        let mut read = ReadOptions { header: Header::Absent, ..ReadOptions::default() };
        for (name, value) in options {
            match name.to_ascii_lowercase().as_str() {
                "format" => read.format = Some(Format::named(value)?),
                "header" => read.header = parse_header(value)?,
                "force_null" => read.force_null = parse_columns(value),
                "force_not_null" => read.force_not_null = parse_columns(value),
                other => parse_mark(&mut read.marks, other, name, value)?,
            }
        }
        read.marks.validate(read.format.unwrap_or(Format::Csv))?;
        Ok(read)
    }

    /// Checks these options for a file of a known format.
    pub(crate) fn checked(&self, format: Format) -> Result<()> {
        self.marks.validate(format)
    }
}

impl WriteOptions {
    /// Parses the options of a `COPY … TO` statement, like [`ReadOptions::from_copy`].
    pub fn from_copy<'a>(
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<WriteOptions> {
        let mut write = WriteOptions::default();
        for (name, value) in options {
            match name.to_ascii_lowercase().as_str() {
                "format" => write.format = Some(Format::named(value)?),
                "header" => write.header = parse_boolean("header", value)?,
                "force_quote" => write.force_quote = parse_columns(value),
                "compression" => write.compression = parse_compression(value)?,
                "row_group_size" => write.row_group_rows = parse_rows(value)?,
                other => parse_mark(&mut write.marks, other, name, value)?,
            }
        }
        write.marks.validate(write.format.unwrap_or(Format::Csv))?;
        Ok(write)
    }

    pub(crate) fn checked(&self, format: Format) -> Result<()> {
        self.marks.validate(format)
    }
}

fn parse_mark(marks: &mut Marks, lower: &str, name: &str, value: &str) -> Result<()> {
    match lower {
        "delimiter" => marks.delimiter = Some(one_byte("delimiter", value)?),
        "quote" => marks.quote = Some(one_byte("quote", value)?),
        "escape" => marks.escape = Some(one_byte("escape", value)?),
        "null" => marks.null = Some(value.to_owned()),
        "encoding" if matches!(value.to_ascii_lowercase().as_str(), "utf8" | "utf-8") => {}
        "encoding" => return Err(Error::unsupported(format!("the encoding \"{value}\""))),
        _ => {
            let message = format!("option \"{name}\" not recognized");
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    Ok(())
}

fn one_byte(option: &str, value: &str) -> Result<u8> {
    let byte = match value.as_bytes() {
        [byte] => Some(*byte),
        b"\\t" => Some(b'\t'),
        _ => None,
    };
    byte.filter(|byte| byte.is_ascii() && *byte != 0)
        .ok_or_else(|| invalid(format!("COPY {option} must be a single one-byte character")))
}

fn parse_header(value: &str) -> Result<Header> {
    if value.eq_ignore_ascii_case("match") {
        return Ok(Header::Match);
    }
    if value.eq_ignore_ascii_case("auto") {
        return Ok(Header::Auto);
    }
    Ok(if parse_boolean("header", value)? { Header::Present } else { Header::Absent })
}

fn parse_boolean(option: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "" | "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(invalid(format!("{option} requires a Boolean value, not \"{value}\""))),
    }
}

fn parse_columns(value: &str) -> ColumnSet {
    match value.trim() {
        "*" => ColumnSet::All,
        names => ColumnSet::Named(names.split(',').map(|name| name.trim().to_owned()).collect()),
    }
}

fn parse_compression(value: &str) -> Result<Compression> {
    match value.to_ascii_lowercase().as_str() {
        "none" | "uncompressed" => Ok(Compression::None),
        "snappy" => Ok(Compression::Snappy),
        "zstd" => Ok(Compression::Zstd),
        _ => Err(invalid(format!("compression \"{value}\" not recognized"))
            .with_hint("Compressions are none, snappy and zstd.")),
    }
}

fn parse_rows(value: &str) -> Result<usize> {
    let rows = value.parse().ok().filter(|rows| *rows > 0);
    rows.ok_or_else(|| invalid(format!("row_group_size must be a positive number, not {value}")))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
