use tokio::task::JoinHandle;
use tonic::service::Routes;

use super::*;
use crate::node::{NodeServer, ServeOptions, Services};
use crate::tests::*;
use crate::worker::{Holdings, WorkerNode};

struct Gateway {
    address: SocketAddr,
    map: SharedMap,
    task: JoinHandle<()>,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn gateway(making: Making) -> Gateway {
    let map = SharedMap::new(ShardMap::default());
    let keeper = Gatekeeper::new(map.clone(), making).service();
    let server = NodeServer::bind(anywhere(), ServeOptions::default()).unwrap();
    let address = server.address().unwrap();
    let services = Services::new(nothing_to_fetch(), Routes::new(keeper));
    Gateway { address, map, task: thalweg_runtime::spawn(server.serve(services)) }
}

fn here() -> Making {
    Making::Here { moving: Box::new(|| Moving::Allowed), link: impatient() }
}

fn worker(id: u64) -> NodeName {
    NodeName { id, address: SocketAddr::from(([127, 0, 0, 1], 1_000 + id as u16)) }
}

fn starting(worker: NodeName, run: u64) -> Joining {
    Joining { process: worker.id, worker, run, durable: std::sync::Arc::new(|| (0, 0)) }
}

fn called(address: SocketAddr) -> ReconnectingLink {
    super::gateway(address, &Arc::new(impatient()))
}

/// Lets a worker join until the map has at least this version.
async fn joining(id: u64, gateways: &[&Gateway], wanted_version: u64) -> SharedMap {
    let map = SharedMap::new(ShardMap::default());
    let gateways = gateways.iter().map(|gateway| called(gateway.address)).collect();
    let joins = keep_joining(starting(worker(id), 1), gateways, map.clone(), |_, _| {});
    let mut changes = map.changes();
    let reached = changes.wait_for(|map| map.version() >= wanted_version);
    tokio::select! {
        () = joins => unreachable!("it goes on for ever"),
        _ = reached => {}
    }
    map
}

#[tokio::test]
async fn workers_that_join_share_the_buckets() {
    let gateway = gateway(here());
    for id in 0..3 {
        let map = joining(id, &[&gateway], id + 1).await;
        assert_eq!(map.current(), gateway.map.current());
    }
    assert_eq!(gateway.map.current().workers(), [worker(0), worker(1), worker(2)]);
    let map = gateway.map.current();
    let shares = map.shares();
    assert!(shares.iter().all(|share| *share > 5_000), "{shares:?}");
}

#[tokio::test]
async fn another_gateway_hands_on_who_joins() {
    let first = gateway(here());
    let second = gateway(maker(first.address, &Arc::new(impatient())));
    joining(0, &[&second], 1).await;
    assert_eq!(first.map.current().workers(), [worker(0)]);
    assert_eq!(second.map.current(), first.map.current());
    joining(1, &[&first], 2).await;
    joining(2, &[&second], 3).await;
    assert_eq!(second.map.current().workers(), [worker(0), worker(1), worker(2)]);
}

#[tokio::test]
async fn a_gateway_that_is_gone_keeps_nobody_from_joining_another() {
    let (gone, there) = (gateway(here()), gateway(here()));
    let address = gone.address;
    drop(gone);
    let map = SharedMap::new(ShardMap::default());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let joins = keep_joining(
        starting(worker(0), 1),
        vec![called(address), called(there.address)],
        map.clone(),
        move |gateway, joined| {
            let _ = tell.send((gateway, joined.is_ok()));
        },
    );
    let joins = thalweg_runtime::spawn(joins);
    assert_eq!(told.recv().await, Some((address, false)));
    assert_eq!(told.recv().await, Some((there.address, true)));
    assert_eq!(map.current().workers(), [worker(0)]);
    joins.abort();
}

/// A worker that answers status requests.
fn running(id: u64, run: u64) -> (NodeName, JoinHandle<()>) {
    let map = SharedMap::new(ShardMap::default());
    let node = WorkerNode::new((id, run), map, nothing_to_fetch(), Holdings::default);
    let server = NodeServer::bind(anywhere(), ServeOptions::default()).unwrap();
    let name = NodeName { id, address: server.address().unwrap() };
    let services = Services::new(nothing_to_fetch(), Routes::new(node.service()));
    (name, thalweg_runtime::spawn(server.serve(services)))
}

#[tokio::test]
async fn of_two_workers_with_one_number_the_second_is_refused() {
    let gateway = gateway(here());
    let (link, map) = (called(gateway.address), SharedMap::new(ShardMap::default()));
    let joins = |name: &NodeName, run| starting(name.clone(), run);
    let (first, served) = running(7, 1);
    let (second, _served) = running(7, 2);
    join(&joins(&first, 1), &link, &map).await.unwrap();
    let refused = join(&joins(&second, 2), &link, &map).await.unwrap_err();
    assert_eq!(refused.state(), SqlState::OBJECT_IN_USE, "{refused}");
    assert!(refused.message().contains(&first.to_string()), "{refused}");
    assert_eq!(gateway.map.current().workers(), std::slice::from_ref(&first));
    // A worker that reports another address of its own is still the same.
    let advertised = NodeName { id: 7, ..worker(7) };
    join(&joins(&advertised, 1), &link, &map).await.unwrap();
    join(&joins(&first, 1), &link, &map).await.unwrap();
    served.abort();
    assert!(served.await.unwrap_err().is_cancelled());
    join(&joins(&second, 2), &link, &map).await.unwrap();
    assert_eq!(gateway.map.current().workers(), [second]);
}

#[tokio::test]
async fn a_worker_that_is_gone_can_be_removed() {
    let moving = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let allowed = Arc::clone(&moving);
    let making = Making::Here {
        moving: Box::new(move || match allowed.load(std::sync::atomic::Ordering::Relaxed) {
            true => Moving::Allowed,
            false => Moving::Forbidden,
        }),
        link: impatient(),
    };
    let gateway = gateway(making);
    let (link, map) = (called(gateway.address), SharedMap::new(ShardMap::default()));
    let (first, served) = running(7, 1);
    let (second, _served) = running(8, 1);
    join(&starting(first.clone(), 1), &link, &map).await.unwrap();
    join(&starting(second.clone(), 1), &link, &map).await.unwrap();
    let remove = |worker, lose_rows| {
        let link = link.clone();
        async move {
            let request = RemoveRequest { worker, lose_rows };
            link.link().await?.0.ask::<_, WireMap>(REMOVE, &request).await
        }
    };
    assert_eq!(remove(9, true).await.unwrap_err().state(), SqlState::UNDEFINED_OBJECT);
    assert_eq!(remove(7, true).await.unwrap_err().state(), SqlState::OBJECT_IN_USE);
    served.abort();
    assert!(served.await.unwrap_err().is_cancelled());
    moving.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(remove(7, false).await.unwrap_err().state(), SqlState::OBJECT_NOT_IN_STATE);
    let left = remove(7, true).await.unwrap();
    assert_eq!(ShardMap::from_wire(&left).unwrap(), *gateway.map.current());
    assert_eq!(gateway.map.current().workers(), [second]);
    assert_eq!(gateway.map.current().shares(), [usize::from(thalweg_types::BUCKETS)]);
}

#[test]
fn the_more_workers_the_less_often_each_joins_again() {
    assert_eq!([0, 1, 64].map(join_again_after), [JOIN_EVERY; 3]);
    assert_eq!(join_again_after(640), 10 * JOIN_EVERY);
}
