//! Roles, owners and grants on a disk: logged, in checkpoints, and absent from old directories.

use thalweg_env::{Env, SimulatedDisk};
use thalweg_types::{SqlState, TableId};

use super::model::schema;
use super::world::options;
use crate::{
    AccessChange, Catalog, CatalogChange, Durability, Engine, Grant, Membership, Privilege,
    Privileges, RoleChange, RoleId, RoleOption, Secret, Securable, Transaction,
};

fn commit(engine: &Engine, changes: Vec<CatalogChange>) -> thalweg_types::Result<()> {
    let mut transaction = Transaction::new(engine.snapshot());
    for change in changes {
        transaction.change_catalog(change)?;
    }
    engine.commit_and_wait(transaction.into_write_set()?, Durability::Fsync).map(drop)
}

fn create_role(id: RoleId, name: &str) -> CatalogChange {
    let options = vec![
        RoleOption::Login(true),
        RoleOption::Password(Some(Secret("a verifier".to_owned()))),
        RoleOption::ValidUntil(Some(7)),
        RoleOption::ConnectionLimit(Some(3)),
    ];
    CatalogChange::Role(RoleChange::Create { id, name: name.to_owned(), options })
}

/// Ann owns the table, bob may read it and is a member of ann's role.
fn populated(engine: &Engine) -> (RoleId, RoleId) {
    let (ann, bob) = (engine.allocate_role_id(), engine.allocate_role_id());
    let table = engine.allocate_table_id();
    let object = Securable::relation("public", "t");
    let grant = Grant {
        grantee: Some(bob),
        grantor: ann,
        privileges: Privilege::Select.into(),
        grantable: Privileges::NONE,
    };
    let membership = Membership { admin: false, grantor: RoleId::BOOTSTRAP };
    let changes = vec![
        create_role(ann, "ann"),
        create_role(bob, "bob"),
        CatalogChange::CreateTable { schema: schema(table, "t") },
        CatalogChange::Access(AccessChange::Own { object: object.clone(), owner: ann }),
        CatalogChange::Access(AccessChange::Grant { object, grant }),
        CatalogChange::Role(RoleChange::Join { role: ann, member: bob, membership }),
    ];
    commit(engine, changes).unwrap();
    (ann, bob)
}

fn crash(disk: &mut SimulatedDisk, env: &Env) -> Engine {
    *disk = disk.crash();
    Engine::open(env.with_files(disk.clone()), options()).unwrap()
}

#[test]
fn the_log_and_checkpoints_bring_back_all_of_it() {
    let (env, mut disk, _) = Env::simulated(1);
    let engine = Engine::open(env.clone(), options()).unwrap();
    populated(&engine);
    let before = engine.snapshot().catalog().as_ref().clone();
    drop(engine);

    let from_log = crash(&mut disk, &env);
    assert_eq!(**from_log.snapshot().catalog(), before);
    from_log.checkpoint().unwrap();
    drop(from_log);

    let from_checkpoint = crash(&mut disk, &env);
    let snapshot = from_checkpoint.snapshot();
    assert_eq!(**snapshot.catalog(), before);
    let next = snapshot.catalog().roles().iter().map(|role| role.id).max().unwrap();
    assert!(from_checkpoint.allocate_role_id() > next, "ids are not given twice");
}

#[test]
fn a_role_that_is_needed_stays_and_its_objects_keep_their_grants() {
    let (env, _disk, _) = Env::simulated(2);
    let engine = Engine::open(env, options()).unwrap();
    let (ann, bob) = populated(&engine);
    let drop = |id| CatalogChange::Role(RoleChange::Drop { id });
    for id in [ann, bob, RoleId::BOOTSTRAP, RoleId::MONITOR] {
        let error = commit(&engine, vec![drop(id)]).unwrap_err();
        assert_eq!(error.state(), SqlState::DEPENDENT_OBJECTS, "{id:?}");
    }

    let table = engine.snapshot().catalog().tables().next().unwrap().schema.id;
    let renamed =
        CatalogChange::AlterTable { schema: schema(table, "renamed"), added: None, expected: None };
    commit(&engine, vec![renamed]).unwrap();
    let snapshot = engine.snapshot();
    let object = Securable::relation("public", "renamed");
    assert_eq!(snapshot.catalog().access(&object).owner, ann);
    // Bob is a member of ann's role, which owns the table.
    assert_eq!(snapshot.catalog().privileges(bob, &object), Privileges::RELATION);

    commit(&engine, vec![CatalogChange::DropTable { id: table }, drop(ann), drop(bob)]).unwrap();
    assert!(engine.snapshot().catalog().roles().named("ann").is_none());
}

#[test]
fn a_role_that_was_dropped_meanwhile_can_be_given_nothing() {
    let (env, _disk, _) = Env::simulated(3);
    let engine = Engine::open(env, options()).unwrap();
    let ann = engine.allocate_role_id();
    commit(&engine, vec![create_role(ann, "ann")]).unwrap();
    let mut late = Transaction::new(engine.snapshot());
    let object = Securable::Namespace("public".to_owned());
    let own = AccessChange::Own { object, owner: ann };
    late.change_catalog(CatalogChange::Access(own)).unwrap();
    commit(&engine, vec![CatalogChange::Role(RoleChange::Drop { id: ann })]).unwrap();
    let write_set = late.into_write_set().unwrap();
    let error = engine.commit_and_wait(write_set, Durability::Fsync).unwrap_err();
    assert_eq!(error.state(), SqlState::UNDEFINED_OBJECT);
}

/// What was written before there were roles.
#[test]
fn in_an_old_catalog_everything_belongs_to_the_bootstrap_role() {
    let old = r#"{
        "namespaces": {"public": {"v": {"View": {"query": "SELECT 1", "columns": []}}}},
        "names": {},
        "next_table_id": 4,
        "version": 9
    }"#;
    let catalog: Catalog = serde_json::from_str(old).unwrap();
    assert_eq!(catalog.roles(), Catalog::default().roles());
    let view = Securable::relation("public", "v");
    assert_eq!(catalog.access(&view).owner, RoleId::BOOTSTRAP);
    assert_eq!(catalog.privileges(RoleId::BOOTSTRAP, &view), Privileges::RELATION);
    assert_eq!(catalog.next_table_id(), TableId(4).0);
}
