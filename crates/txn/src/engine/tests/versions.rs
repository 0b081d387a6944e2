//! Directories that earlier versions of the program wrote.

use thalweg_env::{Env, FileSystem, OpenMode};
use thalweg_log::{Finding, verify};

use super::model::{Row, add_number, schema};
use super::session::image;
use super::world::{World, options};
use crate::{Durability, Engine};

/// The files of [`fill`], written by the last program with checkpoints of version 1.
const FILES: [(&str, &[u8]); 4] = [
    ("FORMAT", include_bytes!("fixtures/checkpoint-1/FORMAT")),
    ("HEADS", include_bytes!("fixtures/checkpoint-1/HEADS")),
    (
        "log/log-00000000000000000006.tls",
        include_bytes!("fixtures/checkpoint-1/log/log-00000000000000000006.tls"),
    ),
    (
        "checkpoint/checkpoint-00000000000000000005.tck",
        include_bytes!("fixtures/checkpoint-1/checkpoint/checkpoint-00000000000000000005.tck"),
    ),
];

/// Writes tables with closed and open chunks, dead rows, and an added column; then a checkpoint,
/// and more rows.
fn fill(world: &mut World) {
    world.start().unwrap();
    let row = |key: i64| Row { tag: Some(format!("tag {key}")), numbers: vec![Some(key * 3)] };
    let rows = |keys: std::ops::Range<i64>| keys.map(|key| (key, row(key))).collect::<Vec<_>>();
    let ids = ["t", "u", "v"].map(|name| {
        let (mut session, stamp) = (world.begin(), world.stamp());
        let id = world.engine().allocate_table_id();
        session.create(schema(id, name), stamp);
        session.bulk(world.engine(), id, &rows(0..300), stamp);
        world.commit(session, Durability::Fsync).unwrap();
        id
    });
    let (mut session, stamp) = (world.begin(), world.stamp());
    (0..300).step_by(7).for_each(|key| session.remove(ids[0], key).unwrap());
    session.insert_all(ids[0], &rows(1_000..1_020), stamp);
    session.drop_table(ids[2], stamp);
    world.commit(session, Durability::Fsync).unwrap();
    let (mut session, stamp) = (world.begin(), world.stamp());
    let mut wider = session.view.tables[&ids[1]].schema.clone();
    add_number(&mut wider);
    session.alter(wider, Some(77), stamp);
    world.commit(session, Durability::Fsync).unwrap();
    world.checkpoint().unwrap();
    let (mut session, stamp) = (world.begin(), world.stamp());
    session.insert_all(ids[0], &rows(2_000..2_010), stamp);
    session.remove(ids[1], 5).unwrap();
    world.commit(session, Durability::Fsync).unwrap();
}

#[test]
fn a_directory_with_a_checkpoint_of_version_1_opens() {
    let mut world = World::new(8);
    fill(&mut world);
    let expected = world.committed.image();
    let (env, disk, _) = Env::simulated(1);
    let root = options().directory.unwrap();
    for (name, bytes) in FILES {
        let path = root.join(name);
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        disk.open(&path, OpenMode::CreateNew).unwrap().write_all_at(bytes, 0).unwrap();
    }
    let names = |directory: &str| disk.list(&root.join(directory)).unwrap();
    let old = names("checkpoint");
    for writes in [false, true, false] {
        let mut findings = Vec::new();
        let summary = verify(&env, &root, &mut |finding| findings.push(finding)).unwrap();
        assert_eq!(summary.problems, 0, "{findings:?}");
        assert!(findings.iter().any(|finding| matches!(finding, Finding::Checkpoint { .. })));
        let engine = Engine::open(env.clone(), options()).unwrap();
        assert_eq!(image(&engine.snapshot()).unwrap(), expected);
        if writes {
            assert_eq!(names("checkpoint"), old, "it was only read so far");
            engine.checkpoint().unwrap();
            assert_ne!(names("checkpoint"), old);
        }
        engine.close().unwrap();
    }
    assert!(names("checkpoint").iter().any(|name| name.starts_with("chunks-")));
}
