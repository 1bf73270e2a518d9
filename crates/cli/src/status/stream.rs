//! `GET /status/stream`: server-sent events.

use std::io::BufRead;

use serde_json::Value;

use crate::client::Client;
use crate::error::ApiError;

/// An event of the stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// How many clusters have each state.
    Counts(Value),
    /// A cluster whose state changed.
    Cluster(Value),
    /// Events were lost: the list must be read again.
    Missed,
}

pub(crate) struct Events {
    lines: Box<dyn BufRead>,
}

impl Events {
    pub(crate) fn open(client: &Client) -> Result<Events, ApiError> {
        let lines = client.events("/status/stream")?;
        Ok(Events { lines })
    }

    /// The next event. None at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let (mut name, mut data) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            // If the connection broke, the caller opens another one, and learns whether the server is back.
            if self.lines.read_line(&mut line).unwrap_or_default() == 0 {
                return None;
            }
            let line = line.trim_end_matches(['\n', '\r']);
            match line.split_once(": ") {
                Some(("event", value)) => value.clone_into(&mut name),
                Some(("data", value)) => data.push_str(value),
                // A comment keeps the connection alive.
                _ if line.is_empty() => match event(&name, &data) {
                    Some(event) => return Some(event),
                    None => (name, data) = (String::new(), String::new()),
                },
                _ => {}
            }
        }
    }
}

/// None for what a newer server may send.
fn event(name: &str, data: &str) -> Option<Event> {
    match name {
        "missed" => Some(Event::Missed),
        "counts" => serde_json::from_str(data).ok().map(Event::Counts),
        "cluster" => serde_json::from_str(data).ok().map(Event::Cluster),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_are_read_and_the_rest_is_skipped() {
        let text = ": alive\n\nevent: counts\ndata: {\"revision\":1}\n\nevent: later\ndata: x\n\n\
                    event: cluster\r\ndata: {\"id\":\"a\"}\r\n\r\nevent: missed\ndata: {\"missed\":3}\n\nevent: cluster\n";
        let mut events = Events {
            lines: Box::new(text.as_bytes()),
        };
        let mut found = Vec::new();
        while let Some(event) = events.next() {
            found.push(event);
        }
        assert_eq!(
            found,
            [
                Event::Counts(json!({"revision": 1})),
                Event::Cluster(json!({"id": "a"})),
                Event::Missed
            ]
        );
    }
}
