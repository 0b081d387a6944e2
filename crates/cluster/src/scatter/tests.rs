use std::sync::atomic::Ordering;

use thalweg_env::Env;
use thalweg_types::Error;
use tokio::task::JoinHandle;
use tonic::service::Routes;

use super::*;
use crate::chunks::Message;
use crate::fan_in::{FanInOptions, Stop};
use crate::node::{NodeServer, ServeOptions, Services};
use crate::tests::*;
use crate::worker::{Holdings, WorkerNode};

struct Member {
    name: NodeName,
    map: SharedMap,
    counters: Arc<Counters>,
    task: JoinHandle<()>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn member(id: u64) -> Member {
    let (chunks, counters) = making();
    let map = SharedMap::new(ShardMap::default());
    let node = WorkerNode::new((id, 0), map.clone(), chunks, Holdings::default);
    let server = NodeServer::bind(anywhere(), ServeOptions::default()).unwrap();
    let name = NodeName { id, address: server.address().unwrap() };
    let services = Services::new(Arc::new(node.clone()), Routes::new(node.service()));
    Member { name, map, counters, task: tokio::spawn(server.serve(services)) }
}

struct Counting(u64);

impl Reader for Counting {
    fn message(&mut self, _: usize, _: Message<'_>) -> Result<(), Stop> {
        self.0 += 1;
        Ok(())
    }
}

fn gateway(map: ShardMap) -> Scatter {
    let mut options = FanInOptions::new(2, 4);
    options.link = impatient();
    let fan_in = FanIn::new(&options, &Env::real()).unwrap();
    Scatter::new(fan_in, SharedMap::new(map), impatient())
}

async fn count(gateway: &Scatter, targets: &Targets) -> Result<u64> {
    let few = Wanted { messages: 3, bytes: 10, end: End::Well }.question();
    let (readers, _) = gateway.gather(Mode::Hybrid, targets, &few, |_| Counting(0)).await?;
    Ok(readers.iter().map(|reader| reader.0).sum())
}

fn even(members: &[Member]) -> ShardMap {
    ShardMap::even(members.iter().map(|member| member.name.clone()).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_without_the_map_are_given_it() {
    let members: Vec<Member> = (0..3).map(member).collect();
    let gateway = gateway(even(&members));
    assert_eq!(count(&gateway, &Targets::All).await.unwrap(), 9);
    for member in &members {
        assert_eq!(member.map.current(), gateway.map().current());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_gateway_is_told_and_corrects_itself() {
    let members: Vec<Member> = (0..3).map(member).collect();
    let stale = gateway(even(&members[..2]));
    let newer = even(&members);
    members[1].map.offer(newer.clone()).await.unwrap();
    // Two workers by the old map, three by the new one.
    assert_eq!(count(&stale, &Targets::All).await.unwrap(), 9);
    assert_eq!(*stale.map().current(), newer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_asked_of_its_owner_alone() {
    let members: Vec<Member> = (0..3).map(member).collect();
    let gateway = gateway(even(&members));
    count(&gateway, &Targets::All).await.unwrap();
    let map = gateway.map().current();
    let asked = || -> Vec<usize> {
        members.iter().map(|member| member.counters.asked.load(Ordering::Relaxed)).collect()
    };
    let before = asked();
    let bucket = Bucket(12_345);
    let owner = map.owner(bucket).unwrap();
    let same = Targets::Owners(vec![bucket, bucket]);
    assert_eq!(count(&gateway, &same).await.unwrap(), 3);
    let mut expected = before;
    expected[owner] += 1;
    assert_eq!(asked(), expected);
}

#[tokio::test]
async fn without_workers_nothing_is_asked() {
    let error = count(&gateway(ShardMap::default()), &Targets::All).await.unwrap_err();
    assert_eq!(error.state(), SqlState::CANNOT_CONNECT_NOW);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_belongs_to_another_worker_by_now_is_not_believed() {
    let members: Vec<Member> = (0..2).map(member).collect();
    // Worker 0 listens at the address that worker 5 had.
    let map = ShardMap::even(vec![NodeName { id: 5, address: members[0].name.address }]);
    members[0].map.offer(map.clone()).await.unwrap();
    let error: Error = count(&gateway(map), &Targets::All).await.unwrap_err();
    assert_eq!(error.state(), SqlState::OTHER_WORKER);
}
