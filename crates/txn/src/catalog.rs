//! The catalog: every object that SQL can name. It is immutable; a change makes a new catalog.
//!
//! Changes travel in the same groups as rows, so that a schema and the rows under it never
//! disagree.

mod access;
mod comments;
mod dependents;
mod privilege;
mod references;
mod roles;
mod setting_defaults;
mod temporary;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thalweg_types::{Error, Lsn, Result, SqlState, TableId, TableSchema};

use crate::sequence::Sequence;
use access::AccessLists;
pub use access::{Access, AccessChange, Grant, Securable, access_item};
use comments::Comments;
pub use comments::{CommentChange, CommentPart, CommentedObject};
pub use dependents::{Dependency, Dependent, DropReason, Referenced, cannot_drop};
pub use privilege::{Privilege, Privileges};
use references::References;
pub use references::{InKeyOrder, no_referenced_key};
pub use roles::{
    BOOTSTRAP_ROLE, Membership, Role, RoleChange, RoleId, RoleOption, Roles, Secret, no_role,
};
use setting_defaults::SettingDefaults;
pub use setting_defaults::{SettingDefaultChange, SettingTarget};
pub use temporary::{is_temporary_namespace, temporary_namespace};
pub use view::{BoundColumn, BoundRelation, BoundSource, View, ViewBinding};

/// The namespace of unqualified names.
pub const DEFAULT_NAMESPACE: &str = "public";

/// A table and when its schema last changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableEntry {
    pub schema: Arc<TableSchema>,
    /// The group that last created or altered the table. Rows prepared for another version do not
    /// fit.
    pub version: Lsn,
}

/// A table whose rows stay in files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExternalTable {
    pub location: String,
    pub format: String,
    pub options: BTreeMap<String, String>,
    /// Names and SQL types of the columns; empty if the files determine them.
    pub columns: Vec<(String, String)>,
}

/// Object behind a name in a namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Object {
    Table(TableEntry),
    View(View),
    External(ExternalTable),
    Sequence(Sequence),
}

impl Object {
    /// The kind's name for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Object::Table(_) => "table",
            Object::View(_) => "view",
            Object::External(_) => "external table",
            Object::Sequence(_) => "sequence",
        }
    }
}

/// The table of every index, by namespace and name.
type IndexNames = BTreeMap<String, BTreeMap<String, TableId>>;

/// Every object by namespace and name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    namespaces: BTreeMap<String, Arc<BTreeMap<String, Object>>>,
    names: BTreeMap<TableId, (String, String)>,
    // Databases written before indexes existed have none.
    #[serde(default)]
    indexes: Arc<IndexNames>,
    // Catalogs without foreign keys are written as before foreign keys existed.
    #[serde(default, skip_serializing_if = "has_no_references")]
    references: Arc<References>,
    /// Greater than the id of every table that ever existed.
    next_table_id: u32,
    /// The group that last changed the catalog. Cached plans compare it to see if they are still
    /// valid.
    version: Lsn,
    // Databases written before roles existed have the bootstrap role, which owns everything.
    #[serde(default)]
    roles: Arc<Roles>,
    #[serde(default)]
    access: Arc<AccessLists>,
    // Catalogs without comments are written as before comments existed.
    #[serde(default, skip_serializing_if = "has_no_comments")]
    comments: Arc<Comments>,
    // Catalogs without defaults of settings are written as before these existed.
    #[serde(default, skip_serializing_if = "has_no_setting_defaults")]
    setting_defaults: Arc<SettingDefaults>,
    /// The namespace of temporary objects of the session that reads this catalog, if it has one.
    #[serde(skip)]
    temporary: Option<Arc<str>>,
}

fn has_no_references(references: &Arc<References>) -> bool {
    references.is_empty()
}

fn has_no_comments(comments: &Arc<Comments>) -> bool {
    comments.is_empty()
}

fn has_no_setting_defaults(defaults: &Arc<SettingDefaults>) -> bool {
    defaults.is_empty()
}

/// Access lists and comments, which are stored by the names of their objects. An object that is
/// replaced or renamed keeps them.
struct Attached {
    access: Arc<AccessLists>,
    comments: Arc<Comments>,
}

impl Default for Catalog {
    fn default() -> Catalog {
        Catalog {
            namespaces: BTreeMap::from([(DEFAULT_NAMESPACE.to_owned(), Arc::default())]),
            names: BTreeMap::new(),
            indexes: Arc::default(),
            references: Arc::default(),
            next_table_id: 1,
            version: Lsn(0),
            roles: Arc::default(),
            access: Arc::default(),
            comments: Arc::default(),
            setting_defaults: Arc::default(),
            temporary: None,
        }
    }
}

/// One step from a catalog to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CatalogChange {
    CreateNamespace {
        name: String,
    },
    DropNamespace {
        name: String,
    },
    CreateTable {
        schema: TableSchema,
    },
    /// Also renames: the new schema holds the new name and namespace.
    AlterTable {
        schema: TableSchema,
        /// For added columns, the value of existing rows, as an encoded batch of one row.
        added: Option<Vec<u8>>,
        /// The table's version that the change was made for.
        expected: Option<Lsn>,
    },
    DropTable {
        id: TableId,
    },
    /// Creates a view or an external table. With `replace`, it replaces one of that name.
    Define {
        namespace: String,
        name: String,
        object: Object,
        replace: bool,
    },
    /// Drops a view or an external table.
    Undefine {
        namespace: String,
        name: String,
    },
    Role(RoleChange),
    Access(AccessChange),
    Comment(CommentChange),
    SettingDefault(SettingDefaultChange),
}

impl Catalog {
    /// The group that last changed the catalog.
    #[must_use]
    pub fn version(&self) -> Lsn {
        self.version
    }

    /// An id greater than that of every table that ever existed.
    #[must_use]
    pub fn next_table_id(&self) -> u32 {
        self.next_table_id
    }

    /// The names of all namespaces, in ascending order.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(String::as_str)
    }

    /// True if the namespace exists, even if it is empty.
    #[must_use]
    pub fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.contains_key(name)
    }

    /// The objects of a namespace, ascending by name; none if the namespace does not exist.
    pub fn objects(&self, namespace: &str) -> impl Iterator<Item = (&str, &Object)> {
        self.namespaces
            .get(namespace)
            .into_iter()
            .flat_map(|objects| objects.iter().map(|(name, object)| (name.as_str(), object)))
    }

    /// The table, view or external table of this name. Indexes are found by
    /// [`table_of_index`](Self::table_of_index).
    #[must_use]
    pub fn object(&self, namespace: &str, name: &str) -> Option<&Object> {
        self.namespaces.get(namespace)?.get(name)
    }

    /// A table by its id, which survives renames.
    #[must_use]
    pub fn table(&self, id: TableId) -> Option<&TableEntry> {
        let (namespace, name) = self.names.get(&id)?;
        match self.object(namespace, name) {
            Some(Object::Table(entry)) => Some(entry),
            _ => None,
        }
    }

    /// A sequence by its id, with its namespace and name.
    #[must_use]
    pub fn sequence(&self, id: TableId) -> Option<(&str, &str, &Sequence)> {
        let (namespace, name) = self.names.get(&id)?;
        match self.object(namespace, name) {
            Some(Object::Sequence(sequence)) => Some((namespace, name, sequence)),
            _ => None,
        }
    }

    /// All sequences with their namespaces and names, ascending by id.
    pub fn sequences(&self) -> impl Iterator<Item = (&str, &str, &Sequence)> {
        self.names.keys().filter_map(|id| self.sequence(*id))
    }

    /// All tables, ascending by id.
    pub fn tables(&self) -> impl Iterator<Item = &TableEntry> {
        self.names.keys().filter_map(|id| self.table(*id))
    }

    /// The table that has an index of this name.
    #[must_use]
    pub fn table_of_index(&self, namespace: &str, name: &str) -> Option<&TableEntry> {
        self.table(*self.indexes.get(namespace)?.get(name)?)
    }

    /// All roles and their memberships.
    #[must_use]
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The owner of an object, and the grants on it.
    #[must_use]
    pub fn access(&self, object: &Securable) -> &Access {
        self.access.of(object)
    }

    /// The privileges that `ALL PRIVILEGES` on an object grants.
    #[must_use]
    pub fn all_privileges(&self, object: &Securable) -> Privileges {
        if let Securable::Relation { namespace, name } = object
            && let Some(Object::Sequence(_)) = self.object(namespace, name)
        {
            return Privileges::SEQUENCE;
        }
        object.all_privileges()
    }

    /// All privileges on an object: the owner's first, then those granted to others.
    pub fn grants(&self, object: &Securable) -> impl Iterator<Item = Grant> {
        let own = self.owner_grant(object);
        let own = Grant { grantable: own.privileges, ..own };
        std::iter::once(own).chain(self.access(object).grants().iter().copied())
    }

    /// The owner's privileges as an entry of the access list. It shows no grant options, although
    /// the owner may grant all of the privileges.
    #[must_use]
    pub fn owner_grant(&self, object: &Securable) -> Grant {
        let owner = self.access(object).owner;
        let privileges = self.all_privileges(object);
        Grant { grantee: Some(owner), grantor: owner, privileges, grantable: Privileges::NONE }
    }

    /// Effective privileges of a role on an object: by ownership, and by grants to itself, to
    /// everybody, and to the roles whose privileges it has. A dropped role has none.
    #[must_use]
    pub fn privileges(&self, role: RoleId, object: &Securable) -> Privileges {
        let access = self.access(object);
        if self.roles.has_privileges_of(role, access.owner) {
            return self.all_privileges(object);
        }
        if self.roles.get(role).is_none() {
            return Privileges::NONE;
        }
        let held = |grant: &&Grant| {
            grant.grantee.is_none_or(|grantee| self.roles.has_privileges_of(role, grantee))
        };
        let granted = access.grants().iter().filter(held);
        let granted = granted.fold(Privileges::NONE, |all, grant| all.and(grant.privileges));
        granted.and(self.privileges_on_all_data(role, object))
    }

    fn privileges_on_all_data(&self, role: RoleId, object: &Securable) -> Privileges {
        const READ: &[Privilege] = &[Privilege::Select];
        const WRITE: &[Privilege] = &[Privilege::Insert, Privilege::Update, Privilege::Delete];
        let all = [(RoleId::READ_ALL_DATA, READ), (RoleId::WRITE_ALL_DATA, WRITE)];
        all.into_iter()
            .filter(|(of, _)| self.roles.has_privileges_of(role, *of))
            .flat_map(|(_, privileges)| match object {
                Securable::Relation { .. } => privileges,
                Securable::Namespace(_) => &[Privilege::Usage],
                Securable::Database => &[],
            })
            .copied()
            .collect()
    }

    /// The catalog after a change, made by the group `lsn`.
    ///
    /// # Errors
    /// If a name is taken, or an object is missing or was altered meanwhile.
    pub fn after(&self, change: &CatalogChange, lsn: Lsn) -> Result<Catalog> {
        let mut next = self.clone();
        next.version = lsn;
        match change {
            CatalogChange::CreateNamespace { name } => next.create_namespace(name)?,
            CatalogChange::DropNamespace { name } => next.drop_namespace(name)?,
            CatalogChange::CreateTable { schema } => next.create_table(schema, lsn)?,
            CatalogChange::AlterTable { schema, expected, .. } => {
                next.alter_table(schema, *expected, lsn)?;
            }
            CatalogChange::DropTable { id } => next.drop_table(*id)?,
            CatalogChange::Define { namespace, name, object, replace } => {
                next.define(namespace, name, object, *replace)?;
            }
            CatalogChange::Undefine { namespace, name } => {
                next.refuse_dependents(&[next.referenced(namespace, name)])?;
                next.remove(namespace, name)?;
            }
            CatalogChange::Role(change) => next.change_role(change)?,
            CatalogChange::Access(change) => next.change_access(change)?,
            CatalogChange::Comment(change) => next.change_comment(change)?,
            CatalogChange::SettingDefault(change) => next.change_setting_default(change)?,
        }
        Ok(next)
    }

    fn create_namespace(&mut self, name: &str) -> Result<()> {
        if self.has_namespace(name) {
            let message = format!("schema \"{name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_SCHEMA, message));
        }
        self.namespaces.insert(name.to_owned(), Arc::default());
        if is_temporary_namespace(name) {
            self.temporary = Some(name.into());
        }
        Ok(())
    }

    fn drop_namespace(&mut self, name: &str) -> Result<()> {
        let objects = self.namespaces.get(name).ok_or_else(|| no_namespace(name))?;
        if !objects.is_empty() {
            return Err(self.not_empty(name));
        }
        self.namespaces.remove(name);
        self.temporary = self.temporary.take().filter(|temporary| temporary.as_ref() != name);
        self.forget_attached(&Securable::Namespace(name.to_owned()));
        Ok(())
    }

    fn create_table(&mut self, schema: &TableSchema, lsn: Lsn) -> Result<()> {
        let entry = TableEntry { schema: Arc::new(schema.clone()), version: lsn };
        self.insert(&schema.namespace, &schema.name, Object::Table(entry))?;
        self.names.insert(schema.id, (schema.namespace.clone(), schema.name.clone()));
        self.add_indexes(schema)?;
        self.add_references(schema);
        self.check_references_of(schema)?;
        self.next_table_id = self.next_table_id.max(schema.id.0 + 1);
        Ok(())
    }

    /// Adds the names of a table's indexes.
    fn add_indexes(&mut self, schema: &TableSchema) -> Result<()> {
        for index in &schema.indexes {
            let name = &index.key.name;
            if self.is_taken(&schema.namespace, name) {
                return Err(name_taken(name));
            }
            let indexes = Arc::make_mut(&mut self.indexes);
            let indexes = indexes.entry(schema.namespace.clone()).or_default();
            indexes.insert(name.clone(), schema.id);
        }
        Ok(())
    }

    fn forget_indexes(&mut self, schema: &TableSchema) {
        if schema.indexes.is_empty() {
            return;
        }
        let indexes = Arc::make_mut(&mut self.indexes).get_mut(&schema.namespace);
        let indexes = indexes.expect("the namespace of an index that is known");
        for index in &schema.indexes {
            indexes.remove(&index.key.name);
        }
    }

    /// True if an object or index of a namespace has the name.
    fn is_taken(&self, namespace: &str, name: &str) -> bool {
        self.object(namespace, name).is_some() || self.table_of_index(namespace, name).is_some()
    }

    fn alter_table(&mut self, schema: &TableSchema, expected: Option<Lsn>, lsn: Lsn) -> Result<()> {
        let current = self.table(schema.id).ok_or_else(|| no_table(&schema.name))?;
        if expected.is_some_and(|expected| expected != current.version) {
            return Err(altered_meanwhile(&schema.name));
        }
        self.refuse_lost_columns(&current.schema, schema)?;
        let before = Arc::clone(&current.schema);
        self.refuse_lost_keys(&current.schema, schema)?;
        let (namespace, name) = self.names[&schema.id].clone();
        let attached = self.attached();
        self.remove(&namespace, &name)?;
        self.create_table(schema, lsn)?;
        self.restore(attached);
        let from = Securable::Relation { namespace, name };
        let to = Securable::relation(&schema.namespace, &schema.name);
        let commented = CommentedObject::Object(from.clone());
        if self.comments.has(&commented) {
            Arc::make_mut(&mut self.comments).follow(&commented, &before, schema);
        }
        self.rename_attached(&from, to);
        Ok(())
    }

    fn drop_table(&mut self, id: TableId) -> Result<()> {
        self.refuse_dependents(&[Referenced::Table(id)])?;
        let (namespace, name) = self.names.remove(&id).ok_or_else(table_is_gone)?;
        self.remove(&namespace, &name)
    }

    fn define(
        &mut self,
        namespace: &str,
        name: &str,
        object: &Object,
        replace: bool,
    ) -> Result<()> {
        match object {
            Object::Sequence(sequence) => {
                return self.define_sequence(namespace, name, sequence, replace);
            }
            Object::View(view) => self.check_binding(namespace, view)?,
            Object::Table(_) | Object::External(_) => {}
        }
        match self.object(namespace, name) {
            Some(Object::Table(_) | Object::Sequence(_)) => return Err(name_taken(name)),
            Some(_) if replace => {
                let attached = self.attached();
                self.remove(namespace, name)?;
                self.restore(attached);
            }
            _ => {}
        }
        self.insert(namespace, name, object.clone())
    }

    /// Adds a sequence. With `replace`, the sequence of that id exists, perhaps under another name.
    fn define_sequence(
        &mut self,
        namespace: &str,
        name: &str,
        sequence: &Sequence,
        replace: bool,
    ) -> Result<()> {
        let before = self.names.get(&sequence.id).cloned();
        if replace != before.is_some() {
            return Err(if replace { no_table(name) } else { name_taken(name) });
        }
        let attached = self.attached();
        if let Some((namespace, name)) = &before {
            self.remove(namespace, name)?;
        }
        self.insert(namespace, name, Object::Sequence(sequence.clone()))?;
        self.restore(attached);
        self.names.insert(sequence.id, (namespace.to_owned(), name.to_owned()));
        self.next_table_id = self.next_table_id.max(sequence.id.0 + 1);
        let to = Securable::relation(namespace, name);
        if let Some((namespace, name)) = before {
            self.rename_attached(&Securable::Relation { namespace, name }, to);
        }
        Ok(())
    }

    fn change_role(&mut self, change: &RoleChange) -> Result<()> {
        if let RoleChange::Drop { id } = change {
            self.is_not_needed(*id)?;
            self.forget_comments(&CommentedObject::Role(*id));
            if self.setting_defaults.has(*id) {
                Arc::make_mut(&mut self.setting_defaults).forget(*id);
            }
        }
        Arc::make_mut(&mut self.roles).change(change)
    }

    /// Fails if a role owns an object or holds a grant, and so cannot be dropped.
    fn is_not_needed(&self, id: RoleId) -> Result<()> {
        let role = self.roles.get(id).ok_or_else(|| roles::no_role_with(id))?;
        if id.is_built_in() {
            let message = format!(
                "cannot drop role {} because it is required by the database system",
                role.name
            );
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message));
        }
        let depend: Vec<String> = self
            .access
            .involving(id)
            .map(|(object, owns)| {
                let relation = if owns { "owner of" } else { "privileges for" };
                format!("{relation} {}", self.description(object))
            })
            .collect();
        if depend.is_empty() {
            return Ok(());
        }
        let message =
            format!("role \"{}\" cannot be dropped because some objects depend on it", role.name);
        Err(Error::new(SqlState::DEPENDENT_OBJECTS, message).with_detail(depend.join("\n")))
    }

    /// `table t`, `view s.v`, `schema s`: an object's description for messages.
    #[must_use]
    pub fn description(&self, object: &Securable) -> String {
        match object {
            Securable::Database => "database thalweg".to_owned(),
            Securable::Namespace(name) => format!("schema {name}"),
            Securable::Relation { namespace, name } => {
                let kind = self.object(namespace, name).map_or("table", Object::kind);
                match namespace.as_str() {
                    DEFAULT_NAMESPACE => format!("{kind} {name}"),
                    own if is_temporary_namespace(own) => format!("{kind} {name}"),
                    _ => format!("{kind} {namespace}.{name}"),
                }
            }
        }
    }

    fn check_exists(&self, object: &Securable) -> Result<()> {
        match object {
            Securable::Database => Ok(()),
            Securable::Namespace(name) if self.has_namespace(name) => Ok(()),
            Securable::Namespace(name) => Err(no_namespace(name)),
            Securable::Relation { namespace, name } => {
                self.object(namespace, name).map(|_| ()).ok_or_else(|| no_table(name))
            }
        }
    }

    fn change_access(&mut self, change: &AccessChange) -> Result<()> {
        self.check_exists(change.object())?;
        // The engine of temporary objects knows no roles. The session has found them.
        if !change.is_temporary()
            && let Some(gone) = change.roles().find(|role| self.roles.get(*role).is_none())
        {
            return Err(roles::no_role_with(gone));
        }
        Arc::make_mut(&mut self.access).change(change)
    }

    fn change_comment(&mut self, change: &CommentChange) -> Result<()> {
        match &change.object {
            CommentedObject::Object(object) => self.check_exists(object)?,
            CommentedObject::Role(id) => {
                self.roles.get(*id).ok_or_else(|| roles::no_role_with(*id))?;
            }
        }
        Arc::make_mut(&mut self.comments).change(change);
        Ok(())
    }

    fn change_setting_default(&mut self, change: &SettingDefaultChange) -> Result<()> {
        if let Some(role) = change.target.role {
            self.roles.get(role).ok_or_else(|| roles::no_role_with(role))?;
        }
        Arc::make_mut(&mut self.setting_defaults).change(change);
        Ok(())
    }

    /// The defaults of settings that were set for a target, in the order of their first setting.
    #[must_use]
    pub fn setting_defaults_of(&self, target: SettingTarget) -> &[(String, String)] {
        self.setting_defaults.of(target)
    }

    /// All targets that have defaults of settings, with these.
    pub fn setting_defaults(&self) -> impl Iterator<Item = (SettingTarget, &[(String, String)])> {
        self.setting_defaults.all()
    }

    /// All comments.
    pub fn comments(&self) -> impl Iterator<Item = (&CommentedObject, &CommentPart, &str)> {
        self.comments.all()
    }

    fn attached(&self) -> Attached {
        Attached { access: Arc::clone(&self.access), comments: Arc::clone(&self.comments) }
    }

    fn restore(&mut self, attached: Attached) {
        let Attached { access, comments } = attached;
        self.access = access;
        self.comments = comments;
    }

    fn rename_attached(&mut self, from: &Securable, to: Securable) {
        if *from == to {
            return;
        }
        let commented = CommentedObject::Object(from.clone());
        if self.comments.has(&commented) {
            let to = CommentedObject::Object(to.clone());
            Arc::make_mut(&mut self.comments).rename(&commented, to);
        }
        if self.access.has(from) {
            Arc::make_mut(&mut self.access).rename(from, to);
        }
    }

    fn forget_attached(&mut self, object: &Securable) {
        self.forget_comments(&CommentedObject::Object(object.clone()));
        if self.access.has(object) {
            Arc::make_mut(&mut self.access).forget(object);
        }
    }

    fn forget_comments(&mut self, object: &CommentedObject) {
        if self.comments.has(object) {
            Arc::make_mut(&mut self.comments).forget(object);
        }
    }

    fn insert(&mut self, namespace: &str, name: &str, object: Object) -> Result<()> {
        if self.is_taken(namespace, name) {
            return Err(name_taken(name));
        }
        let objects = self.namespaces.get_mut(namespace).ok_or_else(|| no_namespace(namespace))?;
        Arc::make_mut(objects).insert(name.to_owned(), object);
        Ok(())
    }

    fn remove(&mut self, namespace: &str, name: &str) -> Result<()> {
        let objects = self.namespaces.get_mut(namespace).ok_or_else(|| no_namespace(namespace))?;
        let removed = Arc::make_mut(objects).remove(name).ok_or_else(|| no_table(name))?;
        if let Object::Table(entry) = &removed {
            self.forget_indexes(&entry.schema);
            self.forget_references(&entry.schema);
        }
        if let Object::Sequence(sequence) = &removed {
            self.names.remove(&sequence.id);
        }
        self.forget_attached(&Securable::relation(namespace, name));
        Ok(())
    }
}

/// Encodes catalog changes for the log and for other nodes.
///
/// # Panics
/// Never, since catalog changes have only string keys.
#[must_use]
pub fn encode_changes(changes: &[CatalogChange]) -> Vec<u8> {
    serde_json::to_vec(changes).expect("a catalog change has only string keys")
}

/// A hash of a table's schema. It keeps rows that were made for one schema from being written to
/// another.
#[must_use]
pub fn fingerprint(table: &TableSchema) -> u64 {
    let bytes = encode_changes(&[CatalogChange::CreateTable { schema: table.clone() }]);
    // FNV-1a.
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Decodes the output of [`encode_changes`].
///
/// # Errors
/// If the bytes are no catalog changes.
pub fn decode_changes(encoded: &[u8]) -> Result<Vec<CatalogChange>> {
    serde_json::from_slice(encoded)
        .map_err(|error| Error::corrupt(format!("changes of a catalog are damaged: {error}")))
}

/// `relation "…" does not exist`
#[must_use]
pub fn no_table(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

/// `schema "…" does not exist`
#[must_use]
pub fn no_namespace(name: &str) -> Error {
    Error::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}

/// `relation "…" already exists`
#[must_use]
pub fn name_taken(name: &str) -> Error {
    Error::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

/// The error of a write to a table that was dropped.
pub(crate) fn table_is_gone() -> Error {
    Error::new(
        SqlState::SERIALIZATION_FAILURE,
        "the table was dropped by another transaction meanwhile",
    )
    .with_hint("Run the transaction again.")
}

pub(crate) fn changed_meanwhile(name: &str) -> Error {
    Error::new(
        SqlState::SERIALIZATION_FAILURE,
        format!("rows of table \"{name}\" were changed by another transaction meanwhile"),
    )
    .with_hint("Run the transaction again.")
}

pub(crate) fn altered_meanwhile(name: &str) -> Error {
    Error::new(
        SqlState::SERIALIZATION_FAILURE,
        format!("table \"{name}\" was altered by another transaction meanwhile"),
    )
    .with_hint("Run the transaction again.")
}

#[cfg(test)]
mod tests {
    use thalweg_types::{Index, Key};

    use super::*;

    pub(super) fn table(id: u32, name: &str) -> TableSchema {
        TableSchema {
            id: TableId(id),
            namespace: DEFAULT_NAMESPACE.to_owned(),
            name: name.to_owned(),
            columns: Vec::new(),
            primary_key: None,
            unique: Vec::new(),
            checks: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            shard_key: None,
            next_column_id: 0,
        }
    }

    #[test]
    fn a_renamed_table_keeps_its_id_and_frees_its_name() {
        let create = |id, name| CatalogChange::CreateTable { schema: table(id, name) };
        let first = Catalog::default().after(&create(1, "a"), Lsn(1)).unwrap();
        let rename =
            CatalogChange::AlterTable { schema: table(1, "b"), added: None, expected: None };
        let second = first.after(&rename, Lsn(2)).unwrap();
        assert!(second.object("public", "a").is_none());
        assert_eq!(second.table(TableId(1)).unwrap().schema.name, "b");
        assert_eq!(second.table(TableId(1)).unwrap().version, Lsn(2));
        assert!(second.after(&create(2, "a"), Lsn(3)).is_ok());
        let taken = second.after(&create(2, "b"), Lsn(3)).unwrap_err();
        assert_eq!(taken.state(), SqlState::DUPLICATE_TABLE);
    }

    #[test]
    fn altering_an_altered_table_is_a_conflict() {
        let create = CatalogChange::CreateTable { schema: table(1, "a") };
        let catalog = Catalog::default().after(&create, Lsn(1)).unwrap();
        let alter = CatalogChange::AlterTable {
            schema: table(1, "a"),
            added: None,
            expected: Some(Lsn(0)),
        };
        let error = catalog.after(&alter, Lsn(2)).unwrap_err();
        assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
    }

    #[test]
    fn indexes_have_names_like_tables() {
        let indexed = |id, name, index: &str| {
            let key = Key { name: index.to_owned(), columns: Vec::new() };
            let index = Index { key, orders: Vec::new(), unique: false };
            TableSchema { indexes: vec![index], ..table(id, name) }
        };
        let create = |schema| CatalogChange::CreateTable { schema };
        let first = Catalog::default().after(&create(indexed(1, "a", "i")), Lsn(1)).unwrap();
        assert_eq!(first.table_of_index("public", "i").unwrap().schema.name, "a");
        for taken in [indexed(2, "b", "i"), indexed(2, "b", "a"), table(2, "i")] {
            let error = first.after(&create(taken), Lsn(2)).unwrap_err();
            assert_eq!(error.state(), SqlState::DUPLICATE_TABLE);
        }
        let alter = |schema| CatalogChange::AlterTable { schema, added: None, expected: None };
        let renamed = first.after(&alter(indexed(1, "a", "j")), Lsn(2)).unwrap();
        assert!(renamed.table_of_index("public", "i").is_none());
        assert!(renamed.table_of_index("public", "j").is_some());
        let dropped = renamed.after(&CatalogChange::DropTable { id: TableId(1) }, Lsn(3)).unwrap();
        assert!(dropped.table_of_index("public", "j").is_none());
        assert!(dropped.after(&create(table(2, "j")), Lsn(4)).is_ok());
    }

    #[test]
    fn what_was_written_before_there_were_indexes_is_read() {
        let create = CatalogChange::CreateTable { schema: table(1, "a") };
        let catalog = Catalog::default().after(&create, Lsn(1)).unwrap();
        let mut json = serde_json::to_value(&catalog).unwrap();
        assert!(json.as_object_mut().unwrap().remove("indexes").is_some());
        assert!(!json.to_string().contains("indexes"));
        assert_eq!(serde_json::from_value::<Catalog>(json).unwrap(), catalog);
    }

    #[test]
    fn a_namespace_with_objects_stays() {
        let create = CatalogChange::CreateTable { schema: table(1, "a") };
        let catalog = Catalog::default().after(&create, Lsn(1)).unwrap();
        let drop = CatalogChange::DropNamespace { name: DEFAULT_NAMESPACE.to_owned() };
        let error = catalog.after(&drop, Lsn(2)).unwrap_err();
        assert_eq!(error.state(), SqlState::DEPENDENT_OBJECTS);
    }
}
