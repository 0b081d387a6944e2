//! The settings and their defaults.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use thalweg_server::{
    AuthSection, IngestConfig, LimitsConfig, ListenConfig, LogConfig, OtlpConfig, TlsConfig,
};

use crate::config::units::{Size, Span};

/// All settings, with a field for each section of `thalweg.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub database: DatabaseSettings,
    pub shell: ShellSettings,
    pub listen: ListenConfig,
    pub auth: AuthSection,
    pub tls: TlsConfig,
    pub limits: LimitsConfig,
    pub ingest: IngestConfig,
    pub log: LogConfig,
    pub otlp: OtlpConfig,
    pub cluster: ClusterSettings,
}

/// Settings of the database engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSettings {
    /// Threads that queries run on; as many as the machine has cores when not set.
    pub threads: Option<NonZeroUsize>,
    /// An aggregate over fewer rows than these runs on one thread.
    pub serial_rows: usize,
    /// Memory that queries may take before they spill to disk; no limit when not set.
    pub memory_limit: Option<Size>,
    /// Memory that the whole process may use. Beyond it, writes are refused, and queries spill or
    /// fail. Nine tenths of the machine's memory, or of the limit of its control group, when not
    /// set.
    pub process_memory_limit: Option<Size>,
    /// Directory for spill files; the system's directory for temporary files when not set.
    pub spill_directory: Option<PathBuf>,
    /// Maximum size of all spill files together; with zero, queries cannot spill.
    pub spill_limit: Size,
    pub durability: Durability,
    /// Size of the log at which a checkpoint shortens it.
    pub checkpoint_size: Size,
}

impl Default for DatabaseSettings {
    fn default() -> DatabaseSettings {
        DatabaseSettings {
            threads: None,
            serial_rows: 100_000,
            memory_limit: None,
            process_memory_limit: None,
            spill_directory: None,
            spill_limit: Size(100 << 30),
            durability: Durability::default(),
            checkpoint_size: Size(1 << 30),
        }
    }
}

/// Settings of the interactive shell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellSettings {
    pub format: Format,
    pub border: Border,
    pub expanded: Expansion,
    /// Text for NULL in tables.
    pub null: String,
    /// Shows the time that each statement took.
    pub timing: bool,
    pub color: Color,
    /// Number of statements in the history.
    pub history_size: usize,
    /// A statement that takes longer is cancelled; zero for no limit.
    pub statement_timeout: Span,
}

impl Default for ShellSettings {
    fn default() -> ShellSettings {
        ShellSettings {
            format: Format::Table,
            border: Border::Auto,
            expanded: Expansion::Off,
            null: "NULL".to_owned(),
            timing: false,
            color: Color::Auto,
            history_size: 10_000,
            statement_timeout: Span(std::time::Duration::ZERO),
        }
    }
}

/// Settings by which a gateway's statements gather rows from its workers, unless sessions override
/// them, and the size of the workers' encoding cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSettings {
    pub fan_in: FanIn,
    /// Relays rows that workers have encoded without decoding them.
    pub relay: bool,
    /// Asks all workers of one process through one stream.
    pub together: bool,
    /// Workers that must have joined a gateway before it makes tables.
    pub expect_workers: NonZeroUsize,
    /// Maximum size of the encoding cache of a process of workers; zero for no cache, a 64th of the
    /// memory that the process may use when not set.
    pub kept_encodings: Option<Size>,
}

impl Default for ClusterSettings {
    fn default() -> ClusterSettings {
        ClusterSettings {
            fan_in: FanIn::default(),
            relay: true,
            together: true,
            expect_workers: NonZeroUsize::MIN,
            kept_encodings: None,
        }
    }
}

/// Order in which workers are opened and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum FanIn {
    /// One after the other.
    Sync,
    /// All at once; all their rows go through one queue.
    Async,
    /// All at once; each one is read by itself.
    #[default]
    Hybrid,
}

/// Point at which a change counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When it is on disk: it survives a power cut.
    #[default]
    Fsync,
    /// When the operating system has it: it survives the end of this program.
    Write,
    /// When it is in memory.
    None,
}

/// Format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Aligned columns, for people.
    Table,
    Csv,
    /// One JSON object a line.
    Json,
    /// Arrow IPC: the file format in files, the stream format in pipes.
    Arrow,
    Parquet,
}

impl Format {
    /// True for formats that a terminal cannot show.
    pub fn is_binary(self) -> bool {
        matches!(self, Format::Arrow | Format::Parquet)
    }
}

/// Style of the lines of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Border {
    /// `unicode` on a terminal that can show it, `ascii` otherwise.
    Auto,
    Ascii,
    Unicode,
}

/// Setting for showing each value on a line of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Expansion {
    Off,
    On,
    /// On if a table would be wider than the terminal.
    Auto,
}

/// Use of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    Never,
    Always,
}
