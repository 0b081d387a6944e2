//! Large statements and wide rows, for the front ends' tests.

const MEGABYTE: usize = 1 << 20;
pub const COLUMNS: usize = 1_000;

/// So many items that a list of them takes a megabyte.
pub fn list(of: impl Fn(usize) -> String) -> (usize, String) {
    let mut text = of(0);
    let mut items = 1;
    while text.len() < MEGABYTE {
        text.push_str(", ");
        text.push_str(&of(items));
        items += 1;
    }
    (items, text)
}

/// The statement that makes a table of as many columns. Those with odd numbers are texts.
pub fn create_wide() -> String {
    let column = |column: usize| match column % 2 {
        1 => format!("c{column} text"),
        _ => format!("c{column} int"),
    };
    let columns: Vec<String> = (1..COLUMNS).map(column).collect();
    format!("CREATE TABLE wide (id int PRIMARY KEY, {})", columns.join(", "))
}

/// The values of one of its rows.
pub fn row(id: usize) -> Vec<String> {
    let value = |column: usize| match column {
        0 => id.to_string(),
        _ if column % 2 == 1 => format!("text {column} of {id}"),
        _ => (id * 10_000 + column).to_string(),
    };
    (0..COLUMNS).map(value).collect()
}
