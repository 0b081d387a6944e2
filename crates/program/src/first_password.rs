//! The superuser's first password, from the environment.
//!
//! `THALWEG_PASSWORD` has the password itself, `THALWEG_PASSWORD_FILE` the path of a file with it.
//! The variables are no settings, so that no listing of the configuration shows a password.

use std::ffi::OsString;

use thalweg_types::{Error, Result, SqlState};

const PASSWORD: &str = "THALWEG_PASSWORD";
const FILE: &str = "THALWEG_PASSWORD_FILE";

/// The password; `None` if no variable is set.
///
/// # Errors
/// If both variables are set, the file cannot be read, or the password is empty or not UTF-8.
pub fn from_environment() -> Result<Option<String>> {
    chosen(std::env::var_os(PASSWORD), std::env::var_os(FILE))
}

fn chosen(password: Option<OsString>, file: Option<OsString>) -> Result<Option<String>> {
    let (password, name) = match (password, file) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            let message = format!("{PASSWORD} and {FILE} are both set");
            return Err(invalid(message).with_hint("Unset one of them."));
        }
        (Some(password), None) => {
            let text = password.into_string();
            (text.map_err(|_| invalid(format!("{PASSWORD} is not valid UTF-8")))?, PASSWORD)
        }
        (None, Some(path)) => {
            let mut text = std::fs::read_to_string(&path).map_err(|error| {
                let path = path.to_string_lossy();
                invalid(format!("the file {path}, which {FILE} names, cannot be read: {error}"))
            })?;
            // Editors and `echo` end a file with a newline.
            let length = text.trim_end_matches(['\n', '\r']).len();
            text.truncate(length);
            (text, FILE)
        }
    };
    if password.is_empty() {
        return Err(invalid(format!("{name} gives an empty password")));
    }
    Ok(Some(password))
}

fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_password_comes_from_one_variable() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b" secret \r\n").unwrap();
        let path = || Some(file.path().as_os_str().to_owned());
        assert_eq!(chosen(None, None).unwrap(), None);
        assert_eq!(chosen(Some("p".into()), None).unwrap().as_deref(), Some("p"));
        assert_eq!(chosen(None, path()).unwrap().as_deref(), Some(" secret "));
        for (password, file) in [
            (Some("p".into()), path()),
            (Some("".into()), None),
            (None, Some("/nowhere/at/all".into())),
        ] {
            assert_eq!(chosen(password, file).unwrap_err().state().0, "22023");
        }
    }
}
