#!/usr/bin/env bash
# pg_dump, pg_restore, pg_dumpall and pgbench, as PostgreSQL's packages bring them.
set -u
export PSQLRC=/dev/null PAGER=cat
number=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

report() {
    number=$((number + 1))
    if [ "$1" = 0 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        tail -20 "$work/log" | sed 's/^/#   /'
    fi
}

# has FILE NAME PATTERN...: the file has a line for each pattern.
has() {
    local file=$1 name=$2 pattern missing=0
    shift 2
    : > "$work/log"
    for pattern in "$@"; do
        grep -Eq -- "$pattern" "$file" || { missing=1; echo "no line: $pattern" >> "$work/log"; }
    done
    report $missing "$name"
}

echo "# $(pg_dump --version)"
psql --quiet --set ON_ERROR_STOP=1 > "$work/log" 2>&1 << 'SQL'
CREATE SCHEMA dumped;
CREATE SEQUENCE dumped.tickets START 5 INCREMENT 2;
CREATE TABLE dumped.people (
    id integer PRIMARY KEY,
    ticket bigint DEFAULT nextval('dumped.tickets'),
    name text NOT NULL UNIQUE,
    age integer CONSTRAINT of_age CHECK (age > 0)
);
CREATE INDEX people_age ON dumped.people (age);
CREATE VIEW dumped.names AS SELECT name FROM dumped.people;
CREATE TABLE dumped.numbered (id bigint GENERATED ALWAYS AS IDENTITY (INCREMENT 5), note text);
CREATE TABLE dumped.counted (id serial PRIMARY KEY, person integer REFERENCES dumped.people);
COMMENT ON TABLE dumped.people IS 'all people';
COMMENT ON COLUMN dumped.people.name IS 'a name';
COMMENT ON CONSTRAINT of_age ON dumped.people IS 'a check';
CREATE ROLE dump_reader;
GRANT USAGE ON SCHEMA dumped TO dump_reader;
GRANT SELECT ON dumped.people TO dump_reader;
INSERT INTO dumped.people (id, name, age) VALUES (1, 'Ann', 30), (2, E'Bo\tb', NULL);
INSERT INTO dumped.numbered (note) VALUES ('first'), (NULL);
INSERT INTO dumped.counted (person) VALUES (1), (2), (2);
SQL
report $? "the objects are made"

pg_dump --schema=dumped > "$work/all.sql" 2> "$work/log"
report $? "pg_dump"
has "$work/all.sql" "the dump has the objects, their comments and grants" \
    '^CREATE TABLE dumped.people' '^CREATE SEQUENCE dumped.tickets' '^CREATE VIEW dumped.names' \
    '^CREATE INDEX people_age' 'CONSTRAINT of_age CHECK' 'people_pkey PRIMARY KEY \(id\)' \
    "^COMMENT ON TABLE dumped.people IS 'all people';" \
    "^COMMENT ON COLUMN dumped.people.name IS 'a name';" \
    "^COMMENT ON CONSTRAINT of_age ON dumped.people IS 'a check';" \
    '^GRANT USAGE ON SCHEMA dumped TO dump_reader;' \
    '^GRANT SELECT ON TABLE dumped.people TO dump_reader;' \
    'ADD GENERATED ALWAYS AS IDENTITY' \
    "setval\('dumped.tickets', 7, true\)" "setval\('dumped.numbered_id_seq', 6, true\)" \
    "setval\('dumped.counted_id_seq', 3, true\)" "nextval\('dumped.counted_id_seq'::regclass\)"
if grep -q '^REVOKE' "$work/all.sql"; then
    echo 'the owner lost privileges in the dump' > "$work/log"
    report 1 "the owner keeps its privileges"
else
    report 0 "the owner keeps its privileges"
fi
pg_dump --schema=dumped --schema-only > "$work/schema.sql" 2> "$work/log"
report $? "pg_dump --schema-only"
pg_dump --schema=dumped --data-only > "$work/data.sql" 2> "$work/log"
report $? "pg_dump --data-only"

pg_dump --schema=dumped --inserts > "$work/inserts.sql" 2> "$work/log"
report $? "pg_dump --inserts"
pg_dump --schema=dumped --format=custom > "$work/all.custom" 2> "$work/log"
report $? "pg_dump --format=custom"

# restored NAME COMMAND...: the command, with the dump as its input, makes the objects again.
restored() {
    local name=$1 found
    shift
    psql --quiet -c 'DROP SCHEMA dumped CASCADE' > "$work/log" 2>&1
    "$@" > "$work/log" 2>&1
    report $? "$name is restored"
    found=$(psql --no-align --tuples-only \
        -c "INSERT INTO dumped.numbered (note) VALUES ('third') RETURNING id" \
        -c "INSERT INTO dumped.counted (person) VALUES (1) RETURNING id" \
        -c "SELECT count(*) FROM dumped.names" \
        -c "SELECT pg_get_serial_sequence('dumped.counted', 'id')" 2>&1 | grep -v '^INSERT')
    echo "$found" > "$work/log"
    [ "$found" = "$(printf '11\n4\n2\ndumped.counted_id_seq')" ]
    report $? "the numbers go on behind $name"
}
restored "a dump" psql --quiet --set ON_ERROR_STOP=1 --file "$work/all.sql"
restored "a dump of INSERTs" psql --quiet --set ON_ERROR_STOP=1 --file "$work/inserts.sql"
restored "a custom dump" pg_restore --exit-on-error --dbname "$PGDATABASE" "$work/all.custom"

pg_dump --table=dumped.people --table=dumped.tickets --no-privileges \
    > "$work/table.sql" 2> "$work/log"
report $? "pg_dump of one table"
psql --quiet -c 'DROP SCHEMA dumped CASCADE' -c 'CREATE SCHEMA dumped' > "$work/log" 2>&1
psql --quiet --set ON_ERROR_STOP=1 --file "$work/table.sql" > "$work/log" 2>&1
report $? "a dump is restored"
found=$(psql --no-align --tuples-only \
    -c "SELECT id, ticket, age FROM dumped.people ORDER BY 1" \
    -c "SELECT obj_description('dumped.people'::regclass)" \
    -c "SELECT nextval('dumped.tickets')" 2>&1)
echo "$found" > "$work/log"
[ "$found" = "$(printf '1|5|30\n2|7|\nall people\n9')" ]
report $? "the restored table has its rows, its comment and the position of its sequence"
psql --quiet -c 'DROP SCHEMA dumped CASCADE' -c 'DROP ROLE dump_reader' > "$work/log" 2>&1

pg_dumpall --roles-only --no-role-passwords > "$work/roles.sql" 2> "$work/log"
report $? "pg_dumpall --roles-only"
pg_dumpall --no-role-passwords > "$work/cluster.sql" 2> "$work/log"
report $? "pg_dumpall"

pgbench --initialize --quiet > "$work/log" 2>&1
report $? "pgbench --initialize"
for protocol in simple extended prepared; do
    for script in tpcb-like select-only; do
        pgbench --no-vacuum --builtin="$script" --protocol="$protocol" --transactions=20 \
            --client=2 > "$work/log" 2>&1 && grep -q 'actually processed: 40/40' "$work/log"
        report $? "pgbench --builtin=$script --protocol=$protocol"
    done
done
pgbench --transactions=20 --vacuum-all > "$work/log" 2>&1
report $? "pgbench with VACUUM ANALYZE"
psql --quiet -c 'DROP TABLE pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers' \
    > "$work/log" 2>&1
echo "1..$number"
