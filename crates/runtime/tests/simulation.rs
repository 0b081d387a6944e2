//! Machines of a simulation that talk to each other.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use thalweg_runtime::{
    Machine, Network, Simulation, interval, sleep, spawn, spawn_blocking, timeout,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn ip(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, number))
}

const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1)), 7);

/// Serves connections that get back what they send.
fn serve_echo(machine: &Machine) {
    let mut listener = Network::of(machine.clone()).listen(ADDRESS, 8).unwrap();
    spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            spawn(async move {
                let mut bytes = vec![0; 1 << 10];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    if stream.write_all(&bytes[..count]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// Sends bytes and reads them again.
async fn echo(stream: &mut thalweg_runtime::Stream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).await?;
    assert_eq!(back, bytes);
    Ok(())
}

/// Several clients of one server; returns the trace.
fn clients(seed: u64) -> u64 {
    Simulation::run(seed, |simulation| async move {
        serve_echo(&simulation.network().machine(ip(1)));
        let clients: Vec<_> = (2..6)
            .map(|number| {
                let network = Network::of(simulation.network().machine(ip(number)));
                spawn(async move {
                    let mut stream = network.connect(ADDRESS).await.unwrap();
                    for round in 0..10 {
                        echo(&mut stream, &[number; 300][..usize::from(number) * 30 + round])
                            .await
                            .unwrap();
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
        assert!(simulation.now() < Duration::from_secs(1));
        simulation.schedule().trace()
    })
}

#[test]
fn a_seed_gives_the_same_trace_again() {
    assert_eq!(clients(1), clients(1));
    assert_ne!(clients(1), clients(2));
}

#[test]
fn a_partition_delays_bytes_and_loses_none() {
    Simulation::run(1, |simulation| async move {
        let network = simulation.network().clone();
        serve_echo(&network.machine(ip(1)));
        let own = Network::of(network.machine(ip(2)));
        let mut stream = own.connect(ADDRESS).await.unwrap();
        echo(&mut stream, b"before").await.unwrap();
        network.cut(ip(1), ip(2), true);
        stream.write_all(b"during").await.unwrap();
        let mut back = [0; 6];
        let waited = timeout(Duration::from_secs(60), stream.read_exact(&mut back)).await;
        assert!(waited.is_err());
        let connecting = timeout(Duration::from_secs(60), own.connect(ADDRESS)).await;
        assert!(connecting.is_err());
        network.cut(ip(1), ip(2), false);
        let waited = timeout(Duration::from_secs(1), stream.read_exact(&mut back)).await;
        waited.unwrap().unwrap();
        assert_eq!(&back, b"during");
    });
}

#[test]
fn a_slow_link_takes_longer() {
    Simulation::run(1, |simulation| async move {
        let network = simulation.network().clone();
        serve_echo(&network.machine(ip(1)));
        let mut stream = Network::of(network.machine(ip(2))).connect(ADDRESS).await.unwrap();
        let start = simulation.now();
        echo(&mut stream, b"fast").await.unwrap();
        let fast = simulation.now() - start;
        network.slow(ip(1), ip(2), true);
        echo(&mut stream, b"slow").await.unwrap();
        let slow = simulation.now() - start - fast;
        assert!(slow > 5 * fast, "{slow:?} {fast:?}");
    });
}

#[test]
fn a_machine_that_dies_resets_its_connections_and_can_start_again() {
    Simulation::run(1, |simulation| async move {
        let network = simulation.network().clone();
        let first = network.machine(ip(1));
        serve_echo(&first);
        let own = Network::of(network.machine(ip(2)));
        let mut stream = own.connect(ADDRESS).await.unwrap();
        echo(&mut stream, b"before").await.unwrap();
        first.kill();
        let lost = echo(&mut stream, b"after").await.unwrap_err();
        assert_eq!(lost.kind(), io::ErrorKind::ConnectionReset);
        let refused = own.connect(ADDRESS).await.err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(Network::of(first).connect(ADDRESS).await.is_err(), "the dead reach nobody");
        serve_echo(&network.machine(ip(1)));
        echo(&mut own.connect(ADDRESS).await.unwrap(), b"again").await.unwrap();
    });
}

#[test]
fn blocking_work_takes_simulated_time() {
    Simulation::run(1, |simulation| async move {
        let clock = simulation.schedule().clone();
        let work = spawn_blocking(move || {
            thalweg_env::Clock::sleep(&clock, Duration::from_secs(100));
            7
        });
        let mut ticks = interval(Duration::from_secs(30));
        let mut count = 0;
        let ticking = async {
            loop {
                ticks.tick().await;
                count += 1;
            }
        };
        let done = tokio::select! {
            biased;
            done = work => done.unwrap(),
            () = ticking => unreachable!("it ticks without end"),
        };
        sleep(Duration::from_secs(1)).await;
        assert_eq!((done, count, simulation.now()), (7, 4, Duration::from_secs(101)));
    });
}
