//! Shrinks a failing input.

/// Returns the smallest input that still fails, found by removing bytes. `fails` runs the target.
pub fn shrink(input: &[u8], mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = input.to_vec();
    let mut piece = best.len().next_power_of_two() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < best.len() {
            let mut shorter = best.clone();
            shorter.drain(at..best.len().min(at + piece));
            if fails(&shorter) { best = shorter } else { at += piece }
        }
        piece /= 2;
    }
    best
}
