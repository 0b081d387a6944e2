// Checks of pgx, by itself and under database/sql: values, batches, COPY, transactions, errors.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
)

var ctx = context.Background()

type check struct {
	name string
	body func(*pgx.Conn) error
}

var checks = []check{
	{"values of every type", valuesOfEveryType},
	{"values of every type through a table", valuesThroughATable},
	{"the protocol of simple queries", simpleProtocol},
	{"every way to send a query", everyMode},
	{"rows become structs", rowsBecomeStructs},
	{"a batch answers in order", batch},
	{"a batch that fails is one transaction", failedBatch},
	{"rows are copied in", copyFrom},
	{"transactions and savepoints", transactions},
	{"errors have a code and a place", errorsHaveCodes},
	{"a query is cancelled", cancel},
	{"a pool serves many at once", pool},
	{"database/sql", databaseSQL},
}

func main() {
	fmt.Println("#", version())
	for at, check := range checks {
		if err := run(check); err != nil {
			fmt.Printf("not ok %d - %s\n", at+1, check.name)
			fmt.Println("#  ", strings.ReplaceAll(err.Error(), "\n", "\n#   "))
			continue
		}
		fmt.Printf("ok %d - %s\n", at+1, check.name)
	}
	fmt.Printf("1..%d\n", len(checks))
}

func run(check check) error {
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	// The address comes from PGHOST, PGPORT, PGUSER and PGDATABASE.
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return check.body(conn)
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/jackc/pgx/v5" {
			return fmt.Sprintf("pgx %s, %s", module.Version, info.GoVersion)
		}
	}
	return "pgx"
}

func fresh(conn *pgx.Conn, name, columns string) error {
	_, err := conn.Exec(ctx, fmt.Sprintf("DROP TABLE IF EXISTS %[1]s; CREATE TABLE %[1]s (%[2]s)",
		name, columns))
	return err
}

func equal(found, wanted any) error {
	if reflect.DeepEqual(found, wanted) {
		return nil
	}
	return fmt.Errorf("found %#v, wanted %#v", found, wanted)
}

type value struct {
	kind string
	sent any
}

func values() []value {
	one, text := int32(1), "a"
	return []value{
		{"boolean", true},
		{"smallint", int16(-7)},
		{"integer", int32(2_000_000_000)},
		{"bigint", int64(-9_000_000_000_000_000_000)},
		{"real", float32(1.5)},
		{"double precision", -2.25e300},
		{"text", "Grüße, 世界 🌊"},
		{"varchar(10)", "short"},
		{"bytea", []byte{0, 1, 255}},
		{"date", time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC)},
		{"timestamp", time.Date(1999, 12, 31, 23, 59, 59, 1000, time.UTC)},
		{"timestamptz", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		{"time", pgtype.Time{Microseconds: 86_399_123_456, Valid: true}},
		{"interval", pgtype.Interval{Months: 1, Days: 2, Microseconds: 3, Valid: true}},
		{"uuid", [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
		{"json", map[string]any{"a": []any{1.0, nil, "ü"}}},
		{"jsonb", map[string]any{"a": []any{1.0, nil, "ü"}}},
		{"integer[]", []*int32{&one, nil}},
		{"text[]", []*string{&text, nil}},
		{"double precision[]", []float64{0.5, -1}},
		{"uuid[]", [][16]byte{{7}}},
	}
}

// scan reads a value into one of the same Go type, in UTC where it is a time.
func scan(row pgx.Row, like any) (any, error) {
	found := reflect.New(reflect.TypeOf(like))
	if err := row.Scan(found.Interface()); err != nil {
		return nil, err
	}
	if moment, ok := found.Elem().Interface().(time.Time); ok {
		return moment.UTC(), nil
	}
	return found.Elem().Interface(), nil
}

func valuesOfEveryType(conn *pgx.Conn) error {
	var wrong []error
	for _, value := range values() {
		row := conn.QueryRow(ctx, "SELECT $1::"+value.kind, value.sent)
		found, err := scan(row, value.sent)
		if err == nil {
			err = equal(found, value.sent)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", value.kind, err))
		}
	}
	var numeric pgtype.Numeric
	if err := numeric.Scan("12345678901234567890.0123456789"); err != nil {
		return err
	}
	var text string
	if err := conn.QueryRow(ctx, "SELECT ($1::numeric)::text", numeric).Scan(&text); err != nil {
		wrong = append(wrong, err)
	}
	wrong = append(wrong, equal(text, "12345678901234567890.0123456789"))
	return errors.Join(wrong...)
}

func valuesThroughATable(conn *pgx.Conn) error {
	var columns, marks []string
	var sent []any
	for at, value := range values() {
		columns = append(columns, fmt.Sprintf("c%d %s", at, value.kind))
		marks = append(marks, fmt.Sprintf("$%d", at+1))
		sent = append(sent, value.sent)
	}
	if err := fresh(conn, "every", strings.Join(columns, ", ")); err != nil {
		return err
	}
	insert := fmt.Sprintf("INSERT INTO every VALUES (%s)", strings.Join(marks, ", "))
	if _, err := conn.Exec(ctx, insert, sent...); err != nil {
		return err
	}
	for at, value := range values() {
		found, err := scan(conn.QueryRow(ctx, fmt.Sprintf("SELECT c%d FROM every", at)), value.sent)
		if err == nil {
			err = equal(found, value.sent)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", value.kind, err)
		}
	}
	return nil
}

func simpleProtocol(conn *pgx.Conn) error {
	var number int
	var text string
	row := conn.QueryRow(ctx, "SELECT $1::int, $2::text", pgx.QueryExecModeSimpleProtocol, 7, "it's")
	if err := row.Scan(&number, &text); err != nil {
		return err
	}
	return equal([]any{number, text}, []any{7, "it's"})
}

func everyMode(conn *pgx.Conn) error {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec,
	} {
		for value := range 3 {
			var found int
			row := conn.QueryRow(ctx, "SELECT $1::int + 1", mode, value)
			if err := row.Scan(&found); err != nil {
				return fmt.Errorf("%v: %w", mode, err)
			}
			if err := equal(found, value+1); err != nil {
				return err
			}
		}
	}
	return nil
}

type price struct {
	Symbol string
	Day    time.Time
	Price  float64
}

func rowsBecomeStructs(conn *pgx.Conn) error {
	err := fresh(conn, "prices", "symbol text, day date, price double precision, PRIMARY KEY (symbol)")
	if err != nil {
		return err
	}
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	_, err = conn.Exec(ctx, "INSERT INTO prices VALUES (@symbol, @day, @price)",
		pgx.NamedArgs{"symbol": "AAPL", "day": day, "price": 187.5})
	if err != nil {
		return err
	}
	rows, _ := conn.Query(ctx, "SELECT * FROM prices WHERE symbol = ANY($1)", []string{"AAPL", "X"})
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[price])
	if err != nil {
		return err
	}
	return equal(found, []price{{"AAPL", day, 187.5}})
}

func batch(conn *pgx.Conn) error {
	if err := fresh(conn, "batched", "id integer PRIMARY KEY"); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	var found []int
	for value := range 20 {
		batch.Queue("INSERT INTO batched VALUES ($1)", value)
		batch.Queue("SELECT count(*) FROM batched").QueryRow(func(row pgx.Row) error {
			var rows int
			err := row.Scan(&rows)
			found = append(found, rows)
			return err
		})
	}
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	for at, rows := range found {
		if err := equal(rows, at+1); err != nil {
			return err
		}
	}
	return equal(len(found), 20)
}

func failedBatch(conn *pgx.Conn) error {
	if err := fresh(conn, "batched", "id integer PRIMARY KEY"); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	for range 2 {
		batch.Queue("INSERT INTO batched VALUES ($1)", 1)
	}
	if err := conn.SendBatch(ctx, batch).Close(); err == nil {
		return errors.New("a key was taken twice")
	}
	var rows int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM batched").Scan(&rows); err != nil {
		return err
	}
	return equal(rows, 0)
}

func copyFrom(conn *pgx.Conn) error {
	if err := fresh(conn, "copied", "id integer, name text, at timestamptz, tags text[]"); err != nil {
		return err
	}
	moment := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	source := pgx.CopyFromSlice(3000, func(at int) ([]any, error) {
		return []any{at, fmt.Sprint("n", at), moment, []string{"x", "y"}}, nil
	})
	rows, err := conn.CopyFrom(ctx, pgx.Identifier{"copied"}, []string{"id", "name", "at", "tags"}, source)
	if err != nil {
		return err
	}
	var sum int64
	if err := conn.QueryRow(ctx, "SELECT sum(id)::bigint FROM copied").Scan(&sum); err != nil {
		return err
	}
	return equal([]int64{rows, sum}, []int64{3000, 4_498_500})
}

func transactions(conn *pgx.Conn) error {
	if err := fresh(conn, "kept", "id integer PRIMARY KEY"); err != nil {
		return err
	}
	undone := errors.New("changed my mind")
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO kept VALUES (1)"); err != nil {
			return err
		}
		inner := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO kept VALUES (2)"); err != nil {
				return err
			}
			return undone
		})
		if inner != undone {
			return inner
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows, _ := conn.Query(ctx, "SELECT id FROM kept")
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return err
	}
	return equal(ids, []int{1})
}

func errorsHaveCodes(conn *pgx.Conn) error {
	for sql, wanted := range map[string]string{
		"SELECT nothing FROM (VALUES (1)) v(a)": "42703 8",
		"SELECT * FROM nowhere":                 "42P01 15",
		"SELECT 1 / 0":                          "22012 0",
		"SELEKT 1":                              "42601 1",
	} {
		_, err := conn.Exec(ctx, sql)
		var told *pgconn.PgError
		if !errors.As(err, &told) {
			return fmt.Errorf("%s: %v", sql, err)
		}
		if err := equal(fmt.Sprint(told.Code, " ", told.Position), wanted); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

func cancel(conn *pgx.Conn) error {
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	_, err := conn.Exec(short,
		"SELECT count(*) FROM generate_series(1, 300000) a, generate_series(1, 300000) b")
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("not cancelled: %v", err)
	}
	return nil
}

func pool(*pgx.Conn) error {
	pool, err := pgxpool.New(ctx, "pool_max_conns=4")
	if err != nil {
		return err
	}
	defer pool.Close()
	answers := make(chan error)
	for value := range 40 {
		go func() {
			var found int
			err := pool.QueryRow(ctx, "SELECT $1::int", value).Scan(&found)
			answers <- errors.Join(err, equal(found, value))
		}()
	}
	var wrong error
	for range 40 {
		wrong = errors.Join(wrong, <-answers)
	}
	return wrong
}

func databaseSQL(*pgx.Conn) error {
	db, err := sql.Open("pgx", "")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec("DROP TABLE IF EXISTS standard"); err != nil {
		return err
	}
	if _, err := db.Exec("CREATE TABLE standard (id integer PRIMARY KEY, name text)"); err != nil {
		return err
	}
	insert, err := db.Prepare("INSERT INTO standard VALUES ($1, $2)")
	if err != nil {
		return err
	}
	defer insert.Close()
	if _, err := insert.Exec(1, sql.NullString{}); err != nil {
		return err
	}
	done, err := insert.Exec(2, "b")
	if err != nil {
		return err
	}
	touched, _ := done.RowsAffected()
	var name sql.NullString
	if err := db.QueryRow("SELECT name FROM standard WHERE id = $1", 2).Scan(&name); err != nil {
		return err
	}
	rows, err := db.Query("SELECT 1::int AS id, 'x'::text AS name, now() AS at")
	if err != nil {
		return err
	}
	defer rows.Close()
	var kinds []string
	columns, err := rows.ColumnTypes()
	for _, column := range columns {
		kinds = append(kinds, column.DatabaseTypeName())
	}
	return errors.Join(err, equal(touched, int64(1)), equal(name.String, "b"),
		equal(kinds, []string{"INT4", "TEXT", "TIMESTAMPTZ"}))
}
