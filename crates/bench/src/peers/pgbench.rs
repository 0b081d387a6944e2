//! pgbench: many connections that send the same prepared statement.

use std::path::Path;

use thalweg_types::{Error, Result};

use super::daemon::Endpoint;
use super::postgres::Programs;

impl Programs {
    /// Rate of statements that a server answered, over `seconds`.
    pub fn pgbench(
        &self,
        server: &Endpoint,
        script: &Path,
        connections: usize,
        seconds: u64,
    ) -> Result<f64> {
        let (connections, seconds) = (connections.to_string(), seconds.to_string());
        let script = script.display().to_string();
        let arguments =
            ["-n", "-M", "prepared", "-f", &script, "-c", &connections, "-j", "2", "-T", &seconds];
        let printed = self.run("pgbench", server, &arguments)?;
        rate(&printed).ok_or_else(|| Error::internal("pgbench told no rate").with_detail(printed))
    }
}

fn rate(printed: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_told_without_the_time_to_connect() {
        let printed = "initial connection time = 8.7 ms\n\
            tps = 12345.500000 (without initial connection time)\n";
        assert_eq!(rate(printed), Some(12345.5));
        assert_eq!(rate("pgbench: error"), None);
    }
}
