# Functions for a service that is installed: systemd runs it where systemd runs, otherwise its
# command runs as the user of its unit.
unit=/usr/lib/systemd/system/thalweg.service
log=/var/log/thalweg/thalweg.log
main=

fail() {
    echo "failed: $1"
    [ ! -f "$log" ] || tail -n 20 "$log"
    exit 1
}

systemd_runs() {
    [ -d /run/systemd/system ]
}

field() {
    sed -n "s/^$1=//p" "$unit"
}

# The answer to a health check, empty while nothing listens.
health() {
    (exec 3<> /dev/tcp/127.0.0.1/7472 && printf 'GET /health/ready HTTP/1.0\r\n\r\n' >&3 &&
        head -n 1 <&3) 2> /dev/null || true
}

wait_until_ready() {
    for _ in $(seq 300); do
        case $(health) in *" 200 "*) return ;; esac
        sleep 0.1
    done
    fail "the server is not ready"
}

main_process() {
    if systemd_runs; then systemctl show --property MainPID --value thalweg; else echo "$main"; fi
}

start() {
    if systemd_runs; then
        systemctl start thalweg
    else
        # Word splitting makes arguments of the command, as systemd does.
        # shellcheck disable=SC2046
        setpriv --reuid "$(field User)" --regid "$(field Group)" --init-groups --no-new-privs \
            --bounding-set=-all --inh-caps=-all $(field ExecStart) >> "$log" 2>&1 &
        main=$!
    fi
    wait_until_ready
    [ "$(awk '/^Uid:/ { print $2 }' "/proc/$(main_process)/status")" = "$(id -u thalweg)" ] ||
        fail "the server does not run as the user thalweg"
    grep -q 'CapBnd:.*0000000000000000' "/proc/$(main_process)/status" ||
        fail "the server has capabilities"
    echo "shown: ExecStart runs as the user thalweg"
}

stop() {
    if systemd_runs; then
        systemctl stop thalweg
        [ "$(systemctl show --property Result --value thalweg)" = success ] || fail "the stop"
    else
        kill -TERM "$main"
        wait "$main" || fail "the server ends with $?"
    fi
    [ -z "$(health)" ] || fail "the server still answers"
    echo "shown: SIGTERM ends the server with status 0"
}

# Checks of files and the user that both kinds of packages install.
check_installed() {
    [ "$(stat -c %U:%a /var/lib/thalweg)" = thalweg:700 ] || fail "the data directory"
    [ "$(stat -c %U:%a /var/log/thalweg)" = root:750 ] || fail "the directory of logs"
    getent passwd thalweg | grep -q '/usr/sbin/nologin$' || fail "the user"
    [ -x /usr/bin/thalweg ] || fail "the program"
    if command -v systemd-analyze > /dev/null; then
        # A field that systemd does not know is a warning, and no failure, to this tool.
        systemd-analyze verify "$unit" > /mnt/verify 2>&1 || fail "verify: $(cat /mnt/verify)"
        ! grep thalweg /mnt/verify || fail "systemd-analyze verify warns"
        echo "shown: systemd-analyze verify finds nothing"
    else
        echo "skipped: no systemd-analyze"
    fi
    if command -v logrotate > /dev/null; then
        logrotate --debug /etc/logrotate.d/thalweg > /mnt/logrotate 2>&1 || fail "logrotate"
        ! grep -i error /mnt/logrotate || fail "logrotate"
        echo "shown: logrotate takes its configuration"
    else
        echo "skipped: no logrotate"
    fi
}

edit_config() {
    sed -i 's/^durability = .*/durability = "write"/' /etc/thalweg/thalweg.toml
}

check_edited() {
    grep -q '^durability = "write"' "$1" || fail "$1 lost what was edited"
    ! grep -q 'next version' "$1" || fail "$1 was replaced"
    grep -q 'next version' "$2" || fail "the new configuration is not at $2"
    echo "shown: the upgrade keeps the edited configuration"
}
