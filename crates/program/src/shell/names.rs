//! The names for completion: a copy of the catalog, taken between statements.

use thalweg::Database;

use crate::print::results::fetch;

/// The relations of the catalog, for completion.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub relations: Vec<Relation>,
}

/// A table or view, for completion.
#[derive(Clone, Debug)]
pub struct Relation {
    pub schema: String,
    pub name: String,
    pub columns: Vec<String>,
}

const COLUMNS: &str = "SELECT table_schema, table_name, column_name \
    FROM information_schema.columns ORDER BY table_schema, table_name, ordinal_position";

impl Names {
    /// Reads the names in a separate session, so that a failed transaction does not prevent it.
    /// Skips names that cannot be read, because completion is optional.
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
