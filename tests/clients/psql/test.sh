#!/usr/bin/env bash
# psql: scripts, variables, \copy, and the commands that describe what is there.
set -u
export PSQLRC=/dev/null PAGER=cat
number=0

# Runs psql on a script; takes what it printed as aligned-off text.
sql() {
    psql --no-align --tuples-only --quiet --set ON_ERROR_STOP=1 "$@" 2>&1
}

# check NAME WANTED [ARGUMENT...]: the script on standard input prints exactly this.
check() {
    local name=$1 wanted=$2 found
    shift 2
    number=$((number + 1))
    if found=$(sql "$@") && [ "$found" = "$wanted" ]; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        printf 'found:\n%s\nwanted:\n%s\n' "$found" "$wanted" | sed 's/^/#   /'
    fi
}

# tells NAME PATTERN...: what the script prints has a line that matches each pattern.
tells() {
    local name=$1 found pattern missing=
    shift
    number=$((number + 1))
    found=$(psql --quiet --set ON_ERROR_STOP=1 2>&1) || missing="no error"
    for pattern in "$@"; do
        grep -Eq -- "$pattern" <<< "$found" || missing=${missing:-$pattern}
    done
    if [ -z "$missing" ]; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        printf 'wanted %s in:\n%s\n' "$missing" "$found" | sed 's/^/#   /'
    fi
}

echo "# $(psql --version)"

sql << 'SQL' > /dev/null || echo "# the tables could not be made"
DROP VIEW IF EXISTS low;
DROP TABLE IF EXISTS stations;
CREATE TABLE stations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name varchar(40) NOT NULL UNIQUE,
    height numeric(8, 2) DEFAULT 0 CHECK (height >= 0),
    seen timestamptz
);
CREATE VIEW low AS SELECT name FROM stations WHERE height < 10;
INSERT INTO stations (name, height) VALUES ('Kaub', 67.5), ('Emmerich', 8);
SQL

check "a query with a variable" "Kaub|67.50" -v name=Kaub << 'SQL'
SELECT name, height FROM stations WHERE name = :'name';
SQL

check "one transaction for a script" "" --single-transaction << 'SQL'
INSERT INTO stations (name) VALUES ('Worms');
DELETE FROM stations WHERE name = 'Worms';
SQL

check "a statement is prepared and run" "8.00" << 'SQL'
PREPARE height_of (text) AS SELECT height FROM stations WHERE name = $1;
EXECUTE height_of ('Emmerich');
SQL

check "rows become variables" "2 stations" << 'SQL'
SELECT count(*) AS rows FROM stations \gset
\echo :rows stations
SQL

check "rows become statements" "1
2" << 'SQL'
SELECT format('SELECT %s', n) FROM (VALUES (1), (2)) AS v(n) ORDER BY n \gexec
SQL

check "a result is described" "id|bigint
name|character varying(40)
height|numeric(8,2)" << 'SQL'
SELECT id, name, height FROM stations \gdesc
SQL

check "rows are fetched in parts" "500500" << 'SQL'
\set FETCH_COUNT 100
SELECT sum(i) FROM generate_series(1, 1000) AS s(i);
SQL

file=$(mktemp)
check "tables are copied to files and back" "2|2" << SQL
\\copy (SELECT name, height FROM stations ORDER BY name) TO '$file' CSV HEADER
CREATE TABLE IF NOT EXISTS copies (name text, height numeric);
DELETE FROM copies;
\\copy copies FROM '$file' CSV HEADER
SELECT (SELECT count(*) FROM copies), (SELECT count(*) FROM copies JOIN stations USING (name));
SQL
rm -f "$file"

check "an error points at its place" 'ERROR:  column "nothing" does not exist
LINE 1: SELECT 1, nothing FROM stations;
                  ^
after' -v ON_ERROR_STOP=0 << 'SQL'
SELECT 1, nothing FROM stations;
\echo after
SQL

tells 'the timing and the connection' 'Time: [0-9.]+ ms' 'You are connected to database' << 'SQL'
\timing on
SELECT 1;
\conninfo
SQL

tells '\l lists databases' '^ thalweg ' << 'SQL'
\l
SQL

tells '\dn lists schemas' 'public' << 'SQL'
\dn
SQL

tells '\dt lists tables' '^ public \| stations +\| table \| thalweg' << 'SQL'
\dt
SQL

tells '\dt with a pattern' '^ public \| stations' << 'SQL'
\dt public.stat*
SQL

tells '\dv lists views' '^ public \| low +\| view ' << 'SQL'
\dv
SQL

tells '\d lists relations' '\| low +\| view' '\| stations +\| table' << 'SQL'
\d
SQL

sql << 'SQL' > /dev/null || echo "# the tables with a foreign key could not be made"
DROP TABLE IF EXISTS readings, gauges;
CREATE TABLE gauges (id int PRIMARY KEY);
CREATE TABLE readings (id int PRIMARY KEY, gauge int REFERENCES gauges);
SQL

tells '\d shows foreign keys' 'FOREIGN KEY \(gauge\) REFERENCES gauges\(id\)' << 'SQL'
\d readings
SQL

tells '\d shows who refers to a table' 'TABLE "readings" CONSTRAINT' << 'SQL'
\d gauges
SQL

tells '\d describes a table' ' id +\| bigint +\| +\| not null \| generated always as identity' \
    ' name +\| character varying\(40\) +\| +\| not null' ' height +\| numeric\(8,2\) .* 0' \
    ' seen +\| timestamp with time zone' 'PRIMARY KEY.*\(id\)' 'UNIQUE.*\(name\)' 'CHECK' << 'SQL'
\d stations
SQL

tells '\d+ describes a view' ' name +\| character varying' 'height' << 'SQL'
\d+ low
SQL

tells '\du lists roles' '^ thalweg +\| Superuser' << 'SQL'
\du
SQL

tells '\drds lists defaults of settings' ' thalweg +\| thalweg +\| work_mem=2MB' << 'SQL'
ALTER ROLE thalweg IN DATABASE thalweg SET work_mem = '2MB';
\drds
ALTER ROLE thalweg IN DATABASE thalweg RESET ALL;
SQL

tells '\df lists functions' 'List of functions' << 'SQL'
\df
SQL

tells '\df finds a function of the system' 'pg_catalog \| lower' << 'SQL'
\df lower
SQL

tells '\di, \ds, \dm and \dp answer' 'Schema' << 'SQL'
\di
\ds
\dm
\dp
SQL

tells '\sv shows a view' 'CREATE OR REPLACE VIEW public.low' << 'SQL'
\sv low
SQL

echo "1..$number"
