//! The output of the explored command: its first and last bytes, so that a long output needs little memory.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The maximum number of bytes of the command's output that are kept. Of a longer output, the middle is
/// dropped.
pub(super) const MAX_OUTPUT_BYTES: usize = 64 << 10;

/// The number of these bytes that are the first ones of the output.
const HEAD_BYTES: usize = MAX_OUTPUT_BYTES / 4;

/// The maximum number of lines that are printed of the beginning and of the end of the output.
const MAX_LINES: (usize, usize) = (15, 60);

/// How long to wait for the end of the output after the command was killed. Only processes that have left the
/// process group of the command can then still write to it.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The beginning and the end of an output.
#[derive(Debug, Default)]
pub(super) struct Excerpt {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Excerpt {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(MAX_OUTPUT_BYTES - HEAD_BYTES);
        self.tail.drain(..excess);
        self.dropped += excess as u64;
    }

    /// Returns the lines to print. If some are left out, a line between the two parts has the numbers of
    /// lines and bytes.
    pub(super) fn lines(&self) -> Vec<String> {
        let (first, second) = self.tail.as_slices();
        let tail = [first, second].concat();
        let (head, tail) = match self.dropped {
            0 => ([self.head.as_slice(), &tail].concat(), Vec::new()),
            _ => (self.head.clone(), tail),
        };
        let (mut head, mut tail) = (lines(&head), lines(&tail));
        let missing = head.len().saturating_sub(MAX_LINES.0);
        if self.dropped == 0 {
            tail = head.split_off(head.len() - missing);
        } else {
            head.truncate(MAX_LINES.0);
        }
        let surplus = tail.len().saturating_sub(MAX_LINES.1);
        tail.drain(..surplus);
        match (self.dropped, surplus) {
            (0, 0) => {}
            (0, lines) => head.push(format!("({lines} lines of the output are not shown)")),
            (bytes, lines) => {
                let lines = lines + missing;
                head.push(format!("({lines} lines and another {bytes} bytes of the output are not shown)"));
            }
        }
        head.extend(tail);
        head
    }
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

/// A running command's output, which a thread reads.
pub(super) struct Capture {
    excerpt: Arc<Mutex<Excerpt>>,
    ended: oneshot::Receiver<()>,
}

impl Capture {
    /// Returns a pipe for the output of a command, and starts to read from it.
    pub(super) fn start() -> io::Result<(Self, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        let excerpt = Arc::<Mutex<Excerpt>>::default();
        let (end, ended) = oneshot::channel();
        let target = Arc::clone(&excerpt);
        // This is a thread and no blocking task, because the shutdown of the runtime would wait for a
        // blocking task while a process keeps the pipe open.
        let thread = std::thread::Builder::new().name("command output".to_owned());
        thread.spawn(move || {
            read(reader, &target);
            // An error means that the receiver was dropped.
            let _ = end.send(());
        })?;
        Ok((Self { excerpt, ended }, writer))
    }

    /// Waits for the end of the output, after the command has ended, and returns the lines to print.
    pub(super) async fn finish(self) -> Vec<String> {
        // After the timeout, or if the thread has panicked, the output so far is returned.
        let _ = tokio::time::timeout(END_TIMEOUT, self.ended).await;
        self.excerpt.lock().lines()
    }
}

fn read(mut output: PipeReader, excerpt: &Mutex<Excerpt>) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        match output.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => excerpt.lock().push(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, chunk: usize) -> Excerpt {
        let mut excerpt = Excerpt::default();
        text.as_bytes().chunks(chunk).for_each(|bytes| excerpt.push(bytes));
        excerpt
    }

    #[test]
    fn short_output_is_complete() {
        let text: String = (0..75).map(|line| format!("line {line}\n")).collect();
        assert_eq!(excerpt(&text, 7).lines(), text.lines().collect::<Vec<_>>());
        assert!(excerpt("", 1).lines().is_empty());
    }

    #[test]
    fn middle_lines_of_a_longer_output_are_not_shown() {
        // More than the bytes of the head, and not more than those of both parts.
        let text: String = (0..3000).map(|line| format!("line {line:04}\n")).collect();
        let lines = excerpt(&text, 1000).lines();
        assert_eq!(lines.len(), MAX_LINES.0 + 1 + MAX_LINES.1);
        assert_eq!(lines[..2], ["line 0000", "line 0001"]);
        assert_eq!(lines[MAX_LINES.0..][..2], ["(2925 lines of the output are not shown)", "line 2940"]);
        assert_eq!(lines.last().map(String::as_str), Some("line 2999"));
    }

    #[test]
    fn memory_of_a_long_output_is_limited_and_dropped_bytes_are_reported() {
        let text: String = (0..1_000_000).map(|line| format!("line {line:06}\n")).collect();
        for chunk in [1 << 10, 100_000, text.len()] {
            let excerpt = excerpt(&text, chunk);
            assert_eq!(excerpt.head.len() + excerpt.tail.len(), MAX_OUTPUT_BYTES);
            let dropped = text.len() - MAX_OUTPUT_BYTES;
            let lines = excerpt.lines();
            let (first, marker) = (&lines[0], &lines[MAX_LINES.0]);
            assert_eq!(first, "line 000000");
            assert!(
                marker.ends_with(&format!(" and another {dropped} bytes of the output are not shown)")),
                "{marker}"
            );
            assert_eq!(lines.len(), MAX_LINES.0 + 1 + MAX_LINES.1);
            assert_eq!(lines.last().map(String::as_str), Some("line 999999"));
        }
    }
}
