//! The parts of a request before its body: who sends it, where to, and the unit of its times.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Uri};
use thalweg_types::{Error, Result, SqlState};

use super::answers::Api;
use super::{invalid, query_of};
use crate::credentials::Credentials;
use crate::values::without_zero;

/// Parameters of the URL's query string. Others, such as `org`, have no meaning here.
pub(super) struct Parameters(Vec<(String, String)>);

/// The unit of a request's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Nanoseconds,
    /// Multiples of a microsecond.
    Microseconds(i64),
}

/// The time of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Whole microseconds since 1970, rounded down.
    pub(super) micros: i64,
    /// Nanoseconds after them, less than 1,000.
    pub(super) nanos: i64,
}

impl Unit {
    /// The time of a timestamp; `None` if it is out of range.
    pub(super) fn moment(self, timestamp: i64) -> Option<Moment> {
        match self {
            Unit::Nanoseconds => {
                let (micros, nanos) = (timestamp.div_euclid(1_000), timestamp.rem_euclid(1_000));
                Some(Moment { micros, nanos })
            }
            Unit::Microseconds(factor) => {
                timestamp.checked_mul(factor).map(|micros| Moment { micros, nanos: 0 })
            }
        }
    }
}

impl Parameters {
    pub(super) fn read(uri: &Uri) -> Result<Parameters> {
        query_of(uri).map(Parameters)
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The credentials of the header, or else of the parameters `u` and `p`.
    pub(super) fn credentials(&self, headers: &HeaderMap) -> Result<Option<Credentials>> {
        if let Some(header) = headers.get(AUTHORIZATION) {
            return match token(header.as_bytes()) {
                None => Credentials::read(header.as_bytes()).map(Some),
                Some(token) => of_token(token).map(Some),
            };
        }
        Ok(self.get("u").map(|user| Credentials::Basic {
            user: user.to_owned(),
            password: self.get("p").unwrap_or_default().to_owned(),
        }))
    }

    /// The namespace that the request names: a bucket, or a database. The name of a retention
    /// policy behind a slash has no meaning.
    pub(super) fn namespace(&self, api: Api) -> Result<String> {
        let name = api.namespace_parameter();
        let value = self.get(name).ok_or_else(|| invalid(format!("{name} is required")))?;
        without_zero(value)?;
        Ok(value.split('/').next().unwrap_or_default().to_owned())
    }

    pub(super) fn unit(&self) -> Result<Unit> {
        Ok(match self.get("precision").unwrap_or("ns") {
            "ns" | "n" => Unit::Nanoseconds,
            "us" | "u" | "µ" | "µs" => Unit::Microseconds(1),
            "ms" => Unit::Microseconds(1_000),
            "s" => Unit::Microseconds(1_000_000),
            "m" => Unit::Microseconds(60_000_000),
            "h" => Unit::Microseconds(3_600_000_000),
            other => {
                return Err(invalid(format!("invalid precision \"{other}\""))
                    .with_hint("Available values: ns, us, ms, s, m, h."));
            }
        })
    }
}

/// The token of a header with the scheme of InfluxDB.
fn token(header: &[u8]) -> Option<&str> {
    let (scheme, token) = str::from_utf8(header).ok()?.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("token").then_some(token.trim())
}

fn of_token(token: &str) -> Result<Credentials> {
    let (user, password) = token.split_once(':').ok_or_else(|| {
        let message = "the token cannot be read";
        Error::new(SqlState::INVALID_AUTHORIZATION, message)
            .with_hint("Give a role and its password as the token: USER:PASSWORD.")
    })?;
    Ok(Credentials::Basic { user: user.to_owned(), password: password.to_owned() })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn parameters(query: &str) -> Parameters {
        Parameters::read(&format!("/write?{query}").parse().unwrap()).unwrap()
    }

    fn basic(query: &str, header: Option<&'static str>) -> Result<Option<String>> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(AUTHORIZATION, HeaderValue::from_static(header));
        }
        Ok(parameters(query).credentials(&headers)?.map(|credentials| match credentials {
            Credentials::Basic { user, password } => format!("{user}/{password}"),
            Credentials::Bearer(token) => token,
        }))
    }

    #[test]
    fn credentials_come_in_headers_and_parameters() {
        for (query, header, expected) in [
            ("", None, None),
            ("u=eve&p=a%3Ab", None, Some("eve/a:b")),
            ("u=eve", None, Some("eve/")),
            ("u=eve&p=x", Some("Token bob:a:b"), Some("bob/a:b")),
            ("", Some("token  bob: "), Some("bob/")),
            ("", Some("Basic ZXZlOmE6Yg=="), Some("eve/a:b")),
            ("", Some("Bearer abc"), Some("abc")),
        ] {
            assert_eq!(basic(query, header).unwrap().as_deref(), expected, "{query} {header:?}");
        }
        for header in ["Token abc", "Token", "Digest x"] {
            assert_eq!(basic("", Some(header)).unwrap_err().state().0, "28000", "{header}");
        }
    }

    #[test]
    fn units_and_namespaces() {
        for (precision, timestamp, moment) in [
            ("", 1_999, Some((1, 999))),
            ("ns", -1, Some((-1, 999))),
            ("ns", i64::MIN, Some((-9_223_372_036_854_776, 192))),
            ("us", 5, Some((5, 0))),
            ("ms", 5, Some((5_000, 0))),
            ("s", 5, Some((5_000_000, 0))),
            ("h", 1, Some((3_600_000_000, 0))),
            ("s", i64::MAX, None),
        ] {
            let unit = parameters(&format!("precision={precision}")).unit().unwrap();
            let found = unit.moment(timestamp).map(|Moment { micros, nanos }| (micros, nanos));
            assert_eq!(found, moment, "{precision}");
        }
        assert!(parameters("precision=years").unit().is_err());
        let namespace = |query: &str, api| parameters(query).namespace(api);
        assert_eq!(namespace("bucket=b%2Fautogen", Api::V2).unwrap(), "b");
        assert_eq!(namespace("db=telegraf&rp=x", Api::V1).unwrap(), "telegraf");
        assert!(namespace("db=x", Api::V2).is_err());
        assert!(namespace("db=", Api::V1).is_err());
    }
}
