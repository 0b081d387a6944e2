//! The whole crate once over the machine's own file system.

use std::path::Path;

use thalweg_env::Env;
use thalweg_log::{
    CheckpointReader, CheckpointWriter, Coverage, DataDirectory, DirectoryMode, Finding,
    LogOptions, LogWriter, Record, RecordRef, Recovered, open, verify,
};
use thalweg_types::{Lsn, Result, SqlState};

const SMALL_SEGMENTS: LogOptions = LogOptions { segment_bytes: 4096, ahead_bytes: 1500 };

fn open_log(
    env: &Env,
    directory: &DataDirectory,
    covered: Coverage,
) -> Result<(LogWriter, Recovered, Vec<Record>)> {
    let mut records = Vec::new();
    let (writer, recovered) = open(
        env,
        directory,
        SMALL_SEGMENTS,
        covered,
        &mut |record| {
            records.push(record);
            Ok(())
        },
        &mut |_, _| {},
    )?;
    Ok((writer, recovered, records))
}

fn create(env: &Env, path: &Path) -> DataDirectory {
    DataDirectory::open(env, path, DirectoryMode::CreateOrOpen).unwrap()
}

#[test]
fn a_database_is_written_recovered_checkpointed_and_verified() {
    let env = Env::real();
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("below/database");
    let directory = create(&env, &path);
    let (mut log, recovered, records) = open_log(&env, &directory, Coverage::default()).unwrap();
    assert_eq!((recovered.records, records.len()), (0, 0));

    for lsn in 1..=20_u64 {
        let payload = vec![lsn as u8; 700];
        let parts = [&payload[..300], &payload[300..], &[]];
        log.append(&[
            RecordRef { lsn: Lsn(lsn), kind: 7, payload: &parts },
            RecordRef { lsn: Lsn(lsn), kind: 8, payload: &[] },
        ])
        .unwrap();
        log.sync().unwrap();
    }
    let size = log.bytes_on_disk();
    log.close().unwrap();

    let (mut log, recovered, records) = open_log(&env, &directory, Coverage::default()).unwrap();
    assert!(recovered.clean_close);
    assert_eq!((recovered.last_lsn, recovered.records), (Lsn(20), 40));
    assert_eq!((records[6].lsn, &records[6].payload), (Lsn(4), &vec![4; 700]));
    assert_eq!((records[39].kind, records[39].payload.len()), (8, 0));

    let (mut files, mut stored) = (Vec::new(), None);
    for lsn in [Lsn(12), Lsn(15)] {
        let coverage = Coverage { lsn, log_from: lsn.next() };
        let mut checkpoint = CheckpointWriter::create(&env, &directory, coverage, &files).unwrap();
        checkpoint.section(1, 10, &[b"schema"]).unwrap();
        checkpoint.section(2, 11, &[&vec![5; 3_000_000], &[6; 10]]).unwrap();
        match stored {
            None => stored = Some(checkpoint.store(3, 12, 4, &[&[7; 2_000_000], &[8]]).unwrap()),
            Some(stored) => checkpoint.refer(3, 12, 4, stored),
        }
        let written = checkpoint.finish().unwrap();
        assert_eq!(written.bytes > 5_000_000, lsn == Lsn(12));
        files = written.files;
    }
    assert_eq!(files.len(), 1);
    assert!(log.remove_before(Lsn(16)).unwrap() > 0);
    assert!(log.bytes_on_disk() < size);
    drop(log);

    let checkpoint = CheckpointReader::open_newest(&env, &directory).unwrap().unwrap();
    assert_eq!((checkpoint.lsn(), checkpoint.sections().len()), (Lsn(15), 3));
    assert_eq!(checkpoint.read(0).unwrap(), b"schema");
    assert_eq!(checkpoint.read(1).unwrap()[2_999_999..], [5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6]);
    assert_eq!(checkpoint.read(2).unwrap()[1_999_999..], [7, 8]);
    let (_, _, records) = open_log(&env, &directory, checkpoint.coverage()).unwrap();
    let uncovered = records.iter().filter(|record| record.lsn > Lsn(15));
    assert_eq!((uncovered.count(), records.len() < 40), (10, true));
    let incomplete = open_log(&env, &directory, Coverage::default()).err().unwrap();
    assert_eq!(incomplete.state(), SqlState::DATA_CORRUPTED);

    let in_use = verify(&env, &path, &mut |_| {}).unwrap_err();
    assert_eq!(in_use.state(), SqlState::OBJECT_IN_USE);
    drop(directory);
    let mut findings = Vec::new();
    let summary = verify(&env, &path, &mut |finding| findings.push(finding)).unwrap();
    assert_eq!((summary.problems, summary.checkpoint_lsn), (0, Some(Lsn(15))));
    assert_eq!(summary.log_lsns.unwrap().1, Lsn(20));
    assert!(findings.iter().all(|finding| !matches!(finding, Finding::Problem(_))));
}
