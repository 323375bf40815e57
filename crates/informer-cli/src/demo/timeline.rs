//! The course of the demo while the server changes pods: samples of its events, waiting events and memory.

use std::collections::HashMap;

/// The maximum number of samples. Beyond it, every second sample is removed, so that samples of a long run
/// are further apart.
const MAX_SAMPLES: usize = 600;

/// The state of the client at one time.
#[derive(Debug, Clone)]
pub(crate) struct DemoSample {
    /// The time since the server began to change pods.
    pub(crate) seconds: f64,
    /// The number of events so far that the handler `fast` received.
    pub(crate) events: u64,
    /// The number of events that wait for each handler.
    pub(crate) waiting: Vec<(String, usize)>,
    pub(crate) memory_mb: Option<f64>,
}

#[derive(Debug)]
pub(crate) struct Timeline {
    samples: Vec<DemoSample>,
    /// One of this many samples is kept.
    stride: usize,
    offered: usize,
    /// The largest number of waiting events of each handler, also of samples that were not kept.
    max_waiting: HashMap<String, usize>,
}

/// The points of a curve: seconds and values.
pub(crate) type Points = Vec<(f64, f64)>;

impl Default for Timeline {
    fn default() -> Self {
        Self { samples: Vec::new(), stride: 1, offered: 0, max_waiting: HashMap::new() }
    }
}

impl Timeline {
    pub(crate) fn add(&mut self, sample: DemoSample) {
        self.offered += 1;
        for (handler, waiting) in &sample.waiting {
            let max_waiting = self.max_waiting.entry(handler.clone()).or_default();
            *max_waiting = (*max_waiting).max(*waiting);
        }
        if !(self.offered - 1).is_multiple_of(self.stride) {
            return;
        }
        self.samples.push(sample);
        if self.samples.len() > MAX_SAMPLES {
            let mut position = 0;
            self.samples.retain(|_| {
                position += 1;
                position % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// Returns the events per second between each sample and the next one.
    pub(crate) fn event_rates(&self) -> Points {
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        let rate = |(before, after): (&DemoSample, &DemoSample)| {
            let seconds = after.seconds - before.seconds;
            (seconds > 0.0).then(|| (after.seconds, (after.events - before.events) as f64 / seconds))
        };
        pairs.filter_map(rate).collect()
    }

    /// Returns the numbers of waiting events by handler, in the order in which the handlers were added.
    pub(crate) fn waiting(&self) -> Vec<(String, Points)> {
        let mut curves: Vec<(String, Points)> = Vec::new();
        for sample in &self.samples {
            for (handler, depth) in &sample.waiting {
                let point = (sample.seconds, *depth as f64);
                match curves.iter_mut().find(|(name, _)| name == handler) {
                    Some((_, points)) => points.push(point),
                    None => curves.push((handler.clone(), vec![point])),
                }
            }
        }
        curves
    }

    /// Returns the largest number of events that waited for a handler in any sample.
    pub(crate) fn max_waiting(&self, handler: &str) -> usize {
        self.max_waiting.get(handler).copied().unwrap_or_default()
    }

    /// Returns the resident memory in MB; empty on systems that do not report it.
    pub(crate) fn memory(&self) -> Points {
        self.samples.iter().filter_map(|sample| Some((sample.seconds, sample.memory_mb?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: usize, waiting: &[&str]) -> DemoSample {
        let waiting = waiting.iter().map(|name| ((*name).to_owned(), at)).collect();
        DemoSample { seconds: at as f64, events: 10 * at as u64, waiting, memory_mb: None }
    }

    #[test]
    fn long_runs_keep_samples_of_the_whole_time() {
        let mut timeline = Timeline::default();
        (0..10_000).for_each(|at| timeline.add(sample(at, &[])));
        let times: Vec<f64> = timeline.samples.iter().map(|sample| sample.seconds).collect();
        assert!((MAX_SAMPLES / 2..=MAX_SAMPLES).contains(&times.len()), "{}", times.len());
        let step = times[1] - times[0];
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == step), "{times:?}");
        assert!(times[0] == 0.0 && times[times.len() - 1] + step >= 9_999.0, "{times:?}");
        assert!(timeline.event_rates().iter().all(|(_, rate)| *rate == 10.0));
    }

    #[test]
    fn a_late_handler_has_a_shorter_curve() {
        let mut timeline = Timeline::default();
        timeline.add(sample(0, &["fast"]));
        timeline.add(sample(1, &["fast", "late"]));
        let waiting = timeline.waiting();
        assert_eq!(waiting[0], ("fast".to_owned(), vec![(0.0, 0.0), (1.0, 1.0)]));
        assert_eq!(waiting[1], ("late".to_owned(), vec![(1.0, 1.0)]));
        assert!(timeline.memory().is_empty());
        assert_eq!((timeline.max_waiting("fast"), timeline.max_waiting("slow")), (1, 0));
    }
}
