#!/usr/bin/env bash
# Installs the tools that build the console's page and test it in a browser, as far as package
# managers are here: by apt-get for root. Ends with 1 if one is missing afterwards; the gate then
# leaves its part out.
set -uo pipefail

has() {
    command -v "$1" > /dev/null
}

has_browser() {
    has chromium || has chromium-browser || has google-chrome
}

packages=()
has node || packages+=(nodejs)
has npm || packages+=(npm)
# The page is drawn with a font of the system.
has_browser || packages+=(chromium fonts-dejavu-core)
if [ ${#packages[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && has apt-get; then
    export DEBIAN_FRONTEND=noninteractive
    # Lists of packages may be missing or old.
    apt-get update > /dev/null
    apt-get install --yes --no-install-recommends "${packages[@]}" > /dev/null
fi

missing=()
for tool in node npm; do
    has "$tool" || missing+=("$tool")
done
has_browser || missing+=(chromium)
if [ ${#missing[@]} -gt 0 ]; then
    echo "tests of the console miss: ${missing[*]}"
    exit 1
fi
