//! How the API server in memory chooses and answers.

use std::convert::Infallible;

use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

/// A part of an answer.
pub(super) type Chunk = Result<Frame<Bytes>, Infallible>;
/// An answer.
pub(super) type Answer = Response<StreamBody<UnboundedReceiverStream<Chunk>>>;

/// Whether what is asked of `asked` is about objects of `collection`: the same,
/// or that kind in all namespaces.
pub(super) fn covers(asked: &str, collection: &str) -> bool {
    if asked == collection {
        return true;
    }
    let (Some((base, kind)), Some((of, rest))) = (
        asked.rsplit_once('/'),
        collection.split_once("/namespaces/"),
    ) else {
        return false;
    };
    base == of && rest.split_once('/').is_some_and(|(_, k)| k == kind)
}

/// One field and one label, as `path=value`.
pub(super) struct Selector {
    pub(super) field: Option<String>,
    pub(super) label: Option<String>,
}

impl Selector {
    pub(super) fn selects(&self, object: &Value) -> bool {
        let pair = |text: &Option<String>| -> Option<(String, String)> {
            let (key, value) = text.as_deref()?.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        };
        let field = pair(&self.field).is_none_or(|(path, value)| {
            let pointer = format!("/{}", path.replace('.', "/"));
            object.pointer(&pointer).and_then(Value::as_str) == Some(value.as_str())
        });
        let label = pair(&self.label)
            .is_none_or(|(key, value)| object["metadata"]["labels"][key.as_str()] == value);
        field && label
    }
}

/// One line of a watch.
pub(super) fn line(value: &Value) -> Chunk {
    Ok(Frame::data(Bytes::from(format!("{value}\n"))))
}

/// What comes as it comes.
pub(super) fn streamed(code: u16, chunks: mpsc::UnboundedReceiver<Chunk>) -> Answer {
    let mut answer = Response::new(StreamBody::new(UnboundedReceiverStream::new(chunks)));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer
}

/// One object.
pub(super) fn whole(code: u16, value: &Value) -> Answer {
    let (chunks, body) = mpsc::unbounded_channel();
    chunks.send(line(value)).unwrap();
    streamed(code, body)
}

/// A refusal.
pub(super) fn status(code: u16, message: &str) -> Answer {
    whole(code, &failure(code, message))
}

/// The refusal to change a field that never changes.
pub(super) fn immutable(field: &str) -> Answer {
    let mut object = failure(422, &format!("{field}: Invalid value: field is immutable"));
    let cause = json!({
        "reason": "FieldValueInvalid", "message": "field is immutable", "field": field,
    });
    object["details"] = json!({ "causes": [cause] });
    whole(422, &object)
}

/// The object of a refusal.
pub(super) fn failure(code: u16, message: &str) -> Value {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        400 => "BadRequest",
        _ => "InternalError",
    };
    json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    })
}
