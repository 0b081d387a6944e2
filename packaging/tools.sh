#!/usr/bin/env bash
# Installs the tools that tests of packages use, as far as package managers are here: by apt-get for
# root, Helm by Go. Ends with 1 if one is missing afterwards; the tests then leave its part out.
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin
tools=$HOME/.cache/thalweg/tools
helm=helm.sh/helm/v3/cmd/helm@v3.17.3

has() {
    command -v "$1" > /dev/null || [ -x "$tools/$1" ]
}

if [ "$(id -u)" = 0 ] && has apt-get && ! (has rpm && has logrotate && has systemd-nspawn); then
    export DEBIAN_FRONTEND=noninteractive
    # Lists of packages may be missing or old.
    apt-get update > /dev/null
    apt-get install --yes --no-install-recommends \
        iproute2 logrotate rpm systemd-container > /dev/null
fi
if ! has helm && has go; then
    mkdir -p "$tools"
    GOBIN=$tools go install "$helm"
fi

missing=()
for tool in dpkg helm ip logrotate rpm systemd-analyze systemd-nspawn unshare; do
    has "$tool" || missing+=("$tool")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "tests of packages miss: ${missing[*]}"
    exit 1
fi
