//! Errors of a file of fault rules: the line of an unknown field or action, and the most similar known one.

/// The minimum similarity, from 0 to 1, between an unknown name and the suggested one.
const MIN_SIMILARITY: f64 = 0.5;

/// Explains serde's error about an unknown field or action: returns a message with its line in `text`, if the
/// name is on one line only, and the most similar known name. Returns `None` for other errors.
pub(super) fn explain(text: &str, error: &str) -> Option<String> {
    let (kind, rest) = ["unknown field `", "unknown variant `"]
        .iter()
        .find_map(|kind| Some((kind.trim_end_matches(" `"), error.split_once(kind)?.1)))?;
    let (word, rest) = rest.split_once('`')?;
    let known = rest.split('`').skip(1).step_by(2);
    let rated = known.map(|known| (strsim::normalized_damerau_levenshtein(word, known), known));
    let nearest = rated.filter(|(similarity, _)| *similarity >= MIN_SIMILARITY);
    let nearest = nearest.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, known)| known);

    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let contains = |line: &str| line.split(|letter| !is_word(letter)).any(|found| found == word);
    let mut lines = text.lines().enumerate().filter(|(_, line)| contains(line)).map(|(index, _)| index + 1);
    let place = match (lines.next(), lines.next()) {
        (Some(line), None) => format!("line {line}: "),
        _ => String::new(),
    };
    let remedy = match nearest {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("write one of {}", rest.split('`').skip(1).step_by(2).collect::<Vec<_>>().join(", ")),
    };
    Some(format!("{place}{kind} `{word}`; {remedy}"))
}
