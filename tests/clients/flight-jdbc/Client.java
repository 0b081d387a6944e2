// Checks of the JDBC driver of Arrow Flight SQL: values, parameters, metadata, errors.

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

public class Client {
    interface Check {
        void run(Connection connection) throws Exception;
    }

    static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("values of every type", Client::values);
        CHECKS.put("many rows are read", Client::manyRows);
        CHECKS.put("changes tell how many rows they touched", Client::changes);
        CHECKS.put("parameters are bound", Client::parameters);
        CHECKS.put("tables and columns are listed", Client::metadata);
        CHECKS.put("an error says what is wrong", Client::errors);
    }

    static String address() {
        return "jdbc:arrow-flight-sql://127.0.0.1:" + System.getenv("THALWEG_GRPC_PORT")
            + "/?useEncryption=false&user=thalweg&password=";
    }

    public static void main(String[] arguments) throws SQLException {
        var driver = DriverManager.getDriver(address());
        System.out.println("# Arrow Flight SQL JDBC driver " + driver.getMajorVersion() + "."
            + driver.getMinorVersion() + ", Java " + Runtime.version().feature());
        int number = 0;
        for (Map.Entry<String, Check> check : CHECKS.entrySet()) {
            number += 1;
            try (Connection connection = DriverManager.getConnection(address())) {
                check.getValue().run(connection);
                System.out.println("ok " + number + " - " + check.getKey());
            } catch (Exception | AssertionError error) {
                System.out.println("not ok " + number + " - " + check.getKey());
                System.out.println(("" + error).replaceAll("(?m)^", "#   "));
            }
        }
        System.out.println("1.." + number);
        // The driver leaves threads behind.
        System.exit(0);
    }

    static void equal(Object found, Object wanted) {
        if (!Objects.deepEquals(found, wanted)) {
            throw new AssertionError("found " + found + ", wanted " + wanted);
        }
    }

    static void execute(Connection connection, String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String sql : statements) {
                statement.executeUpdate(sql);
            }
        }
    }

    static void values(Connection connection) throws Exception {
        String sql = "SELECT true AS a, 7::integer AS b, 9000000000::bigint AS c, 1.5::float8 AS d,"
            + " 1.25::numeric(6, 2) AS e, 'ü' AS f, date '2026-02-28' AS g, NULL::text AS h";
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            equal(rows.next(), true);
            equal(rows.getBoolean("a"), true);
            equal(rows.getInt("b"), 7);
            equal(rows.getLong("c"), 9_000_000_000L);
            equal(rows.getDouble("d"), 1.5);
            equal(rows.getBigDecimal("e"), new BigDecimal("1.25"));
            equal(rows.getString("f"), "ü");
            equal(rows.getDate("g").toString(), "2026-02-28");
            equal(rows.getString("h"), null);
            equal(rows.next(), false);
        }
    }

    static void manyRows(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(
                    "SELECT i FROM generate_series(1, 100000) AS s(i)")) {
            long sum = 0;
            while (rows.next()) {
                sum += rows.getLong(1);
            }
            equal(sum, 5_000_050_000L);
        }
    }

    static void changes(Connection connection) throws Exception {
        execute(connection, "DROP TABLE IF EXISTS counted",
            "CREATE TABLE counted (id integer PRIMARY KEY, name text)");
        try (Statement statement = connection.createStatement()) {
            equal(statement.executeUpdate("INSERT INTO counted VALUES (1, 'a'), (2, 'b')"), 2);
        }
    }

    static void parameters(Connection connection) throws Exception {
        execute(connection, "DROP TABLE IF EXISTS bound",
            "CREATE TABLE bound (id integer PRIMARY KEY, name text)",
            "INSERT INTO bound VALUES (1, 'a'), (2, 'b')");
        try (PreparedStatement statement =
                connection.prepareStatement("SELECT name FROM bound WHERE id = $1")) {
            statement.setInt(1, 2);
            try (ResultSet rows = statement.executeQuery()) {
                equal(rows.next(), true);
                equal(rows.getString(1), "b");
            }
        }
    }

    static void metadata(Connection connection) throws Exception {
        execute(connection, "DROP TABLE IF EXISTS described",
            "CREATE TABLE described (id integer PRIMARY KEY, name text)");
        var about = connection.getMetaData();
        try (ResultSet rows = about.getTables(null, "public", "described", null)) {
            equal(rows.next(), true);
            equal(rows.getString("TABLE_NAME"), "described");
        }
        List<String> columns = new ArrayList<>();
        try (ResultSet rows = about.getColumns(null, "public", "described", null)) {
            while (rows.next()) {
                columns.add(rows.getString("COLUMN_NAME"));
            }
        }
        equal(columns, List.of("id", "name"));
    }

    static void errors(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT * FROM nowhere");
            throw new AssertionError("no error");
        } catch (SQLException error) {
            equal(error.getMessage().contains("nowhere"), true);
        }
    }
}
