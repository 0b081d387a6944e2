//! Entry point of the program, which is a library.

use std::process::ExitCode;

fn main() -> ExitCode {
    thalweg_program::run(std::env::args_os())
}
