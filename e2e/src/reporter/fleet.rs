//! An imitation of the fleet's API: inputs, reports and long polls; and a Helm repository beside it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Result;

pub(super) struct Fleet {
    url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    paths: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    inputs: Vec<Value>,
    /// Moves with the inputs.
    version: u64,
    polls: usize,
    reports: Vec<Value>,
}

impl Fleet {
    pub(super) fn start(dns: &str) -> Result<Fleet> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let shared = Arc::new(Shared {
            paths: format!("/api/v2/flux/clusters/{dns}/"),
            ..Shared::default()
        });
        let fleet = Fleet {
            url: format!("http://{}", listener.local_addr()?),
            shared: shared.clone(),
        };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                // A client that goes away in the middle is no failure of the test.
                thread::spawn(move || shared.serve(&stream).is_ok());
            }
        });
        Ok(fleet)
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The inputs from now on: id, mark, and where its charts are.
    pub(super) fn set(&self, inputs: &[(&str, &str, &str)]) {
        let inputs = inputs.iter();
        let inputs = inputs.map(|(id, mark, place)| json!({"id": id, "place": place, "desired": {"input": mark}}));
        let mut state = self.shared.lock();
        state.inputs = inputs.collect();
        state.version += 1;
        self.shared.changed.notify_all();
    }

    /// How often the inputs were asked for.
    pub(super) fn polls(&self) -> usize {
        self.shared.lock().polls
    }

    pub(super) fn reports(&self) -> Vec<Value> {
        self.shared.lock().reports.clone()
    }

    /// What was last reported of an object.
    pub(super) fn object(&self, name: &str) -> Result<Value> {
        let state = self.shared.lock();
        let objects = state
            .reports
            .iter()
            .rev()
            .filter_map(|report| report["objects"].as_array());
        let mut named = objects.flatten().filter(|object| object["name"] == name);
        named
            .next()
            .cloned()
            .ok_or_else(|| format!("{name} was not reported").into())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: &TcpStream) -> Result<()> {
        let mut reader = BufReader::new(stream);
        let mut request = String::new();
        reader.read_line(&mut request)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse()?,
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let target = request.split(' ').nth(1).unwrap_or_default();
        let (status, reply) = self.answer(target, &body)?;
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            reply.len()
        );
        let mut stream = stream;
        stream.write_all(head.as_bytes())?;
        stream.write_all(reply.as_bytes())?;
        Ok(())
    }

    fn answer(&self, target: &str, body: &[u8]) -> Result<(&'static str, String)> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match path.strip_prefix(&self.paths) {
            Some("report") => {
                let report = serde_json::from_slice(body)?;
                self.lock().reports.push(report);
                Ok(("202 Accepted", String::new()))
            }
            Some("changed") => Ok(("200 OK", self.changed(query))),
            Some("namespaces") => {
                let mut state = self.lock();
                state.polls += 1;
                Ok(("200 OK", json!({"inputs": state.inputs}).to_string()))
            }
            None if path == "/charts/index.yaml" => {
                let index = "apiVersion: v1\nentries: {}\ngenerated: \"2026-11-16T10:00:00Z\"\n";
                Ok(("200 OK", index.to_owned()))
            }
            _ => Ok(("404 Not Found", "there is nothing here".to_owned())),
        }
    }

    /// Waits for another version than the one that is known.
    fn changed(&self, query: &str) -> String {
        let known = query.split('&').find_map(|pair| pair.strip_prefix("since="));
        let same = |state: &mut State| known == Some(state.version.to_string().as_str());
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), Duration::from_secs(20), same);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let version = state.version.to_string();
        json!({"since": version, "paths": {"namespaces": version}}).to_string()
    }
}
