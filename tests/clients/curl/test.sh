#!/usr/bin/env bash
# curl: what docs/http.md shows is run from there; here is whether the server answers at all.
set -u
url=http://127.0.0.1:$THALWEG_HTTP_PORT
number=0

# check NAME WANTED COMMAND...: the command prints exactly this.
check() {
    local name=$1 wanted=$2 found
    shift 2
    number=$((number + 1))
    if found=$("$@" 2>&1) && [ "$found" = "$wanted" ]; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        printf 'found:\n%s\nwanted:\n%s\n' "$found" "$wanted" | sed 's/^/#   /'
    fi
}

echo "# $(curl --version | head -n 1)"
check "the server is live" live curl -sS "$url/health/live"
check "a statement has rows" '{"one":1}' curl -sS "$url/sql" --data-binary 'SELECT 1 AS one'
check "points are written" 204 \
    curl -sS -o /dev/null -w '%{http_code}' "$url/write?db=public" --data-binary 'm v=1 1000'
check "a chunked body is written" '{"errors":[],"rejected":0,"rows":1}' \
    curl -sS -H 'Transfer-Encoding: chunked' -H 'Content-Type: text/csv' \
    "$url/tables/m?mode=upsert" --data-binary $'time,v\n2024-01-01,2\n'
echo "1..$number"
