#!/usr/bin/env bash
# Installs, upgrades, removes and purges the packages /mnt/first.deb and /mnt/second.deb.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
. /mnt/service.sh

dpkg --install /mnt/first.deb
check_installed
start
before=$(main_process)
edit_config
# What unattended upgrades do with a configuration that both sides changed.
dpkg --force-confdef --force-confold --install /mnt/second.deb < /dev/null
[ "$(dpkg-query --show --showformat '${Version}' thalweg)" = 0.0.2 ] || fail "the version"
check_edited /etc/thalweg/thalweg.toml /etc/thalweg/thalweg.toml.dpkg-dist
if systemd_runs; then
    wait_until_ready
    [ "$(main_process)" != "$before" ] || fail "the upgrade did not restart the server"
    echo "shown: the upgrade restarts the server"
else
    stop
    start
fi
stop

dpkg --remove thalweg
[ ! -e /usr/bin/thalweg ] || fail "the program stays"
[ -f /etc/thalweg/thalweg.toml ] || fail "removal took the configuration"
dpkg --purge thalweg
[ ! -e /etc/thalweg/thalweg.toml ] || fail "purge left the configuration"
[ ! -e /var/log/thalweg ] || fail "purge left logs"
[ -s /var/lib/thalweg/FORMAT ] || fail "purge took the database"
echo "shown: removal keeps the configuration, purge keeps the database"
