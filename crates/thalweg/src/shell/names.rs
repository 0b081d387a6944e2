//! The names that completion knows: a picture of the catalog, taken between statements.

use thalweg::{Database, Session};

use crate::print::results::fetch;

#[derive(Clone, Debug, Default)]
pub struct Names {
    pub relations: Vec<Relation>,
    pub functions: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Relation {
    pub schema: String,
    pub name: String,
    pub columns: Vec<String>,
}

const COLUMNS: &str = "SELECT table_schema, table_name, column_name \
    FROM information_schema.columns ORDER BY table_schema, table_name, ordinal_position";
const FUNCTIONS: &str = "SELECT DISTINCT routine_name FROM information_schema.routines ORDER BY 1";

impl Names {
    /// Reads them in a session of its own, so that a transaction that failed is no obstacle.
    /// Whatever cannot be read is left out: completion is a help, not a duty.
    pub async fn read(database: &Database) -> Names {
        let mut session = database.session();
        let columns = rows(&mut session, COLUMNS).await;
        let functions = rows(&mut session, FUNCTIONS).await;
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
        Names { relations, functions: functions.into_iter().flatten().collect() }
    }
}

async fn rows(session: &mut Session, sql: &str) -> Vec<Vec<String>> {
    fetch(session, sql).await.unwrap_or_default()
}
