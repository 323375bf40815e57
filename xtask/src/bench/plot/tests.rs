use super::{Panel, svg};

#[test]
fn longest_bar_spans_the_picture_and_text_is_escaped() {
    let bars = vec![("a & b".to_owned(), 2.0), ("c".to_owned(), 1.0)];
    let picture = svg("objects < 3", &[Panel { title: "seconds".to_owned(), bars }]);
    assert!(picture.contains("objects &lt; 3") && picture.contains("a &amp; b"));
    assert!(picture.contains("width=\"500.0\"") && picture.contains("width=\"250.0\""), "{picture}");
}

#[test]
fn panel_without_bars_is_drawn() {
    let picture = svg("nothing", &[Panel { title: "seconds".to_owned(), bars: Vec::new() }]);
    assert!(picture.ends_with("</svg>\n"));
}
