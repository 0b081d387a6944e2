// Checks of pgjdbc: values, batches, fetch size, keys, COPY, metadata, cancelling, errors.

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.util.PGobject;

public class Client {
    static String address() {
        return "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT")
            + "/" + System.getenv("PGDATABASE") + "?user=" + System.getenv("PGUSER");
    }

    public static void main(String[] arguments) {
        new Checks()
            .add("values of every type", Client::valuesOfEveryType)
            .add("values stay themselves after many runs", Client::manyRuns)
            .add("json is sent as an object", Client::json)
            .add("a batch inserts many rows", Client::batch)
            .add("a batch that fails is one transaction", Client::failedBatch)
            .add("rows come in parts", Client::fetchSize)
            .add("keys are generated", Client::generatedKeys)
            .add("rows are copied both ways", Client::copy)
            .add("transactions and savepoints", Client::transactions)
            .add("columns are described", Client::columns)
            .add("the database is described", Client::metadata)
            .add("a statement takes too long", Client::timeout)
            .add("errors have a state", Client::states)
            .add("a connection is valid", Client::valid)
            .run("pgjdbc " + org.postgresql.util.DriverInfo.DRIVER_VERSION, address());
    }

    static Object one(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getObject(1);
        }
    }

    static Map<String, Object> values() {
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("boolean", true);
        values.put("integer", 2_000_000_000);
        values.put("bigint", -9_000_000_000_000_000_000L);
        values.put("real", 1.5f);
        values.put("double precision", -2.25e300);
        values.put("numeric(20, 4)", new BigDecimal("1234567890123456.7890"));
        values.put("text", "Grüße, 世界 🌊");
        values.put("varchar(10)", "short");
        values.put("bytea", new byte[] {0, 1, -1});
        values.put("date", LocalDate.of(2026, 2, 28));
        values.put("time", LocalTime.of(23, 59, 59, 123_456_000));
        values.put("timestamp", LocalDateTime.of(1999, 12, 31, 23, 59, 59, 1000));
        values.put("timestamptz", OffsetDateTime.of(2026, 3, 1, 12, 0, 0, 0, ZoneOffset.UTC));
        values.put("uuid", UUID.fromString("6f1d9d5e-9a1c-4f0f-8a3c-2b1f0c9d8e7f"));
        return values;
    }

    static void valuesOfEveryType(Connection connection) throws Exception {
        List<String> wrong = new ArrayList<>();
        for (Map.Entry<String, Object> value : values().entrySet()) {
            try {
                roundTrip(connection, value.getKey(), value.getValue(), 1);
            } catch (SQLException | AssertionError error) {
                wrong.add(value.getKey() + ": " + error.getMessage());
            }
        }
        if (!wrong.isEmpty()) {
            throw new AssertionError(String.join("\n", wrong));
        }
    }

    static void roundTrip(Connection connection, String type, Object value, int runs)
            throws SQLException {
        String sql = "SELECT CAST(? AS " + type + ")";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int run = 0; run < runs; run++) {
                statement.setObject(1, value);
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    Checks.equal(rows.getObject(1, value.getClass()), value);
                }
            }
        }
    }

    /** After five runs pgjdbc names the statement and asks for values in binary. */
    static void manyRuns(Connection connection) throws Exception {
        for (Map.Entry<String, Object> value : values().entrySet()) {
            roundTrip(connection, value.getKey(), value.getValue(), 12);
        }
        String sql = "SELECT ?::int[], ?::text[]";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int run = 0; run < 12; run++) {
                statement.setArray(1, connection.createArrayOf("int4", new Object[] {1, null, 3}));
                statement.setArray(2, connection.createArrayOf("text", new Object[] {"a", "\"q\""}));
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    Checks.equal(rows.getArray(1).getArray(), new Integer[] {1, null, 3});
                    Checks.equal(rows.getArray(2).getArray(), new String[] {"a", "\"q\""});
                }
            }
        }
    }

    static void json(Connection connection) throws Exception {
        Checks.fresh(connection, "documents", "id integer PRIMARY KEY, body jsonb");
        PGobject body = new PGobject();
        body.setType("jsonb");
        body.setValue("{\"a\": [1, null]}");
        String sql = "INSERT INTO documents VALUES (?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setInt(1, 1);
            statement.setObject(2, body);
            Checks.equal(statement.executeUpdate(), 1);
        }
        Checks.equal(one(connection, "SELECT body ->> 'a' FROM documents"), "[1, null]");
    }

    static void batch(Connection connection) throws Exception {
        Checks.fresh(connection, "batched", "id integer PRIMARY KEY, name text, amount numeric(10, 2)");
        String sql = "INSERT INTO batched VALUES (?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int id = 0; id < 1000; id++) {
                statement.setInt(1, id);
                statement.setString(2, id % 7 == 0 ? null : "n" + id);
                statement.setBigDecimal(3, BigDecimal.valueOf(id, 2));
                statement.addBatch();
            }
            int[] counts = statement.executeBatch();
            Checks.equal(Arrays.stream(counts).sum(), 1000);
        }
        Checks.equal(one(connection, "SELECT count(name) FROM batched"), 857L);
    }

    static void failedBatch(Connection connection) throws Exception {
        Checks.fresh(connection, "batched", "id integer PRIMARY KEY");
        connection.setAutoCommit(false);
        try (PreparedStatement statement =
                connection.prepareStatement("INSERT INTO batched VALUES (?)")) {
            for (int id : new int[] {1, 2, 1}) {
                statement.setInt(1, id);
                statement.addBatch();
            }
            statement.executeBatch();
            throw new AssertionError("a key was taken twice");
        } catch (java.sql.BatchUpdateException error) {
            Checks.equal(error.getSQLState(), "23505");
        }
        connection.rollback();
        Checks.equal(one(connection, "SELECT count(*) FROM batched"), 0L);
    }

    static void fetchSize(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement(
                "SELECT i FROM generate_series(1, 1050) AS s(i) WHERE i > ? ORDER BY i")) {
            statement.setFetchSize(100);
            statement.setInt(1, 50);
            long sum = 0;
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    sum += rows.getInt(1);
                }
            }
            Checks.equal(sum, 1050L * 1051 / 2 - 50L * 51 / 2);
        }
        connection.commit();
    }

    static void generatedKeys(Connection connection) throws Exception {
        Checks.fresh(connection, "keyed", "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text");
        String sql = "INSERT INTO keyed (name) VALUES (?)";
        try (PreparedStatement statement =
                connection.prepareStatement(sql, Statement.RETURN_GENERATED_KEYS)) {
            statement.setString(1, "a");
            Checks.equal(statement.executeUpdate(), 1);
            try (ResultSet keys = statement.getGeneratedKeys()) {
                keys.next();
                Checks.equal(keys.getLong("id"), 1L);
            }
        }
    }

    static void copy(Connection connection) throws Exception {
        Checks.fresh(connection, "copied", "id integer, name text");
        var copies = connection.unwrap(PGConnection.class).getCopyAPI();
        String lines = "1,a\n2,\"b,c\"\n";
        Checks.equal(copies.copyIn("COPY copied FROM STDIN (FORMAT csv)", new StringReader(lines)), 2L);
        StringWriter out = new StringWriter();
        Checks.equal(copies.copyOut("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT CSV", out), 2L);
        Checks.equal(out.toString(), lines);
    }

    static void transactions(Connection connection) throws Exception {
        Checks.fresh(connection, "kept", "id integer PRIMARY KEY");
        connection.setAutoCommit(false);
        connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        Checks.execute(connection, "INSERT INTO kept VALUES (1)");
        Savepoint before = connection.setSavepoint("before");
        Checks.execute(connection, "INSERT INTO kept VALUES (2)");
        connection.rollback(before);
        connection.commit();
        Checks.equal(one(connection, "SELECT count(*) FROM kept"), 1L);
        connection.rollback();
        connection.setAutoCommit(true);
        Checks.equal(connection.getTransactionIsolation(), Connection.TRANSACTION_REPEATABLE_READ);
    }

    static void columns(Connection connection) throws Exception {
        Checks.fresh(connection, "described", "id integer, name varchar(12), amount numeric(10, 2)");
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT * FROM described")) {
            ResultSetMetaData columns = rows.getMetaData();
            List<Object> found = new ArrayList<>();
            for (int at = 1; at <= columns.getColumnCount(); at++) {
                found.add(columns.getColumnName(at) + " " + columns.getColumnTypeName(at) + " "
                    + columns.getPrecision(at) + " " + columns.getScale(at));
            }
            Checks.equal(found, List.of("id int4 10 0", "name varchar 12 0", "amount numeric 10 2"));
        }
    }

    static void metadata(Connection connection) throws Exception {
        Checks.fresh(connection, "described",
            "id integer PRIMARY KEY, name varchar(12) NOT NULL, amount numeric(10, 2)");
        DatabaseMetaData about = connection.getMetaData();
        Checks.equal(about.getDatabaseProductName(), "PostgreSQL");
        try (ResultSet rows = about.getTables(null, "public", "desc%", new String[] {"TABLE"})) {
            Checks.equal(rows.next(), true);
            Checks.equal(rows.getString("TABLE_NAME"), "described");
        }
        List<Object> columns = new ArrayList<>();
        try (ResultSet rows = about.getColumns(null, "public", "described", "%")) {
            while (rows.next()) {
                columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME") + " "
                    + rows.getInt("COLUMN_SIZE") + " " + rows.getString("IS_NULLABLE"));
            }
        }
        Checks.equal(columns, List.of("id int4 10 NO", "name varchar 12 NO", "amount numeric 10 YES"));
        try (ResultSet rows = about.getPrimaryKeys(null, "public", "described")) {
            Checks.equal(rows.next(), true);
            Checks.equal(rows.getString("COLUMN_NAME"), "id");
        }
        try (ResultSet rows = about.getSchemas()) {
            List<String> schemas = new ArrayList<>();
            while (rows.next()) {
                schemas.add(rows.getString(1));
            }
            Checks.equal(schemas.contains("public"), true);
        }
        try (ResultSet rows = about.getTypeInfo()) {
            Checks.equal(rows.next(), true);
        }
    }

    static void timeout(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.execute("SELECT count(*) FROM generate_series(1, 300000) a,"
                + " generate_series(1, 300000) b");
            throw new AssertionError("it was not cancelled");
        } catch (SQLException error) {
            Checks.equal(error.getSQLState(), "57014");
        }
        Checks.equal(one(connection, "SELECT 1::int"), 1);
    }

    static void states(Connection connection) throws Exception {
        Map<String, String> wanted = Map.of("SELECT * FROM nowhere", "42P01", "SELECT 1 / 0", "22012",
            "SELEKT", "42601", "SELECT 'x'::int", "22P02");
        for (Map.Entry<String, String> each : wanted.entrySet()) {
            try {
                one(connection, each.getKey());
                throw new AssertionError(each.getKey() + ": no error");
            } catch (SQLException error) {
                Checks.equal(error.getSQLState(), each.getValue());
            }
        }
    }

    static void valid(Connection connection) throws Exception {
        Checks.equal(connection.isValid(5), true);
        Checks.equal(connection.getSchema(), "public");
        Checks.equal(connection.getCatalog(), System.getenv("PGDATABASE"));
        connection.setReadOnly(true);
        connection.setClientInfo("ApplicationName", "reader");
        Checks.equal(one(connection, "SHOW application_name"), "reader");
    }
}
