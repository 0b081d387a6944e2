//! The names that completion knows: a picture of the catalog, taken between statements.

use thalweg::Database;

use crate::print::results::fetch;

#[derive(Clone, Debug, Default)]
pub struct Names {
    pub relations: Vec<Relation>,
}

#[derive(Clone, Debug)]
pub struct Relation {
    pub schema: String,
    pub name: String,
    pub columns: Vec<String>,
}

const COLUMNS: &str = "SELECT table_schema, table_name, column_name \
    FROM information_schema.columns ORDER BY table_schema, table_name, ordinal_position";

impl Names {
    /// Reads them in a session of its own, so that a transaction that failed is no obstacle.
    /// Whatever cannot be read is left out: completion is a help, not a duty.
    pub async fn read(database: &Database) -> Names {
        let mut session = database.session();
        let columns = fetch(&mut session, COLUMNS).await.unwrap_or_default();
        let mut relations: Vec<Relation> = Vec::new();
        for row in columns {
            let [schema, name, column] = row.as_slice() else { continue };
            match relations.last_mut() {
                Some(last) if last.schema == *schema && last.name == *name => {
                    last.columns.push(column.clone());
                }
                _ => relations.push(Relation {
                    schema: schema.clone(),
                    name: name.clone(),
                    columns: vec![column.clone()],
                }),
            }
        }
        Names { relations }
    }
}
