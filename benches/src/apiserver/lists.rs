//! Measures lists of all pods. The client reads each response to its end and drops it without decoding,
//! because it shares the cores with the server.

use bytes::Bytes;
use tokio::time::Instant;

use crate::connect::{Ask, Target};
use crate::process::Processes;
use crate::{Failure, Figures, Load};

/// The path of a list with `resourceVersion=0`, which permits the server to respond from memory with any
/// version. Reflectors request their initial lists in the same way.
const PATH: &str = "/api/v1/pods?resourceVersion=0";

pub(crate) async fn measure(
    target: &Target,
    server: &Processes,
    load: &Load,
    figures: &mut Figures,
) -> Result<(), Failure> {
    for (name, accept) in [("JSON", "application/json"), ("protobuf", "application/vnd.kubernetes.protobuf")]
    {
        let mut connection = target.connect().await?;
        let (mut times, mut bytes, cpu) = (Vec::new(), 0, server.cpu());
        for _ in 0..load.lists {
            let began = Instant::now();
            let ask = Ask { accept, ..Ask::get(PATH) };
            (bytes, _) = connection.read(ask, Bytes::new()).await?;
            times.push(began.elapsed().as_secs_f64());
        }
        let used = (server.cpu() - cpu) / load.lists as f64;
        let first = times[0];
        times.sort_unstable_by(f64::total_cmp);
        let (count, time) = (load.objects as f64, times[times.len() / 2]);
        figures.put(&format!("list as {name}, objects a second"), count / time);
        figures.put(&format!("list as {name}, MB a second"), bytes as f64 / time / 1e6);
        figures.put(&format!("list as {name}, bytes an object"), bytes as f64 / count);
        figures.put(&format!("list as {name}, server CPU us an object"), used * 1e6 / count);
        figures.put(&format!("first list as {name}, objects a second"), count / first);
    }
    figures.put("after the lists, RSS MB", server.resident());
    Ok(())
}
