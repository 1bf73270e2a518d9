//! The reply to a poll, and the limits that Flux sets to it.

use std::cell::RefCell;
use std::sync::LazyLock;

use bytes::Bytes;
use libdeflater::{CompressionLvl, Compressor, Decompressor};

use crate::document::Etag;

/// Flux refuses a body that is larger, uncompressed.
pub const MAX_REPLY_BYTES: usize = 900 * 1024;
/// `filter.limit` of the providers that we ship; Flux would drop the rest and garbage-collect it.
pub const MAX_INPUTS: usize = 10_000;

/// The two forms of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Plain,
    /// Each input has its mark.
    Marked,
}

/// The reply to a poll, compressed: Flux always asks for gzip, so that form is cached.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Of the body before compression; the ETag of the compressed body is derived from it.
    pub etag: Etag,
    /// Of the body in the plain form, which both forms of a reply share.
    pub plain: Etag,
    pub gzip: Bytes,
    /// The length of the body before compression. A fleet has millions of replies, so each byte counts.
    pub(crate) size: u32,
    /// Whether an input is turned on.
    pub active: bool,
    /// The form that was asked for.
    pub form: Form,
}

impl Reply {
    /// A reply in the plain form.
    pub fn new(body: &str) -> Self {
        Reply::with_etag(body, Etag::of_bytes(body.as_bytes()))
    }

    /// The same, of a body whose ETag is known.
    pub(super) fn with_etag(body: &str, etag: Etag) -> Self {
        Reply {
            etag,
            plain: etag,
            gzip: gzip(body.as_bytes()),
            size: u32::try_from(body.len()).expect("the contract allows less than a megabyte"),
            active: false,
            form: Form::Plain,
        }
    }

    /// The length of the body before compression.
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// The body before compression, for the few clients that do not accept gzip.
    pub fn identity(&self) -> Bytes {
        let mut body = vec![0; self.size()];
        let length = Decompressor::new().gzip_decompress(&self.gzip, &mut body);
        assert_eq!(length, Ok(body.len()), "our own gzip is valid");
        body.into()
    }

    /// `{"inputs":[]}`: for a cluster without references to a kind, and for a decommissioned one.
    pub fn empty() -> &'static Reply {
        static EMPTY: LazyLock<Reply> = LazyLock::new(|| Reply::new(r#"{"inputs":[]}"#));
        &EMPTY
    }
}

/// Packs a body. Each thread keeps its packer: setting up the tables would take as long as packing a short reply.
///
/// libdeflate packs such bodies four times as fast as zlib does, to the same size. Beyond level 5 it takes longer and saves nothing.
fn gzip(body: &[u8]) -> Bytes {
    const LEVEL: i32 = 5;
    const MOST_KEPT: usize = 64 * 1024;
    thread_local! {
        static PACKER: RefCell<(Compressor, Vec<u8>)> = {
            let level = CompressionLvl::new(LEVEL).expect("levels are 0 to 12");
            RefCell::new((Compressor::new(level), Vec::new()))
        };
    }
    PACKER.with_borrow_mut(|(packer, packed)| {
        packed.resize(packer.gzip_compress_bound(body.len()), 0);
        let length = packer.gzip_compress(body, packed).expect("the bound is large enough");
        let reply = Bytes::copy_from_slice(&packed[..length]);
        // A rare huge reply must not keep its buffer for as long as the thread lives.
        packed.truncate(MOST_KEPT);
        packed.shrink_to(MOST_KEPT);
        reply
    })
}

/// How a reply would break the ExternalService contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    #[error("the reply would be {0} bytes, and Flux refuses more than {MAX_REPLY_BYTES}")]
    TooLarge(usize),
    #[error("the id \"{0}\" would be in the reply twice")]
    Twice(String),
    #[error("the reply would have {0} inputs, and Flux drops those beyond {MAX_INPUTS}")]
    TooMany(usize),
}

impl Breach {
    /// Checks the size of a whole reply: its bytes before compression, and how many inputs it has.
    pub(super) fn check_size(bytes: usize, inputs: usize) -> Result<(), Breach> {
        if inputs > MAX_INPUTS {
            return Err(Breach::TooMany(inputs));
        }
        match bytes > MAX_REPLY_BYTES {
            true => Err(Breach::TooLarge(bytes)),
            false => Ok(()),
        }
    }
}
