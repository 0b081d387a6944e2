#!/usr/bin/env bash
# Installs, upgrades and removes the packages /mnt/first.rpm and /mnt/second.rpm.
set -euo pipefail
. /mnt/service.sh

# The database of packages is that of another system where this one has none of its own.
flags=--nodeps
if [ -f /etc/debian_version ]; then flags="$flags --force-debian"; fi
rpm --initdb
# shellcheck disable=SC2086
{
    rpm --install $flags /mnt/first.rpm
    check_installed
    start
    edit_config
    rpm --upgrade $flags /mnt/second.rpm
    [ "$(rpm --query --queryformat '%{VERSION}' thalweg)" = 0.0.2 ] || fail "the version"
    check_edited /etc/thalweg/thalweg.toml /etc/thalweg/thalweg.toml.rpmnew
    if ! systemd_runs; then stop; start; fi
    stop
    rpm --erase --nodeps thalweg
}
[ ! -e /usr/bin/thalweg ] || fail "the program stays"
check_edited /etc/thalweg/thalweg.toml.rpmsave /etc/thalweg/thalweg.toml.rpmnew
[ -s /var/lib/thalweg/FORMAT ] || fail "removal took the database"
echo "shown: removal keeps the edited configuration and the database"
