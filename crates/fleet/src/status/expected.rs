//! What a cluster would be told now, as far as a state depends on it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::document::Etag;
use crate::inputs::{Mark, mark};

/// What a cluster should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub kinds: Vec<ExpectedKind>,
}

/// What it should have of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedKind {
    pub path: Arc<str>,
    /// Of the plain reply.
    pub digest: Etag,
    /// Whether the objects that are rendered from these inputs tell when they are ready.
    pub watched: bool,
    /// The ResourceSets that render them, by name.
    pub sets: Arc<[Box<str>]>,
    pub inputs: Vec<ExpectedInput>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedInput {
    pub id: Box<str>,
    pub mark: Mark,
    pub enabled: bool,
}

impl ExpectedKind {
    /// Reads the plain body of a reply.
    pub fn read(path: Arc<str>, body: &[u8], watched: bool, sets: Arc<[Box<str>]>) -> Self {
        #[derive(Deserialize)]
        struct Body<'a> {
            #[serde(borrow)]
            inputs: Vec<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Input {
            id: Box<str>,
            #[serde(default = "yes")]
            enabled: serde_json::Value,
        }
        fn yes() -> serde_json::Value {
            true.into()
        }
        let inputs = serde_json::from_slice(body).map_or_else(|_| Vec::new(), |body: Body<'_>| body.inputs);
        let inputs = inputs.into_iter().filter_map(|text| {
            let input: Input = serde_json::from_str(text.get()).ok()?;
            Some(ExpectedInput {
                id: input.id,
                mark: mark(&path, text.get()),
                enabled: input.enabled != false,
            })
        });
        ExpectedKind {
            digest: Etag::of_bytes(body),
            watched,
            sets,
            inputs: inputs.collect(),
            path,
        }
    }

    /// Whether anything here can become ready, or fail to.
    pub fn is_watched(&self) -> bool {
        self.watched && self.inputs.iter().any(|input| input.enabled)
    }
}
