//! [`Frames`]: what the server said last, read off the bytes as they pass.
//!
//! Every message of the server is a letter, a length in four bytes that counts itself, and that many
//! bytes less four. After each request comes a `Z`, "ready for query", whose one byte tells whether a
//! transaction is open. So whether a connection is clean is known without asking the server.

/// In which state a job has left a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Ready, no transaction.
    Idle,
    /// Ready, in a transaction, be it a failed one.
    InTransaction,
    /// The last request has failed, and nothing but the word that the server is ready is missing. It
    /// comes a moment after the error.
    Failed,
    /// In the middle of an answer.
    Unfinished,
}

#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Of the message that is being read: its head as far as it has come.
    head: Vec<u8>,
    /// How many bytes of its body are still to come.
    body: usize,
    /// The byte of the last `Z`, if nothing has been sent or received since.
    ready: Option<u8>,
    /// Whether the last message was an error, and nothing has been sent since.
    failed: bool,
}

const HEAD: usize = 5;

impl Frames {
    pub(super) fn rest(&self) -> Rest {
        match self.ready {
            Some(b'I') => Rest::Idle,
            Some(_) => Rest::InTransaction,
            None if self.failed => Rest::Failed,
            None => Rest::Unfinished,
        }
    }

    pub(super) fn sent(&mut self) {
        self.ready = None;
        self.failed = false;
    }

    pub(super) fn received(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.head.len() < HEAD {
                let (part, rest) = bytes.split_at(bytes.len().min(HEAD - self.head.len()));
                self.head.extend_from_slice(part);
                bytes = rest;
                if self.head.len() < HEAD {
                    return;
                }
                let length = [self.head[1], self.head[2], self.head[3], self.head[4]];
                self.body = (u32::from_be_bytes(length) as usize).saturating_sub(4);
                // Notices, notifications and changed parameters may come at any time, and open nothing.
                if !matches!(self.head[0], b'N' | b'A' | b'S') {
                    self.ready = None;
                    self.failed = false;
                }
            }
            let (part, rest) = bytes.split_at(bytes.len().min(self.body));
            self.body -= part.len();
            bytes = rest;
            if self.body == 0 {
                match self.head[0] {
                    b'Z' => self.ready = part.last().copied(),
                    b'E' => self.failed = true,
                    _ => {}
                }
                self.head.clear();
            }
        }
    }
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    #[test]
    fn the_last_ready_counts_however_the_bytes_are_cut() {
        let idle = [message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat();
        let open = [message(b'D', &[0; 300]), message(b'n', b""), message(b'Z', b"T")].concat();
        let failed = [message(b'T', b"rows"), message(b'E', b"an error")].concat();
        let half = [&open[..], &message(b'T', b"rows")[..]].concat();
        for cut in 1..=9 {
            for (bytes, rest) in [
                (&idle, Rest::Idle),
                (&open, Rest::InTransaction),
                (&failed, Rest::Failed),
                (&half, Rest::Unfinished),
            ] {
                let mut frames = Frames::default();
                bytes.chunks(cut).for_each(|part| frames.received(part));
                assert_eq!(frames.rest(), rest, "in pieces of {cut}");
                frames.sent();
                assert_eq!(frames.rest(), Rest::Unfinished);
            }
        }
    }

    #[test]
    fn a_failed_transaction_is_an_open_one_and_a_notice_changes_nothing() {
        let mut frames = Frames::default();
        frames.received(&message(b'Z', b"E"));
        frames.received(&message(b'N', b"a notice"));
        assert_eq!(frames.rest(), Rest::InTransaction);
    }
}
