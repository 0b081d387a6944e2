// Checks that report in the Test Anything Protocol: one line each, and how many there were.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

final class Checks {
    interface Check {
        void run(Connection connection) throws Exception;
    }

    private final Map<String, Check> checks = new LinkedHashMap<>();

    Checks add(String name, Check check) {
        checks.put(name, check);
        return this;
    }

    /** Runs every check on a connection of its own. */
    void run(String version, String address) {
        System.out.println("# " + version + ", Java " + Runtime.version().feature());
        int number = 0;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            number += 1;
            try (Connection connection = DriverManager.getConnection(address)) {
                check.getValue().run(connection);
                System.out.println("ok " + number + " - " + check.getKey());
            } catch (Exception | AssertionError error) {
                System.out.println("not ok " + number + " - " + check.getKey());
                System.out.println(("" + error).replaceAll("(?m)^", "#   "));
            }
        }
        System.out.println("1.." + number);
        // Some drivers leave threads behind.
        System.exit(0);
    }

    /** Fails with both values where they differ. */
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

    /** A table of its own for one check. */
    static void fresh(Connection connection, String name, String columns) throws SQLException {
        execute(connection, "DROP TABLE IF EXISTS " + name,
            "CREATE TABLE " + name + " (" + columns + ")");
    }
}
