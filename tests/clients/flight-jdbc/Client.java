// Checks of the JDBC driver of Arrow Flight SQL: values, parameters, metadata, errors.

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

public class Client {
    static String address() {
        return "jdbc:arrow-flight-sql://127.0.0.1:" + System.getenv("THALWEG_GRPC_PORT")
            + "/?useEncryption=false&user=thalweg&password=";
    }

    public static void main(String[] arguments) throws SQLException {
        var driver = DriverManager.getDriver(address());
        String version = "Arrow Flight SQL JDBC driver " + driver.getMajorVersion() + "."
            + driver.getMinorVersion();
        new Checks()
            .add("values of every type", Client::values)
            .add("many rows are read", Client::manyRows)
            .add("changes tell how many rows they touched", Client::changes)
            .add("parameters are bound", Client::parameters)
            .add("tables and columns are listed", Client::metadata)
            .add("an error says what is wrong", Client::errors)
            .run(version, address());
    }

    static void values(Connection connection) throws Exception {
        String sql = "SELECT true AS a, 7::integer AS b, 9000000000::bigint AS c, 1.5::float8 AS d,"
            + " 1.25::numeric(6, 2) AS e, 'ü' AS f, date '2026-02-28' AS g, NULL::text AS h";
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            Checks.equal(rows.next(), true);
            Checks.equal(rows.getBoolean("a"), true);
            Checks.equal(rows.getInt("b"), 7);
            Checks.equal(rows.getLong("c"), 9_000_000_000L);
            Checks.equal(rows.getDouble("d"), 1.5);
            Checks.equal(rows.getBigDecimal("e"), new BigDecimal("1.25"));
            Checks.equal(rows.getString("f"), "ü");
            Checks.equal(rows.getDate("g").toString(), "2026-02-28");
            Checks.equal(rows.getString("h"), null);
            Checks.equal(rows.next(), false);
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
            Checks.equal(sum, 5_000_050_000L);
        }
    }

    static void changes(Connection connection) throws Exception {
        Checks.fresh(connection, "counted", "id integer PRIMARY KEY, name text");
        try (Statement statement = connection.createStatement()) {
            Checks.equal(statement.executeUpdate("INSERT INTO counted VALUES (1, 'a'), (2, 'b')"), 2);
        }
    }

    static void parameters(Connection connection) throws Exception {
        Checks.fresh(connection, "bound", "id integer PRIMARY KEY, name text");
        Checks.execute(connection, "INSERT INTO bound VALUES (1, 'a'), (2, 'b')");
        try (PreparedStatement statement =
                connection.prepareStatement("SELECT name FROM bound WHERE id = $1")) {
            statement.setInt(1, 2);
            try (ResultSet rows = statement.executeQuery()) {
                Checks.equal(rows.next(), true);
                Checks.equal(rows.getString(1), "b");
            }
        }
    }

    static void metadata(Connection connection) throws Exception {
        Checks.fresh(connection, "described", "id integer PRIMARY KEY, name text");
        var about = connection.getMetaData();
        try (ResultSet rows = about.getTables(null, "public", "described", null)) {
            Checks.equal(rows.next(), true);
            Checks.equal(rows.getString("TABLE_NAME"), "described");
        }
        List<String> columns = new ArrayList<>();
        try (ResultSet rows = about.getColumns(null, "public", "described", null)) {
            while (rows.next()) {
                columns.add(rows.getString("COLUMN_NAME"));
            }
        }
        Checks.equal(columns, List.of("id", "name"));
    }

    static void errors(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT * FROM nowhere");
            throw new AssertionError("no error");
        } catch (SQLException error) {
            Checks.equal(error.getMessage().contains("nowhere"), true);
        }
    }
}
