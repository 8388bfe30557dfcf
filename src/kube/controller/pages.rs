//! Health and metrics over HTTP.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::Controller;
use crate::http::{Answer, Handler};

/// The pages of a controller. It is alive while it answers, and ready once it
/// has heard from the API server.
pub(super) fn pages(controller: &Arc<Controller>, metrics_path: &str) -> Arc<Handler> {
    let (controller, metrics_path) = (Arc::clone(controller), metrics_path.to_owned());
    Arc::new(
        move |path: String| -> Pin<Box<dyn Future<Output = Answer> + Send>> {
            let answer = if path == metrics_path {
                metrics(&controller)
            } else {
                match path.as_str() {
                    "/healthz" | "/livez" => Answer::text(200, "ok\n"),
                    "/readyz" => readiness(&controller),
                    _ => Answer::text(404, "not found\n"),
                }
            };
            Box::pin(async move { answer })
        },
    )
}

fn readiness(controller: &Controller) -> Answer {
    let unheard = controller.cluster.unheard();
    if unheard.is_empty() {
        return Answer::text(200, "ok\n");
    }
    let kinds: Vec<_> = unheard.iter().map(|kind| kind.resource()).collect();
    Answer::text(503, format!("not heard yet: {}\n", kinds.join(", ")))
}

fn metrics(controller: &Controller) -> Answer {
    match controller.metrics.render() {
        Ok(body) => Answer {
            status: 200,
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            body,
        },
        Err(error) => Answer::text(500, format!("{error}\n")),
    }
}
