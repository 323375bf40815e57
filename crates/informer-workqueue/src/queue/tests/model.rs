//! A naive implementation of the queue, with which the tests compare the real one. It searches vectors
//! linearly.

use crate::queue::Aging;

#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) priorities: Option<Aging>,
    pub(super) fair: bool,
}

#[derive(Debug)]
struct Ready {
    key: u8,
    priority: i32,
    age: u64,
}

#[derive(Debug)]
struct Waiting {
    key: u8,
    priority: i32,
    due: u64,
    seq: u64,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) shape: Shape,
    /// The ready keys. Keys with the same level are in the order in which they got that level. The level of a
    /// key is its priority, or 0 if the queue has no priorities.
    ready: Vec<Ready>,
    /// The groups that have ready keys, in the order in which they take turns, as pairs of level and group.
    /// The level is the priority, or 0 if the queue has no priorities.
    turns: Vec<(i32, u8)>,
    waiting: Vec<Waiting>,
    processing: Vec<u8>,
    /// The keys in process that were added again and become ready after they are finished, with the priority
    /// of that add.
    dirty: Vec<(u8, i32)>,
    passed_over: u32,
    seq: u64,
    closed: bool,
}

impl Model {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            shape,
            ready: Vec::new(),
            turns: Vec::new(),
            waiting: Vec::new(),
            processing: Vec::new(),
            dirty: Vec::new(),
            passed_over: 0,
            seq: 0,
            closed: false,
        }
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.closed && self.ready.is_empty() && self.dirty.is_empty()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.closed && self.ready.is_empty() && self.processing.is_empty()
    }

    pub(super) fn waiting(&self) -> Vec<(u8, u64)> {
        let mut all: Vec<_> = self.waiting.iter().map(|w| (w.due, w.seq, w.key)).collect();
        all.sort_unstable();
        all.into_iter().map(|(due, _, key)| (key, due)).collect()
    }

    pub(super) fn add(&mut self, key: u8, due: Option<u64>, priority: i32) {
        if let Some(ready) = self.ready.iter().position(|r| r.key == key) {
            if priority > self.ready[ready].priority {
                self.raise(ready, priority);
            }
        } else if let Some(dirty) = self.dirty.iter_mut().find(|dirty| dirty.0 == key) {
            dirty.1 = dirty.1.max(priority);
        } else if let Some(at) = self.waiting.iter().position(|w| w.key == key) {
            let waiting = &mut self.waiting[at];
            waiting.priority = waiting.priority.max(priority);
            match due {
                Some(due) => waiting.due = waiting.due.min(due),
                None => {
                    let waiting = self.waiting.remove(at);
                    self.make_ready(key, waiting.priority);
                }
            }
        } else if let Some(due) = due {
            self.seq += 1;
            self.waiting.push(Waiting { key, priority, due, seq: self.seq });
        } else {
            self.make_ready(key, priority);
        }
    }

    fn make_ready(&mut self, key: u8, priority: i32) {
        if self.processing.contains(&key) {
            self.dirty.push((key, priority));
        } else {
            self.push(key, priority);
        }
    }

    fn push(&mut self, key: u8, priority: i32) {
        self.seq += 1;
        self.line_up(Ready { key, priority, age: self.seq });
    }

    fn line_up(&mut self, ready: Ready) {
        let turn = self.turn(&ready);
        if !self.turns.contains(&turn) {
            self.turns.push(turn);
        }
        self.ready.push(ready);
    }

    fn raise(&mut self, at: usize, priority: i32) {
        if self.shape.priorities.is_none() {
            self.ready[at].priority = priority;
            return;
        }
        let ready = self.ready.remove(at);
        self.drop_turn_if_empty(self.turn(&ready));
        self.line_up(Ready { priority, ..ready });
    }

    fn turn(&self, ready: &Ready) -> (i32, u8) {
        (self.level(ready), if self.shape.fair { ready.key % 4 } else { 0 })
    }

    fn level(&self, ready: &Ready) -> i32 {
        if self.shape.priorities.is_some() { ready.priority } else { 0 }
    }

    fn drop_turn_if_empty(&mut self, turn: (i32, u8)) {
        if !self.ready.iter().any(|ready| self.turn(ready) == turn) {
            self.turns.retain(|&other| other != turn);
        }
    }

    fn oldest(&self) -> Option<usize> {
        (0..self.ready.len()).min_by_key(|&at| self.ready[at].age)
    }

    fn next(&self) -> Option<usize> {
        if let Some(Aging::Every(n)) = self.shape.priorities
            && self.passed_over + 1 >= n
        {
            return self.oldest();
        }
        let level = self.ready.iter().map(|ready| self.level(ready)).max()?;
        let turn = self.turns.iter().find(|turn| turn.0 == level)?;
        self.ready.iter().position(|ready| self.turn(ready) == *turn)
    }

    pub(super) fn take(&mut self) -> Option<(u8, i32)> {
        let (next, oldest) = (self.next()?, self.oldest()?);
        if next == oldest {
            self.passed_over = 0;
        } else if self.ready[oldest].priority < self.ready[next].priority {
            self.passed_over += 1;
        }
        let ready = self.ready.remove(next);
        let turn = self.turn(&ready);
        self.turns.retain(|&other| other != turn);
        if self.ready.iter().any(|other| self.turn(other) == turn) {
            self.turns.push(turn);
        }
        self.processing.push(ready.key);
        Some((ready.key, ready.priority))
    }

    pub(super) fn finish(&mut self, key: u8, wish: Option<(Option<u64>, i32)>) -> bool {
        if let Some((due, priority)) = wish.filter(|_| !self.closed) {
            self.add(key, due, priority);
        }
        self.processing.retain(|&other| other != key);
        if let Some(at) = self.dirty.iter().position(|dirty| dirty.0 == key) {
            let (_, priority) = self.dirty.remove(at);
            self.push(key, priority);
            return true;
        }
        self.waiting.iter().any(|waiting| waiting.key == key)
    }

    pub(super) fn cancel(&mut self, key: u8) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.key != key);
        self.waiting.len() < before
    }

    pub(super) fn promote(&mut self, now: u64) -> usize {
        let due: Vec<_> = self.waiting().into_iter().filter(|&(_, due)| due <= now).collect();
        for &(key, _) in &due {
            let at = self.waiting.iter().position(|waiting| waiting.key == key).unwrap();
            let waiting = self.waiting.remove(at);
            self.make_ready(key, waiting.priority);
        }
        due.len()
    }

    pub(super) fn shut_down(&mut self) {
        self.closed = true;
        self.waiting.clear();
    }
}
