//! The startup phase of a connection: TLS, the startup message, and authentication.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use pgwire::api::DefaultClient;
use pgwire::api::auth::mechanism::{AuthMechanism, AuthMechanismFactory, AuthState};
use pgwire::api::auth::sasl::scram::{ScramAuth, ScramSecret};
use pgwire::api::auth::{AuthSource, LoginInfo, Password};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::startup::{
    Authentication, PasswordMessageFamily, SASLInitialResponse, SASLResponse,
};
use thalweg_types::{Error, Result, SqlState};

use super::message::{self, violation};
use super::wire::{Stream, Wire};
use crate::auth::{Identity, Method, Users, refused};
use crate::shared::Shared;

/// Maximum length of a message before authentication.
const STARTUP_BYTES_MAX: usize = 10_000;

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;

/// The purpose of a new connection.
pub(super) enum Start {
    Session(Hello),
    /// A request to cancel another connection's statement.
    Cancel {
        id: i32,
        secret: i32,
    },
    /// The client disconnected.
    Gone,
}

/// A client's startup message.
pub(super) struct Hello {
    pub(super) user: String,
    pub(super) settings: BTreeMap<String, String>,
    /// Protocol options that the server does not know. Set if the client must be told: it uses such
    /// options, or a version later than 3.0.
    unknown: Option<Vec<String>>,
}

impl Hello {
    /// # Errors
    /// If the bytes are no startup message, or one of another major version than 3.
    pub(super) fn parse(code: u32, body: &[u8]) -> Result<Hello> {
        let (major, minor) = (code >> 16, code & 0xffff);
        if major != 3 {
            let message =
                format!("unsupported frontend protocol {major}.{minor}: server supports 3.0");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let mut settings = BTreeMap::new();
        let mut rest = body;
        while rest != [0] {
            let (name, after) = text(rest)?;
            let (value, after) = text(after)?;
            if name.is_empty() {
                return Err(no_terminator());
            }
            settings.insert(utf8(name)?, utf8(value)?);
            rest = after;
        }
        let options: Vec<String> =
            settings.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
        settings.retain(|name, _| !name.starts_with("_pq_."));
        let user = settings.remove("user").filter(|user| !user.is_empty());
        let user = user.ok_or_else(|| {
            let message = "no PostgreSQL user name specified in startup packet";
            Error::new(SqlState::INVALID_AUTHORIZATION, message)
        })?;
        let unknown = (minor > 0 || !options.is_empty()).then_some(options);
        Ok(Hello { user, settings, unknown })
    }
}

/// The reason why a connection was not opened.
pub(super) enum Failure {
    /// The error is sent to the client.
    Refused(Error),
    /// The client disconnected.
    Gone,
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Failure {
        Failure::Gone
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Refused(error)
    }
}

/// Reads the startup message, after switching to TLS if the client requests it.
pub(super) async fn read_first_message(
    shared: &Shared,
    mut wire: Wire,
    peer: SocketAddr,
) -> (Wire, std::result::Result<Start, Failure>) {
    loop {
        let (code, body) = match first(&mut wire).await {
            Ok(Some(first)) => first,
            Ok(None) => return (wire, Ok(Start::Gone)),
            Err(failure) => return (wire, Err(failure)),
        };
        match code {
            SSL_REQUEST => match to_tls(shared, wire).await {
                Ok(secured) => wire = secured,
                Err((wire, failure)) => return (wire, Err(failure)),
            },
            GSS_REQUEST => {
                wire.replies.bytes.push(b'N');
                if let Err(error) = wire.flush().await {
                    return (wire, Err(error.into()));
                }
            }
            CANCEL_REQUEST => {
                let start = match *body {
                    [a, b, c, d, e, f, g, h] => Start::Cancel {
                        id: i32::from_be_bytes([a, b, c, d]),
                        secret: i32::from_be_bytes([e, f, g, h]),
                    },
                    // A malformed cancel request gets no answer, since its client does not wait for
                    // one.
                    _ => Start::Gone,
                };
                return (wire, Ok(start));
            }
            code => {
                let hello = hello(shared, &mut wire, code, &body, peer);
                return (wire, hello.map(Start::Session).map_err(Failure::Refused));
            }
        }
    }
}

/// The first message's code and body; `None` if the client disconnected.
async fn first(wire: &mut Wire) -> std::result::Result<Option<(u32, Bytes)>, Failure> {
    loop {
        if let Some(message) = split(&mut wire.input)? {
            return Ok(Some(message));
        }
        if !wire.read().await? {
            return Ok(None);
        }
    }
}

/// Splits one complete startup message off the front of the input: its code and its body. These
/// messages have no kind byte.
pub(super) fn split(input: &mut BytesMut) -> Result<Option<(u32, Bytes)>> {
    let Some(length) = input.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if !(8..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(violation("invalid length of startup packet".to_owned()));
    }
    if input.len() < length {
        return Ok(None);
    }
    let mut message = input.split_to(length).freeze();
    message.advance(4);
    Ok(Some((message.get_u32(), message)))
}

async fn to_tls(shared: &Shared, mut wire: Wire) -> std::result::Result<Wire, (Wire, Failure)> {
    let Some(tls) = &shared.tls else {
        wire.replies.bytes.push(b'N');
        return match wire.flush().await {
            Ok(()) => Ok(wire),
            Err(error) => Err((wire, error.into())),
        };
    };
    if !wire.input.is_empty() {
        // Bytes sent before encryption must not be treated as encrypted ones (command injection).
        let error = violation("received unencrypted data after SSL request".to_owned());
        return Err((wire, error.into()));
    }
    wire.replies.bytes.push(b'S');
    if let Err(error) = wire.flush().await {
        return Err((wire, error.into()));
    }
    match wire.into_stream() {
        Stream::Plain(stream) => {
            let accepted = tls.acceptor.accept(stream).into_fallible().await;
            match accepted {
                Ok(stream) => Ok(Wire::new(Stream::Tls(Box::new(stream)))),
                Err((error, stream)) => Err((Wire::new(Stream::Plain(stream)), error.into())),
            }
        }
        secured @ Stream::Tls(_) => {
            let error = violation("the connection is encrypted already".to_owned());
            Err((Wire::new(secured), error.into()))
        }
    }
}

fn hello(
    shared: &Shared,
    wire: &mut Wire,
    code: u32,
    body: &Bytes,
    peer: SocketAddr,
) -> Result<Hello> {
    let hello = Hello::parse(code, body)?;
    if let Some(unknown) = &hello.unknown {
        wire.replies.negotiate(&unknown.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let is_local = peer.ip().to_canonical().is_loopback();
    if shared.config.tls.required && !is_local && !wire.is_secure() {
        let message = "this server takes encrypted connections only";
        return Err(Error::new(SqlState::INVALID_AUTHORIZATION, message)
            .with_hint("Connect with sslmode=require."));
    }
    Ok(hello)
}

/// A zero-terminated text and the bytes after it, which must not be empty.
fn text(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0).filter(|end| *end + 1 < bytes.len());
    let end = end.ok_or_else(no_terminator)?;
    Ok((&bytes[..end], &bytes[end + 1..]))
}

fn no_terminator() -> Error {
    violation("invalid startup packet layout: expected terminator as last byte".to_owned())
}

fn utf8(bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes).map(str::to_owned);
    text.map_err(|_| violation("the startup packet is not UTF-8".to_owned()))
}

/// Authenticates the client.
pub(super) async fn authenticate(
    shared: &Shared,
    wire: &mut Wire,
    user: &str,
    peer: SocketAddr,
) -> std::result::Result<Identity, Failure> {
    let identity = match shared.policy.method(peer.ip()) {
        Method::Trust => shared.users.admit(user)?,
        Method::Password => {
            scram(shared, wire, user, peer).await?;
            shared.users.succeeded(user, peer.ip());
            shared.users.admit(user)?
        }
    };
    wire.replies.authentication(0, &[]);
    Ok(identity)
}

/// Runs a SCRAM-SHA-256 exchange, with `pgwire`. The client's second response contains the proof,
/// so only that one counts as a guess. A client that leaves earlier or breaks the protocol has
/// learnt nothing, and must not delay its user's logins.
async fn scram(
    shared: &Shared,
    wire: &mut Wire,
    user: &str,
    peer: SocketAddr,
) -> std::result::Result<(), Failure> {
    let verifiers = Verifiers { users: Arc::clone(&shared.users) };
    let mut auth: ScramAuth = ScramAuth::new(Arc::new(verifiers));
    if let Some(tls) = shared.tls.as_ref().filter(|tls| tls.binds && wire.is_secure()) {
        let bound = auth.configure_certificate(&tls.certificate_pem);
        bound.map_err(|error| Error::internal(format!("TLS cannot be bound to: {error}")))?;
    }
    let mut client = DefaultClient::<()>::new(peer, wire.is_secure());
    client.metadata.insert("user".to_owned(), user.to_owned());
    let mut mechanism: Box<dyn AuthMechanism> = auth.create();
    let mut state = mechanism.begin(&client).await;
    let mut answers = 0;
    loop {
        match state {
            Ok(AuthState::InProgress(request)) => {
                ask(wire, &request);
                let answer = password_message(wire).await?;
                let answer = if answers == 0 { initial(answer)? } else { following(answer) };
                answers += 1;
                if answers == 2 {
                    // The second response contains the proof, so the password check follows.
                    wire.while_here(shared.users.attempt(user, peer.ip())).await??;
                }
                state = mechanism.next(&client, answer).await;
            }
            Ok(AuthState::Ok { final_message, .. }) => {
                if let Some(last) = final_message {
                    ask(wire, &last);
                }
                return Ok(());
            }
            Ok(AuthState::Failed(_)) | Err(_) => return Err(refused(user).into()),
        }
    }
}

fn ask(wire: &mut Wire, request: &Authentication) {
    match request {
        Authentication::SASL(names) => {
            let mut list = Vec::new();
            for name in names {
                list.extend_from_slice(name.as_bytes());
                list.push(0);
            }
            list.push(0);
            wire.replies.authentication(10, &list);
        }
        Authentication::SASLContinue(data) => wire.replies.authentication(11, data),
        Authentication::SASLFinal(data) => wire.replies.authentication(12, data),
        _ => {}
    }
}

async fn password_message(wire: &mut Wire) -> std::result::Result<Bytes, Failure> {
    loop {
        if let Some((kind, body)) = message::split(&mut wire.input, STARTUP_BYTES_MAX)? {
            return match kind {
                b'p' => Ok(body),
                _ => Err(violation("expected a password response".to_owned()).into()),
            };
        }
        if !wire.read().await? {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

/// Parses the client's first response: the chosen mechanism and its initial data.
pub(super) fn initial(body: Bytes) -> Result<PasswordMessageFamily> {
    let malformed = || violation("malformed SASL response".to_owned());
    let end = body.iter().position(|byte| *byte == 0).ok_or_else(malformed)?;
    let name = utf8(&body[..end])?;
    let mut rest = body.slice(end + 1..);
    if rest.len() < 4 {
        return Err(malformed());
    }
    let length = rest.get_i32();
    let data = usize::try_from(length).is_ok_and(|length| length == rest.len());
    if !data {
        return Err(malformed());
    }
    let response = SASLInitialResponse::new(name, Some(rest));
    Ok(PasswordMessageFamily::SASLInitialResponse(response))
}

fn following(body: Bytes) -> PasswordMessageFamily {
    PasswordMessageFamily::SASLResponse(SASLResponse::new(body))
}

/// Provides `pgwire` with the users' verifiers.
struct Verifiers {
    users: Arc<Users>,
}

impl std::fmt::Debug for Verifiers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifiers")
    }
}

#[async_trait]
impl AuthSource for Verifiers {
    async fn get_password(&self, _: &LoginInfo) -> PgWireResult<Password> {
        // The database stores verifiers only.
        Err(PgWireError::InvalidPassword(String::new()))
    }

    async fn get_scram_secret(&self, login: &LoginInfo) -> PgWireResult<(ScramSecret, Option<()>)> {
        let verifier = self.users.verifier(login.user().unwrap_or_default());
        let secret = ScramSecret::Verifier {
            salt: verifier.salt().to_vec(),
            iterations: verifier.iterations() as usize,
            stored_key: verifier.stored_key().to_vec(),
            server_key: verifier.server_key().to_vec(),
        };
        Ok((secret, None))
    }
}
