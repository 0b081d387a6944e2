//! `COMMENT ON`.

use datafusion::sql::sqlparser::ast::{CommentObject, Ident, ObjectName};
use thalweg_dialect::parse::commented_constraint;
use thalweg_txn::{
    CatalogChange, CommentChange, CommentPart, CommentedObject, Object, Securable, no_namespace,
    no_role,
};
use thalweg_types::{Error, Result, SqlState};

use super::target::QualifiedName;
use super::{Execution, Target, folded};
use crate::catalog::DATABASE;
use crate::outcome::Outcome;
use crate::plan;

pub(super) async fn run(
    execution: &Execution<'_>,
    kind: &CommentObject,
    name: &ObjectName,
    text: Option<&str>,
) -> Result<Outcome> {
    let (object, part) = match kind {
        CommentObject::Column => match commented_constraint(name) {
            Some((table, constraint)) => on_constraint(execution, &table, &constraint)?,
            None => on_column(execution, name).await?,
        },
        CommentObject::Table | CommentObject::View | CommentObject::Sequence => {
            on_relation(execution, kind, name)?
        }
        CommentObject::Index => on_index(execution, name)?,
        CommentObject::Schema => on_namespace(execution, name)?,
        CommentObject::Database => match on_database(name)? {
            Ok(commented) => commented,
            Err(missing) => {
                let outcome = Outcome::command("COMMENT");
                return Ok(outcome.with_warning(SqlState::INVALID_CATALOG_NAME, missing));
            }
        },
        CommentObject::Role | CommentObject::User => on_role(execution, name)?,
        other => return Err(Error::unsupported(format!("COMMENT ON {other}"))),
    };
    if let CommentedObject::Object(object) = &object {
        execution.names.rights().owns(object)?;
    }
    let mut text = text.filter(|text| !text.is_empty()).map(str::to_owned);
    if crate::catalog::has_initial_comment(&object) && text.is_none() {
        // An empty text hides the comment that the object has by itself.
        text = Some(String::new());
    }
    let change = CommentChange { object, part, text };
    execution.names.with(|t| t.change_catalog(CatalogChange::Comment(change)))?;
    Ok(Outcome::command("COMMENT"))
}

type Commented = (CommentedObject, CommentPart);

fn relation(namespace: &str, name: &str, part: CommentPart) -> Commented {
    (CommentedObject::Object(Securable::relation(namespace, name)), part)
}

fn on_relation(
    execution: &Execution<'_>,
    kind: &CommentObject,
    name: &ObjectName,
) -> Result<Commented> {
    let catalog = execution.names.catalog();
    let name = QualifiedName::existing(&catalog, name)?;
    let object = name.find(&catalog)?;
    let (fits, article) = match kind {
        CommentObject::Table => (matches!(object, Object::Table(_)), "a table"),
        CommentObject::View => (matches!(object, Object::View(_)), "a view"),
        _ => (matches!(object, Object::Sequence(_)), "a sequence"),
    };
    if !fits {
        let message = format!("\"{}\" is not {article}", name.name);
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    Ok(relation(&name.namespace, &name.name, CommentPart::Whole))
}

async fn on_column(execution: &Execution<'_>, name: &ObjectName) -> Result<Commented> {
    let mut of = name.clone();
    let column = of.0.pop();
    let column = column.as_ref().and_then(|part| part.as_ident());
    let (Some(column), false) = (column, of.0.is_empty()) else {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
    };
    let catalog = execution.names.catalog();
    let holder = QualifiedName::existing(&catalog, &of)?;
    let number = match holder.find(&catalog)? {
        Object::Table(_) => {
            let target = Target::find(&catalog, &of)?;
            target.schema().columns[target.position(&folded(column))?].id.0
        }
        Object::View(_) | Object::External(_) => {
            place_in_view(execution, &holder, &folded(column)).await?
        }
        Object::Sequence(_) => {
            let message = format!("cannot set comment on relation \"{}\"", holder.name);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
                .with_detail("This operation is not supported for sequences.".to_owned()));
        }
    };
    Ok(relation(&holder.namespace, &holder.name, CommentPart::Column(number)))
}

/// The place of a view's column.
async fn place_in_view(
    execution: &Execution<'_>,
    view: &QualifiedName,
    column: &str,
) -> Result<u32> {
    let quoted = |name: &str| Ident::with_quote('"', name).to_string();
    let all = format!("SELECT * FROM {}.{}", quoted(&view.namespace), quoted(&view.name));
    let planned = execution.translate(plan::query_text(&execution.state, &all).await)?;
    let place = planned.names.iter().position(|name| name.as_str() == column);
    let place = place.and_then(|place| u32::try_from(place).ok());
    place.ok_or_else(|| {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", view.name);
        Error::new(SqlState::UNDEFINED_COLUMN, message)
    })
}

fn on_constraint(
    execution: &Execution<'_>,
    table: &ObjectName,
    constraint: &Ident,
) -> Result<Commented> {
    let target = Target::find(&execution.names.catalog(), table)?;
    let (schema, name) = (target.schema(), folded(constraint));
    if !schema.has_constraint(&name) {
        let message = format!("constraint \"{name}\" for table \"{}\" does not exist", schema.name);
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
    }
    Ok(relation(&schema.namespace, &schema.name, CommentPart::Constraint(name)))
}

fn on_index(execution: &Execution<'_>, name: &ObjectName) -> Result<Commented> {
    let catalog = execution.names.catalog();
    let qualified = QualifiedName::of(name)?;
    let holds = |namespace: &str| {
        let of_key = |table: &&thalweg_txn::TableEntry| {
            let schema = &table.schema;
            schema.namespace == namespace
                && schema.constraints().any(|key| key.name == qualified.name)
        };
        let index = catalog.table_of_index(namespace, &qualified.name);
        index.or_else(|| catalog.tables().find(of_key)).cloned()
    };
    let found = match name.0.len() {
        1 => {
            let path = crate::catalog::SearchPath::current();
            path.all().find_map(holds)
        }
        _ => holds(&qualified.namespace),
    };
    match found {
        Some(table) => {
            let (namespace, name) = (&table.schema.namespace, &table.schema.name);
            Ok(relation(namespace, name, CommentPart::Index(qualified.name)))
        }
        None => {
            let other = QualifiedName::existing(&catalog, name)?;
            other.find(&catalog)?;
            let message = format!("\"{}\" is not an index", other.name);
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
    }
}

fn on_namespace(execution: &Execution<'_>, name: &ObjectName) -> Result<Commented> {
    let name = QualifiedName::of(name)?.name;
    if !execution.names.catalog().has_namespace(&name) {
        return Err(no_namespace(&name));
    }
    Ok((CommentedObject::Object(Securable::Namespace(name)), CommentPart::Whole))
}

/// The database, or the message of a warning: as in PostgreSQL, a comment on a database that does
/// not exist is no error, so that a dump can be restored into a database of another name.
fn on_database(name: &ObjectName) -> Result<std::result::Result<Commented, String>> {
    let name = QualifiedName::of(name)?.name;
    Ok(match name == DATABASE {
        true => Ok((CommentedObject::Object(Securable::Database), CommentPart::Whole)),
        false => Err(format!("database \"{name}\" does not exist")),
    })
}

fn on_role(execution: &Execution<'_>, name: &ObjectName) -> Result<Commented> {
    let name = QualifiedName::of(name)?.name;
    let catalog = execution.names.catalog();
    let roles = catalog.roles();
    let role = roles.named(&name).ok_or_else(|| no_role(&name))?;
    let current = roles.get(execution.names.identity().current);
    let may = execution.is_superuser()
        || (!role.superuser && current.is_some_and(|current| current.create_role));
    if !may {
        let message = match role.superuser {
            true => "must be superuser to comment on superuser roles".to_owned(),
            false => "must have CREATEROLE privilege".to_owned(),
        };
        return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    Ok((CommentedObject::Role(role.id), CommentPart::Whole))
}
