//! `thalweg sql`: the shell, and statements from scripts, pipes and the command line.

use std::io::{self, BufReader, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgAction, ArgMatches, Args, FromArgMatches, ValueEnum};
use thalweg::{Database, Error, Progress};

use crate::cli::DatabaseArguments;
use crate::config::{Border, Color, Config, Expansion, Flags, Format, Settings};
use crate::exit::Exit;
use crate::progress::ProgressBars;
use crate::report;
use crate::shell::{self, Behavior, Origin, Output, Shell, Stop, View};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg sql                                  a shell; \\? lists its commands
  thalweg sql -c 'SELECT 1 AS one' -c 'SELECT 2 AS two' --format csv
  thalweg sql --data ./market -1 -f load.sql   all of the script or nothing
  cat load.sql | thalweg sql --data ./market
  thalweg sql -c \"SELECT * FROM 'prices.csv'\" --format parquet --output prices.parquet";

/// Runs SQL: a shell, or statements from the command line, files and pipes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SqlArguments {
    #[command(flatten)]
    pub sources: Sources,
    /// Format of results [default: table]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Writes results to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Shows results and errors only
    #[arg(short, long)]
    quiet: bool,
    /// Shows each statement before it runs
    #[arg(short, long)]
    echo: bool,
    /// Behavior of a script after a statement fails
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    on_error: OnError,
    /// Runs everything as one transaction
    #[arg(short = '1', long)]
    single_transaction: bool,
    /// Shows how long each statement took
    #[arg(long)]
    timing: bool,
    /// Shows a line for each value
    #[arg(short = 'x', long)]
    expanded: bool,
    /// The lines of tables [default: auto]
    #[arg(long, value_name = "LINES")]
    border: Option<Border>,
    /// Text for NULL in tables [default: NULL]
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    /// Shows no colors
    #[arg(long)]
    no_color: bool,
    /// Shows the SQLSTATE of errors
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    database: DatabaseArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnError {
    Stop,
    Continue,
}

/// Statements and files to run, in the order of the command line.
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<Source>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Command(String),
    File(PathBuf),
}

impl Args for Sources {
    fn augment_args(command: clap::Command) -> clap::Command {
        let text = clap::Arg::new("command")
            .short('c')
            .long("command")
            .value_name("SQL")
            .help("Runs statements, then ends; may be repeated")
            .action(ArgAction::Append);
        let file = clap::Arg::new("file")
            .short('f')
            .long("file")
            .value_name("FILE")
            .help("Runs a script, then ends; - is standard input; may be repeated")
            .value_parser(clap::value_parser!(PathBuf))
            .action(ArgAction::Append);
        command.arg(text).arg(file)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Sources::augment_args(command)
    }
}

impl FromArgMatches for Sources {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Sources, clap::Error> {
        let places = |name| matches.indices_of(name).into_iter().flatten();
        let texts = matches.get_many::<String>("command").into_iter().flatten();
        let files = matches.get_many::<PathBuf>("file").into_iter().flatten();
        let texts = places("command").zip(texts.cloned().map(Source::Command));
        let files = places("file").zip(files.cloned().map(Source::File));
        let mut sources: Vec<(usize, Source)> = texts.chain(files).collect();
        sources.sort_by_key(|(place, _)| *place);
        Ok(Sources(sources.into_iter().map(|(_, source)| source).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Sources::from_arg_matches(matches)?;
        Ok(())
    }
}

impl SqlArguments {
    fn flags(&self) -> Flags {
        let mut flags = Flags::default();
        flags.set("shell.format", self.format);
        flags.set("shell.border", self.border);
        flags.set("shell.null", self.null.as_ref());
        flags.set("shell.timing", self.timing.then_some(true));
        flags.set("shell.expanded", self.expanded.then_some(Expansion::On));
        flags.set("shell.color", self.no_color.then_some(Color::Never));
        flags
    }

    /// True if a person types the statements.
    fn is_interactive(&self) -> bool {
        self.sources.0.is_empty() && io::stdin().is_terminal() && io::stdout().is_terminal()
    }
}

/// Runs `thalweg sql`, which is also the command without a subcommand.
pub fn run(arguments: &SqlArguments) -> Exit {
    let config = match arguments.database.load_config(arguments.flags()) {
        Ok(config) => config,
        Err(errors) => return report::usage(&errors),
    };
    let output = match open_output(arguments, &config) {
        Ok(output) => output,
        Err(error) => return report::usage(&[error]),
    };
    let settings = &config.settings;
    let runtime = match DatabaseArguments::runtime(&settings.database) {
        Ok(runtime) => runtime,
        Err(error) => {
            let message = format!("no threads to run on: {error}");
            return report::not_opened(&Error::new(thalweg::SqlState::OUT_OF_MEMORY, message));
        }
    };
    let progress = terminal::is_watched().then(|| Arc::new(ProgressBars::new()));
    let watcher = progress.clone().map(|bars| bars as Arc<dyn Progress>);
    let database = match arguments.database.open(&settings.database, watcher) {
        Ok(database) => database,
        Err(error) => return report::not_opened(&error),
    };
    if let Some(progress) = &progress {
        progress.allow(false);
    }
    let mut shell = {
        let _context = runtime.enter();
        new_shell(arguments, settings, database.clone(), output, progress)
    };
    let result = if arguments.is_interactive() {
        converse(&runtime, &mut shell, settings)
    } else {
        runtime.block_on(run_sources(&mut shell, arguments))
    };
    let exit = exit_after(result, &shell, arguments);
    drop(shell);
    // Does not wait for the remains of a cancelled query.
    runtime.shutdown_background();
    close(database, exit)
}

fn open_output(arguments: &SqlArguments, config: &Config) -> Result<Output, Error> {
    let format = config.settings.shell.format;
    let output = match &arguments.output {
        Some(path) => Output::file(path)?,
        None => Output::stdout(),
    };
    if format.is_binary() && output.is_terminal() {
        return Err(shell::binary_to_terminal(format));
    }
    Ok(output)
}

fn new_shell(
    arguments: &SqlArguments,
    settings: &Settings,
    database: Database,
    output: Output,
    progress: Option<Arc<ProgressBars>>,
) -> Shell {
    let behavior = Behavior {
        is_interactive: arguments.is_interactive(),
        echo: arguments.echo,
        quiet: arguments.quiet,
        continue_on_error: arguments.on_error == OnError::Continue,
        verbose: arguments.verbose,
    };
    let color_errors = terminal::wants_color(settings.shell.color, io::stderr().is_terminal());
    let view = View::new(&settings.shell, color_errors);
    Shell::new(database, arguments.database.data.clone(), behavior, view, output, progress)
}

fn converse(
    runtime: &tokio::runtime::Runtime,
    shell: &mut Shell,
    settings: &Settings,
) -> Result<(), Stop> {
    shell.greet()?;
    let color = terminal::wants_color(settings.shell.color, true);
    let size = settings.shell.history_size;
    shell::run_interactive(runtime, shell, size, color).map_err(|error| {
        report::tell(&error);
        Stop::Failed
    })
}

async fn run_sources(shell: &mut Shell, arguments: &SqlArguments) -> Result<(), Stop> {
    let standard_input = [Source::File(PathBuf::from("-"))];
    let sources = match arguments.sources.0.as_slice() {
        [] => &standard_input,
        given => given,
    };
    if arguments.single_transaction {
        shell.run_quietly("BEGIN").await?;
    }
    let mut result = Ok(());
    for source in sources {
        result = run_source(shell, source).await;
        if result.is_err() {
            break;
        }
    }
    if arguments.single_transaction && result != Err(Stop::OutputClosed) {
        let end = if result.is_ok() && !shell.has_failed() { "COMMIT" } else { "ROLLBACK" };
        let ended = shell.run_quietly(end).await;
        return result.and(ended);
    }
    result
}

async fn run_source(shell: &mut Shell, source: &Source) -> Result<(), Stop> {
    match source {
        Source::Command(text) => shell.run_script(&mut text.as_bytes(), &Origin::Here).await,
        Source::File(path) if path.as_os_str() == "-" => {
            let origin = Origin::Script("<stdin>".to_owned());
            shell.run_script(&mut BufReader::new(io::stdin()), &origin).await
        }
        Source::File(path) => match shell::open_script(path) {
            Ok(mut file) => {
                let origin = Origin::Script(path.display().to_string());
                shell.run_script(&mut file, &origin).await
            }
            Err(error) => {
                report::tell(&error);
                Err(Stop::Failed)
            }
        },
    }
}

fn exit_after(result: Result<(), Stop>, shell: &Shell, arguments: &SqlArguments) -> Exit {
    match result {
        Err(Stop::OutputClosed) => Exit::OutputClosed,
        Err(Stop::Interrupted) => Exit::Interrupted,
        Err(Stop::Failed) => Exit::StatementFailed,
        // An interactive user has already seen the errors.
        _ if shell.has_failed() && !arguments.is_interactive() => Exit::StatementFailed,
        Ok(()) | Err(Stop::Quit) => Exit::Success,
    }
}

/// Ends all work in the database. Its failure matters only if everything else succeeded.
fn close(database: Database, exit: Exit) -> Exit {
    match database.close() {
        Err(error) => {
            report::tell(&error);
            if exit == Exit::Success { Exit::StatementFailed } else { exit }
        }
        Ok(()) => exit,
    }
}
