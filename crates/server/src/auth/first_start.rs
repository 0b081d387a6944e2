//! The superuser's generated first password.

use thalweg_query::{BOOTSTRAP_ROLE, Database, ScramVerifier};
use thalweg_types::Result;

use super::{Policy, secret};

/// 32 letters and digits that are hard to confuse; each carries five bits.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const LENGTH: usize = 24;

/// Generates a password for the superuser if the policy requires passwords and it has none. Returns
/// the password, which is shown once to the person who starts the server; the database stores only
/// its verifier.
///
/// # Errors
/// If the verifier could not be stored.
pub async fn administrator_password(database: &Database, policy: Policy) -> Result<Option<String>> {
    if !policy.needs_passwords() || has_password(database) {
        return Ok(None);
    }
    let letter = |byte: &u8| char::from(ALPHABET[usize::from(byte % 32)]);
    let password: String = secret()[..LENGTH].iter().map(letter).collect();
    set_password(database, &password).await?;
    Ok(Some(password))
}

/// Gives the superuser its first password. Returns false, and changes nothing, if it has one: what
/// the environment says at a later start does not undo a change of the password.
///
/// # Errors
/// If the verifier could not be stored.
pub async fn set_first_password(database: &Database, password: &str) -> Result<bool> {
    if has_password(database) {
        return Ok(false);
    }
    set_password(database, password).await.map(|()| true)
}

fn has_password(database: &Database) -> bool {
    database.role(BOOTSTRAP_ROLE).is_some_and(|role| role.password.is_some())
}

/// The statement contains the verifier, never the password itself.
async fn set_password(database: &Database, password: &str) -> Result<()> {
    let verifier = ScramVerifier::of_password(password, database.env().random.as_ref());
    let statement = format!("ALTER ROLE {BOOTSTRAP_ROLE} PASSWORD '{}'", verifier.to_text());
    database.internal_session().execute(&statement).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{AuthConfig, Users};

    fn policy(listen: &str) -> Policy {
        Policy::new(AuthConfig::Auto, &[listen.parse().unwrap()]).unwrap()
    }

    #[tokio::test]
    async fn it_is_made_once_and_lets_in() {
        let database = Database::in_memory().unwrap();
        let open = policy("0.0.0.0:7471");
        assert_eq!(administrator_password(&database, policy("127.0.0.1:1")).await.unwrap(), None);
        let password = administrator_password(&database, open).await.unwrap().unwrap();
        assert_eq!(password.len(), LENGTH);
        assert_eq!(administrator_password(&database, open).await.unwrap(), None);
        let users = Users::new(database, std::time::Duration::from_secs(30));
        let peer = std::net::IpAddr::from([10, 0, 0, 1]);
        assert!(users.check_password(BOOTSTRAP_ROLE, &password, peer).await.is_ok());
        assert!(users.check_password(BOOTSTRAP_ROLE, "guess", peer).await.is_err());
    }

    #[tokio::test]
    async fn a_chosen_password_is_set_only_once() {
        let database = Database::in_memory().unwrap();
        assert!(set_first_password(&database, "it's").await.unwrap());
        assert!(!set_first_password(&database, "other").await.unwrap());
        assert_eq!(administrator_password(&database, policy("0.0.0.0:1")).await.unwrap(), None);
        let users = Users::new(database, std::time::Duration::from_secs(30));
        let peer = std::net::IpAddr::from([10, 0, 0, 1]);
        assert!(users.check_password(BOOTSTRAP_ROLE, "it's", peer).await.is_ok());
    }
}
