//! The search path: the namespaces in which unqualified names are looked up, in order.
//!
//! The path of a statement is found when the statement begins, from the setting `search_path`.
//! `pg_catalog` comes first unless the setting names it. Namespaces that do not exist are left out.
//! A view has names that were resolved when it was defined, so its query is planned with the
//! initial path.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::Result as PlanResult;
use thalweg_txn::{Catalog, DEFAULT_NAMESPACE, Object};

use super::objects::PG_CATALOG;
use super::{
    INFORMATION_SCHEMA, InformationSchema, Namespace, PgCatalog, SessionCatalog, pg_catalog, view,
};
use crate::sequences::numbered_column;
use crate::temporary_objects::ALIAS;

/// The namespace that DataFusion takes for unqualified names. Errors about unknown tables leave out
/// the last part of its name, so that they show the name as it was written.
pub(crate) const UNQUALIFIED: &str = "search_path.public";

/// An element of the setting that stands for the namespace of the current role.
const OF_USER: &str = "$user";

/// The relations in `pg_catalog` that PostgreSQL lacks begin with this. A table of an application
/// may have such a name, and is found first.
const OWN_PREFIX: &str = "thalweg_";

tokio::task_local! {
    /// The path of the statement that is being planned.
    static CURRENT: Arc<SearchPath>;
}

static INITIAL: LazyLock<Arc<SearchPath>> = LazyLock::new(|| {
    let names = vec![DEFAULT_NAMESPACE.to_owned()];
    Arc::new(SearchPath {
        names,
        has_implicit: true,
        implicit_temporary: None,
        temporary: None,
        creates_temporary: false,
    })
});

/// The namespaces of one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchPath {
    /// The namespaces that the setting names and that exist.
    names: Vec<String>,
    /// True if `pg_catalog` comes before them.
    has_implicit: bool,
    /// The namespace of the session's temporary objects, which comes before all others for
    /// relations.
    implicit_temporary: Option<String>,
    /// The namespace that `pg_temp` stands for.
    temporary: Option<String>,
    /// True if the setting begins with `pg_temp`, so that new objects are temporary.
    creates_temporary: bool,
}

impl SearchPath {
    /// The path that a setting means to a role.
    pub(crate) fn new(setting: Option<&str>, role: Option<&str>, catalog: &Catalog) -> SearchPath {
        let elements = match setting {
            None => vec![OF_USER.to_owned(), DEFAULT_NAMESPACE.to_owned()],
            Some(setting) => split(setting).unwrap_or_default(),
        };
        let exists = |name: &str| {
            [PG_CATALOG, INFORMATION_SCHEMA].contains(&name) || catalog.has_namespace(name)
        };
        let temporary = catalog.temporary();
        let creates_temporary = elements.first().is_some_and(|first| first == ALIAS);
        let mut names: Vec<String> = Vec::with_capacity(elements.len());
        for element in elements {
            let name = match element.as_str() {
                OF_USER => role.unwrap_or_default(),
                ALIAS => temporary.unwrap_or_default(),
                name => name,
            };
            if exists(name) && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        let has_implicit = !names.iter().any(|name| name == PG_CATALOG);
        let is_named = |own: &&str| names.iter().any(|name| name == own);
        let implicit_temporary = temporary.filter(|own| !is_named(own)).map(str::to_owned);
        let temporary = temporary.map(str::to_owned);
        SearchPath { names, has_implicit, implicit_temporary, temporary, creates_temporary }
    }

    /// True if objects with unqualified names are created as temporary ones.
    pub(crate) fn creates_temporary(&self) -> bool {
        self.creates_temporary
    }

    /// The namespace of a written name: `pg_temp` stands for the session's own, if there is one.
    pub(crate) fn namespace<'a>(&'a self, written: &'a str) -> &'a str {
        self.temporary.as_deref().filter(|_| written == ALIAS).unwrap_or(written)
    }

    /// The path of the statement that is being planned, or the initial one.
    pub(crate) fn current() -> Arc<SearchPath> {
        match view::owner_around() {
            Some(_) => Arc::clone(&INITIAL),
            None => CURRENT.try_with(Arc::clone).unwrap_or_else(|_| Arc::clone(&INITIAL)),
        }
    }

    /// Does some work with this path.
    pub(crate) async fn scope<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// True for the path of a new database and its views, apart from temporary objects.
    pub(crate) fn is_initial(&self) -> bool {
        self.names == INITIAL.names && self.has_implicit == INITIAL.has_implicit
    }

    /// The namespaces in their order, with `pg_catalog` and that of temporary objects.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        let implicit = self.has_implicit.then_some(PG_CATALOG);
        let temporary = self.implicit_temporary.as_deref();
        temporary.into_iter().chain(implicit).chain(self.names.iter().map(String::as_str))
    }

    /// The namespaces in the order in which an unqualified name of a relation is looked up.
    pub(crate) fn of_relation(&self, name: &str) -> impl Iterator<Item = &str> {
        let is_own = name.starts_with(OWN_PREFIX);
        let implicit = |is_here: bool| (self.has_implicit && is_here).then_some(PG_CATALOG);
        let names = self.names.iter().map(String::as_str);
        let temporary = self.implicit_temporary.as_deref();
        temporary.into_iter().chain(implicit(!is_own)).chain(names).chain(implicit(is_own))
    }

    /// The namespaces in their order, as the setting names them.
    pub(crate) fn named(&self) -> &[String] {
        &self.names
    }

    /// The namespace in which new objects come to lie.
    pub(crate) fn target(&self) -> Option<&str> {
        self.names.first().map(String::as_str)
    }

    /// The first namespace of users that has the relation or index. Key constraints have indexes,
    /// too.
    pub(crate) fn holder<'a>(&'a self, catalog: &Catalog, name: &str) -> Option<&'a str> {
        let has = |namespace: &&str| {
            catalog.object(namespace, name).is_some()
                || catalog.table_of_index(namespace, name).is_some()
        };
        let has_constraint = |namespace: &&str| {
            catalog.objects(namespace).any(|(_, object)| match object {
                Object::Table(entry) => entry.schema.constraints().any(|key| key.name == name),
                Object::View(_) | Object::External(_) | Object::Sequence(_) => false,
            })
        };
        let names = || {
            let temporary = self.implicit_temporary.as_deref();
            temporary.into_iter().chain(self.names.iter().map(String::as_str))
        };
        names().find(has).or_else(|| names().find(has_constraint))
    }
}

/// The elements of a list of identifiers: unquoted ones are folded to lower case. `None` if the
/// text is no such list.
pub(crate) fn split(list: &str) -> Option<Vec<String>> {
    let mut elements = Vec::new();
    let mut rest = list.trim();
    if rest.is_empty() {
        return Some(elements);
    }
    loop {
        // A quoted name may be empty.
        let (element, may_be_empty) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut element = String::new();
                let mut quoted = quoted;
                loop {
                    let end = quoted.find('"')?;
                    element.push_str(&quoted[..end]);
                    quoted = &quoted[end + 1..];
                    match quoted.strip_prefix('"') {
                        Some(behind) => {
                            element.push('"');
                            quoted = behind;
                        }
                        None => break,
                    }
                }
                rest = quoted.trim_start();
                (element, true)
            }
            None => {
                let end = rest.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(rest.len());
                let element = rest[..end].to_lowercase();
                rest = rest[end..].trim_start();
                (element, false)
            }
        };
        if element.is_empty() && !may_be_empty {
            return None;
        }
        elements.push(element);
        match rest.strip_prefix(',') {
            Some(behind) => rest = behind.trim_start(),
            None => return rest.is_empty().then_some(elements),
        }
    }
}

/// The relations that unqualified names find.
#[derive(Debug)]
pub(super) struct Unqualified {
    pub(super) session: Arc<SessionCatalog>,
    pub(super) row_ids: bool,
}

impl Unqualified {
    /// The provider of the first namespace that has the relation.
    fn holder(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let catalog = self.session.catalog();
        let path = SearchPath::current();
        let session = || Arc::clone(&self.session);
        for namespace in path.of_relation(name) {
            if namespace == PG_CATALOG {
                if pg_catalog::exists(name) {
                    return Some(Arc::new(PgCatalog { session: session() }));
                }
            } else if namespace == INFORMATION_SCHEMA {
                let schema = InformationSchema { session: session() };
                if schema.table_exist(name) {
                    return Some(Arc::new(schema));
                }
            } else if view::is_object(&catalog, namespace, name)
                || numbered_column(&catalog, namespace, name).is_some()
                || namespace == crate::workers::NAMESPACE
            {
                return Some(self.namespace(namespace));
            }
        }
        // The name of a file has no namespace.
        let is_file = view::file_named(name).is_some();
        is_file.then(|| self.namespace(UNQUALIFIED))
    }

    fn namespace(&self, name: &str) -> Arc<dyn SchemaProvider> {
        let (session, namespace) = (Arc::clone(&self.session), name.to_owned());
        Arc::new(Namespace { session, namespace, row_ids: self.row_ids })
    }
}

#[async_trait]
impl SchemaProvider for Unqualified {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        match self.holder(name) {
            Some(holder) => holder.table(name).await,
            None => self.session.registered_table(name).map(view::in_own_types).transpose(),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.holder(name).is_some() || self.session.registered_table(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_as_identifiers() {
        let elements = |list: &str| split(list).map(|elements| elements.join("|"));
        for (list, expected) in [
            ("", Some("")),
            ("  ", Some("")),
            ("a", Some("a")),
            ("A , b,c", Some("a|b|c")),
            ("\"$user\", public", Some("$user|public")),
            ("$user,\"A b\"", Some("$user|A b")),
            ("\"a\"\"b\"", Some("a\"b")),
            ("a b", None),
            ("a,", None),
            (",a", None),
            ("\"a", None),
            ("\"\"", Some("")),
            ("\"\", public", Some("|public")),
        ] {
            assert_eq!(elements(list).as_deref(), expected, "{list}");
        }
    }

    #[test]
    fn paths_have_existing_namespaces_once() {
        let catalog = Catalog::default();
        let path = |setting| SearchPath::new(Some(setting), Some("eve"), &catalog);
        let all = |setting| path(setting).all().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(all("\"$user\", public"), "pg_catalog public");
        assert_eq!(all("public, missing, PUBLIC"), "pg_catalog public");
        assert_eq!(all("public, pg_catalog"), "public pg_catalog");
        assert_eq!(all("information_schema"), "pg_catalog information_schema");
        assert_eq!(all(""), "pg_catalog");
        let found = path("public");
        assert_eq!(found.of_relation("t").collect::<Vec<_>>(), ["pg_catalog", "public"]);
        assert_eq!(found.of_relation("thalweg_t").collect::<Vec<_>>(), ["public", "pg_catalog"]);
        assert_eq!(path("").target(), None);
        assert!(path("$user,public").is_initial() && !path("").is_initial());
    }
}
