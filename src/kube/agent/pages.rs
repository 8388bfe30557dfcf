//! Health and metrics over HTTP.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::engine::Engine;
use crate::http::{Answer, Handler};
use crate::metrics::{Metrics, MetricsError, render_lvm};

/// How long the engine may take to show that it works.
const PROBE: Duration = Duration::from_secs(5);

/// The pages of an agent. Alive is an engine that can see the VGs: that the
/// API server is away is no reason to be restarted.
pub(super) fn pages(
    engine: &Engine,
    metrics: &Arc<Metrics>,
    ready: &Arc<AtomicBool>,
    metrics_path: &str,
) -> Arc<Handler> {
    let (engine, metrics) = (engine.clone(), Arc::clone(metrics));
    let (ready, metrics_path) = (Arc::clone(ready), metrics_path.to_owned());
    Arc::new(
        move |path: String| -> Pin<Box<dyn Future<Output = Answer> + Send>> {
            let engine = engine.clone();
            if path == metrics_path {
                return Box::pin(scrape(engine, Arc::clone(&metrics)));
            }
            let ready = ready.load(Ordering::Acquire);
            let index = index(&metrics_path);
            Box::pin(async move {
                match path.as_str() {
                    "/readyz" if !ready => Answer::text(503, "starting\n"),
                    "/healthz" | "/livez" | "/readyz" => health(engine).await,
                    "/" => index,
                    _ => Answer::text(404, "not found\n"),
                }
            })
        },
    )
}

/// The page that the contract has at the root.
fn index(metrics_path: &str) -> Answer {
    Answer {
        status: 200,
        content_type: "text/html; charset=utf-8",
        body: format!(
            "<html><head><title>LVM Exporter</title></head><body><h1>LVM Exporter</h1>\
             <p><a href=\"{metrics_path}\">Metrics</a></p></body></html>\n"
        ),
    }
}

/// A device that hangs is no reason to be restarted: a new process could do
/// nothing about it, and the VGs that are known are served.
async fn health(engine: Engine) -> Answer {
    let look = tokio::task::spawn_blocking(move || engine.vg_names());
    match tokio::time::timeout(PROBE, look).await {
        Ok(Ok(Ok(_))) => Answer::text(200, "ok\n"),
        Ok(Ok(Err(error))) => Answer::text(503, format!("{error}\n")),
        Ok(Err(stopped)) => Answer::text(503, format!("looking for VGs ended early: {stopped}\n")),
        Err(_) => Answer::text(
            200,
            format!("looking for VGs takes longer than {PROBE:?}\n"),
        ),
    }
}

async fn scrape(engine: Engine, metrics: Arc<Metrics>) -> Answer {
    metrics.scrape_begins();
    let answer = lines(engine, Arc::clone(&metrics)).await;
    metrics.scrape_ended(answer.status);
    answer
}

async fn lines(engine: Engine, metrics: Arc<Metrics>) -> Answer {
    let text = tokio::task::spawn_blocking(move || {
        let (mut text, troubles) = render_lvm(&engine, &HashMap::new())?;
        for trouble in troubles {
            tracing::warn!(trouble, "a VG is not among the metrics");
        }
        text.push_str(&metrics.render()?);
        Ok::<_, MetricsError>(text)
    });
    match text.await {
        Ok(Ok(body)) => Answer {
            status: 200,
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            body,
        },
        Ok(Err(error)) => Answer::text(500, format!("{error}\n")),
        Err(stopped) => Answer::text(500, format!("the scrape ended early: {stopped}\n")),
    }
}
