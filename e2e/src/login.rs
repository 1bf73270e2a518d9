//! A registry that needs a login: passes requests with the right one on to the Helm repository, and refuses the others.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use crate::Result;

pub(crate) const USER: &str = "platform";
pub(crate) const PASSWORD: &str = "secret";
/// The two of them, as HTTP's basic authentication sends them.
const HEADER: &str = "authorization: basic cgxhdgzvcm06c2vjcmv0";

/// Starts it in front of `upstream`, a host and port; it runs until the process ends. Returns its own address.
pub(crate) fn start(upstream: &str) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let upstream = upstream.to_owned();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let upstream = upstream.clone();
            // A client that hangs up is its own affair: the story sees what Flux makes of it.
            thread::spawn(move || drop(serve(client, &upstream)));
        }
    });
    Ok(address)
}

/// One request per connection.
fn serve(client: TcpStream, upstream: &str) -> io::Result<()> {
    let mut lines = BufReader::new(client.try_clone()?).lines();
    let mut head = String::new();
    let mut is_known = false;
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        let lower = line.to_ascii_lowercase();
        is_known |= lower == HEADER;
        if !lower.starts_with("connection:") && !lower.starts_with("authorization:") {
            head += &format!("{line}\r\n");
        }
    }
    let mut client = client;
    if is_known {
        let mut server = TcpStream::connect(upstream)?;
        server.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
        io::copy(&mut server, &mut client)?;
    } else {
        client.write_all(
            b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"charts\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        )?;
    }
    client.shutdown(Shutdown::Both)
}
