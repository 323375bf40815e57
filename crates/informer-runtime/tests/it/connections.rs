//! Tests that requests over a shared connection do not delay each other. The clients use an embedded server
//! through a socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use informer_apiserver::{ApiServer, Verb};
use informer_cache::SharedInformer;
use informer_cache::handler::on_event_async;
use informer_client::{Call, Client, ClientOptions, KubeListWatch, Lazy, ResourceKind, ResponseBody};
use informer_runtime::{CancellationToken, LeaderElection, Leadership, ShardGroup};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Config;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::gvr;

/// The timeout for steps that never end if one request blocks another, so that the test fails instead of
/// hanging.
const HANGS: Duration = Duration::from_secs(120);

fn http2_client(url: &str) -> Client {
    let options = ClientOptions { http2_prior_knowledge: true, ..ClientOptions::default() };
    Client::with_options(Config::new(url.parse().expect("a URL")), options).expect("a valid configuration")
}

async fn get(client: &Client, path: &str) -> ResponseBody {
    let request = Request::get(path).body(Bytes::new()).expect("a valid path");
    let response = client.request(request).await.expect("the server responds");
    assert!(response.status().is_success(), "{path}: {}", response.status());
    response.into_body()
}

async fn events(watch: &mut ResponseBody, count: usize) {
    let mut seen = 0;
    while seen < count {
        let frame = watch.frame().await.expect("the watch is open").expect("the response is not aborted");
        seen += frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_consumers_delay_neither_writes_nor_gets_nor_lease_renewals() {
    let server = ApiServer::builder().build();
    // The list of the three ConfigMaps (2.7 MB) is larger than the HTTP/2 flow-control window of a stream. If
    // the test does not read such a list to its end, its stream stalls.
    for number in 0..3 {
        let map =
            json!({"metadata": {"name": format!("large-{number}")}, "data": {"text": "x".repeat(900 << 10)}});
        server.create(&gvr("configmaps"), "default", map).expect("a valid object");
    }
    let listening = server.listen("127.0.0.1:0").await.expect("a free port");
    let client = http2_client(&listening.url());
    let mut informers = Vec::new();
    let mut unread = Vec::new();
    for _ in 0..6 {
        let informer = SharedInformer::new(KubeListWatch::<Lazy<ConfigMap>>::all(&client));
        informer
            .add_handler(on_event_async(|_| std::future::pending()))
            .expect("there is room for a handler");
        let run = informer.start();
        informer.wait_for_sync(HANGS).await.expect("it syncs");
        informers.push((informer, run));
        let mut body = get(&client, "/api/v1/configmaps").await;
        body.frame().await.expect("the list begins").expect("the response is not aborted");
        unread.push(body);
    }

    let work = async {
        // By default an election has connections of its own. Here it shares the client's connection, on which
        // stalled responses could delay its renewals.
        let election = LeaderElection::new("operator").identity("a").retry_period(Duration::from_millis(50));
        let elector = election.share_connections(true).elector(&client).expect("a valid election");
        let mut leadership = elector.leadership();
        let stop = CancellationToken::new();
        let election = tokio::spawn(elector.run(stop.clone()));
        leadership.wait_for(Leadership::is_leading).await.expect("it is running");
        let mut renewals = get(&client, "/apis/coordination.k8s.io/v1/leases?watch=1").await;
        let kind = ResourceKind::of::<ConfigMap>();
        for number in 0..20 {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("small-{number}")}});
            let create = Call::create(&kind, Some("default")).body(map.to_string());
            client.call(create).await.expect("a write succeeds");
            let key = format!("default/small-{number}").parse().expect("a key");
            client.call(Call::get(&kind, &key)).await.expect("a get succeeds");
        }
        events(&mut renewals, 3).await;
        stop.cancel();
        election.await.expect("it does not panic").expect("the lease is not lost");
    };
    tokio::time::timeout(HANGS, work).await.expect("no request waits for a stalled consumer");
    drop((informers, unread));
}

async fn counting_proxy(to: std::net::SocketAddr) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("a bound listener"));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut inbound, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut outbound = TcpStream::connect(to).await.expect("the server listens");
                let _ = tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await;
            });
        }
    });
    (url, count)
}

#[tokio::test]
async fn leader_election_and_shard_membership_have_their_own_connections_unless_they_share() {
    let server = ApiServer::builder().build();
    let listening = server.listen("127.0.0.1:0").await.expect("a free port");
    let connections_of = async |share: Option<bool>| {
        let (url, count) = counting_proxy(listening.addr()).await;
        let client = http2_client(&url);
        get(&client, "/api/v1/configmaps").await.collect().await.expect("a complete response");
        let name = format!("replica-{}", share.map_or("default".to_owned(), |share| share.to_string()));
        let election = LeaderElection::new(&name);
        let election = share.into_iter().fold(election, LeaderElection::share_connections);
        let elector = election.elector(&client).expect("a valid election");
        let mut leadership = elector.leadership();
        let stop = CancellationToken::new();
        let election = tokio::spawn(elector.run(stop.clone()));
        leadership.wait_for(Leadership::is_leading).await.expect("it is running");
        let group = share.into_iter().fold(ShardGroup::new(&name), ShardGroup::share_connections);
        let member = group.member(&client).expect("a valid group");
        let mut views = member.sharding().changes();
        let membership = tokio::spawn(member.run(stop.clone()));
        views.wait_for(|view| view.is_active()).await.expect("it is running");
        stop.cancel();
        election.await.expect("it does not panic").expect("the lease is not lost");
        membership.await.expect("it does not panic");
        count.load(Ordering::SeqCst)
    };
    for (share, expected) in [(Some(true), 1), (Some(false), 3), (None, 3)] {
        let connections = tokio::time::timeout(HANGS, connections_of(share)).await;
        assert_eq!(connections.expect("the server responds"), expected, "{share:?}");
    }
    assert!(server.count_requests(Verb::Update, "leases") > 0, "the lease is released");
}
