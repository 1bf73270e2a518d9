//! A parser of server-sent events, for the parts that a mirror needs: comments and data.

/// More bytes than any revision has.
const MOST: usize = 512 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A keep-alive.
    Comment,
    Data(Vec<u8>),
}

#[derive(Debug, Default)]
pub(super) struct Events {
    /// Bytes of a line that is not complete yet.
    rest: Vec<u8>,
    /// How many of these were searched for the end of the line.
    searched: usize,
    /// The data of an event that is not complete yet.
    data: Vec<u8>,
}

impl Events {
    /// Adds bytes, and returns the events that they complete. None: the event is too long.
    pub(super) fn push(&mut self, piece: &[u8]) -> Option<Vec<Event>> {
        self.rest.extend_from_slice(piece);
        if self.rest.len() + self.data.len() > MOST {
            return None;
        }
        let mut events = Vec::new();
        let mut start = 0;
        while let Some(length) = self.rest[start + self.searched..]
            .iter()
            .position(|byte| *byte == b'\n')
        {
            let end = start + self.searched + length;
            let line = &self.rest[start..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                if !self.data.is_empty() {
                    events.push(Event::Data(std::mem::take(&mut self.data)));
                }
            } else if line[0] == b':' {
                events.push(Event::Comment);
            } else if let Some(data) = line.strip_prefix(b"data:") {
                self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            }
            start = end + 1;
            self.searched = 0;
        }
        self.rest.drain(..start);
        self.searched = self.rest.len();
        Some(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let text =
            b": after revision 1\n\nid: 2\ndata: {\"a\":1}\n\n: alive\n\nid: 3\r\ndata:{}\r\n\r\nid: 4\n\ndata: cut";
        let expected = [
            Event::Comment,
            Event::Data(b"{\"a\":1}".to_vec()),
            Event::Comment,
            Event::Data(b"{}".to_vec()),
        ];
        for size in 1..text.len() {
            let mut events = Events::default();
            let found: Vec<_> = text
                .chunks(size)
                .flat_map(|piece| events.push(piece).unwrap())
                .collect();
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }
}
