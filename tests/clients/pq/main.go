// Checks of database/sql over lib/pq.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/lib/pq"
)

var checks = []struct {
	name string
	body func(*sql.DB) error
}{
	{"values go round", values},
	{"arrays go round", arrays},
	{"a statement is prepared", prepared},
	{"rows are copied in", copyIn},
	{"a transaction is undone", transaction},
	{"errors have a code", codes},
	{"a query is cancelled", cancel},
}

func main() {
	info, _ := debug.ReadBuildInfo()
	fmt.Printf("# lib/pq %s, %s\n", info.Deps[0].Version, info.GoVersion)
	// The address comes from PGHOST, PGPORT, PGUSER and PGDATABASE.
	db, err := sql.Open("postgres", "sslmode=disable")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	for at, check := range checks {
		if err := check.body(db); err != nil {
			fmt.Printf("not ok %d - %s\n#   %v\n", at+1, check.name, err)
			continue
		}
		fmt.Printf("ok %d - %s\n", at+1, check.name)
	}
	fmt.Printf("1..%d\n", len(checks))
}

func equal(found, wanted any) error {
	if reflect.DeepEqual(found, wanted) {
		return nil
	}
	return fmt.Errorf("found %#v, wanted %#v", found, wanted)
}

func values(db *sql.DB) error {
	moment := time.Date(2026, 3, 1, 12, 0, 0, 123000, time.UTC)
	var number int64
	var ratio float64
	var text string
	var yes bool
	var bytes []byte
	var at time.Time
	var missing sql.NullInt64
	err := db.QueryRow(
		"SELECT $1::bigint, $2::float8, $3::text, $4::bool, $5::bytea, $6::timestamptz, $7::int",
		int64(-7), 1.5, "it's ü", true, []byte{0, 255}, moment, nil,
	).Scan(&number, &ratio, &text, &yes, &bytes, &at, &missing)
	if err != nil {
		return err
	}
	return equal([]any{number, ratio, text, yes, bytes, at.UTC(), missing.Valid},
		[]any{int64(-7), 1.5, "it's ü", true, []byte{0, 255}, moment, false})
}

func arrays(db *sql.DB) error {
	var numbers []int64
	var texts []string
	err := db.QueryRow("SELECT $1::bigint[], $2::text[]",
		pq.Array([]int64{1, 2}), pq.Array([]string{"a", `"q"`, ""}),
	).Scan(pq.Array(&numbers), pq.Array(&texts))
	if err != nil {
		return err
	}
	return errors.Join(equal(numbers, []int64{1, 2}), equal(texts, []string{"a", `"q"`, ""}))
}

func prepared(db *sql.DB) error {
	statement, err := db.Prepare("SELECT $1::int + 1")
	if err != nil {
		return err
	}
	defer statement.Close()
	for value := range 5 {
		var found int
		if err := statement.QueryRow(value).Scan(&found); err != nil {
			return err
		}
		if err := equal(found, value+1); err != nil {
			return err
		}
	}
	return nil
}

func copyIn(db *sql.DB) error {
	if _, err := db.Exec("DROP TABLE IF EXISTS copied; CREATE TABLE copied (id int, name text)"); err != nil {
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	statement, err := tx.Prepare(pq.CopyIn("copied", "id", "name"))
	if err != nil {
		return err
	}
	for id := range 1000 {
		if _, err := statement.Exec(id, fmt.Sprint("n", id)); err != nil {
			return err
		}
	}
	if _, err := statement.Exec(); err != nil {
		return err
	}
	if err := errors.Join(statement.Close(), tx.Commit()); err != nil {
		return err
	}
	var rows int
	err = db.QueryRow("SELECT count(*) FROM copied").Scan(&rows)
	return errors.Join(err, equal(rows, 1000))
}

func transaction(db *sql.DB) error {
	if _, err := db.Exec("DROP TABLE IF EXISTS kept; CREATE TABLE kept (id int PRIMARY KEY)"); err != nil {
		return err
	}
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return err
	}
	if _, err := tx.Exec("INSERT INTO kept VALUES ($1)", 1); err != nil {
		return err
	}
	if err := tx.Rollback(); err != nil {
		return err
	}
	var rows int
	err = db.QueryRow("SELECT count(*) FROM kept").Scan(&rows)
	return errors.Join(err, equal(rows, 0))
}

func codes(db *sql.DB) error {
	_, err := db.Exec("SELECT * FROM nowhere")
	var told *pq.Error
	if !errors.As(err, &told) {
		return fmt.Errorf("not an error of the server: %v", err)
	}
	return equal([]string{string(told.Code), told.Severity}, []string{"42P01", "ERROR"})
}

func cancel(db *sql.DB) error {
	short, stop := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer stop()
	_, err := db.ExecContext(short,
		"SELECT count(*) FROM generate_series(1, 300000) a, generate_series(1, 300000) b")
	if err == nil {
		return errors.New("it was not cancelled")
	}
	return db.Ping()
}
