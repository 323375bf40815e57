//! Measures the requests of a client with six informers whose handlers hang, and six lists that are not read.
//! All of them use one HTTP/2 connection.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use informer::cache::SharedInformer;
use informer::cache::handler::on_event_async;
use informer::client::{Call, Client, ClientOptions, KubeListWatch, Lazy, ResponseBody};
use informer::runtime::{CancellationToken, LeaderElection, Leadership, ResourceKind};
use informer_apiserver::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::{Failure, Figures};

const INFORMERS: usize = 6;
/// Three such objects are larger than the flow-control window of an HTTP/2 stream, so that a list that is not
/// read stalls its stream.
const LARGE: usize = 900 << 10;
/// The minimum number of writes, and of gets. More follow until all renewals are measured.
const REQUESTS: usize = 500;
const RENEWALS: usize = 40;
const RETRY: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) async fn measure() -> Result<Figures, Failure> {
    let server = ApiServer::builder().build();
    for number in 0..3 {
        let map =
            json!({"metadata": {"name": format!("large-{number}")}, "data": {"text": "x".repeat(LARGE)}});
        server.create(&"configmaps.v1".parse()?, "default", map)?;
    }
    let listening = server.listen("127.0.0.1:0").await?;
    let options = ClientOptions { http2_prior_knowledge: true, ..ClientOptions::default() };
    let client = Client::with_options(kube_client::Config::new(listening.url().parse()?), options)?;
    let (mut informers, mut unread) = (Vec::new(), Vec::new());
    for _ in 0..INFORMERS {
        let informer = SharedInformer::new(KubeListWatch::<Lazy<ConfigMap>>::all(&client));
        informer.add_handler(on_event_async(|_| std::future::pending()))?;
        let run = informer.start();
        informer.wait_for_sync(TIMEOUT).await?;
        informers.push((informer, run));
        let mut body = get(&client, "/api/v1/configmaps").await?;
        body.frame().await.ok_or("an empty list")??;
        unread.push(body);
    }
    let figures = timeout(TIMEOUT, requests(&client)).await??;
    drop((informers, unread));
    Ok(figures)
}

async fn requests(client: &Client) -> Result<Figures, Failure> {
    let election = LeaderElection::new("operator").identity("a").retry_period(RETRY).share_connections(true);
    let elector = election.elector(client)?;
    let mut leadership = elector.leadership();
    let stop = CancellationToken::new();
    let election = tokio::spawn(elector.run(stop.clone()));
    leadership.wait_for(Leadership::is_leading).await?;
    let watch = get(client, "/apis/coordination.k8s.io/v1/leases?watch=1").await?;
    let delays = tokio::spawn(renewal_delays(watch));
    let kind = ResourceKind::of::<ConfigMap>();
    let (mut writes, mut gets) = (Vec::new(), Vec::new());
    for number in 0.. {
        if number >= REQUESTS && delays.is_finished() {
            break;
        }
        let name = format!("small-{number}");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let begin = Instant::now();
        client.call(Call::create(&kind, Some("default")).body(map.to_string())).await?;
        writes.push(begin.elapsed());
        let (key, begin) = (format!("default/{name}").parse()?, Instant::now());
        client.call(Call::get(&kind, &key)).await?;
        gets.push(begin.elapsed());
    }
    let delays = delays.await??;
    stop.cancel();
    election.await??;
    let slowest = |times: Vec<Duration>| times.into_iter().max().unwrap_or_default().as_secs_f64() * 1e3;
    let figures = [
        ("six hung handlers: slowest write, ms", slowest(writes)),
        ("six hung handlers: slowest get, ms", slowest(gets)),
        ("six hung handlers: longest delay of a Lease renewal, ms", slowest(delays)),
    ];
    Ok(figures.map(|(case, figure)| (case.to_owned(), figure.into())).into_iter().collect())
}

/// Reads renewals of a Lease from a watch while other requests run, and returns how much later than after the
/// retry period each one arrived.
async fn renewal_delays(mut watch: ResponseBody) -> Result<Vec<Duration>, Failure> {
    let mut delays = Vec::with_capacity(RENEWALS);
    watch.frame().await.ok_or("the watch of leases ended")??;
    for _ in 0..RENEWALS {
        let begin = Instant::now();
        watch.frame().await.ok_or("the watch of leases ended")??;
        delays.push(begin.elapsed().saturating_sub(RETRY));
    }
    Ok(delays)
}

async fn get(client: &Client, path: &str) -> Result<ResponseBody, Failure> {
    let response = client.request(Request::get(path).body(Bytes::new())?).await?;
    Ok(response.into_body())
}
