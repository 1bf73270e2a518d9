//! What the bench shares with the soak test: the fleet that is generated, and the HTTP client.

pub mod generate;
pub mod http;

pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Error>;
