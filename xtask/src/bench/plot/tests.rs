use super::{Panel, svg};

#[test]
fn the_longest_bar_fills_the_picture_and_words_are_escaped() {
    let bars = vec![("a & b".to_owned(), 2.0), ("c".to_owned(), 1.0)];
    let picture = svg("objects < 3", &[Panel { title: "seconds".to_owned(), bars }]);
    assert!(picture.contains("objects &lt; 3") && picture.contains("a &amp; b"));
    assert!(picture.contains("width=\"500.0\"") && picture.contains("width=\"250.0\""), "{picture}");
}

#[test]
fn nothing_measured_is_an_empty_panel() {
    let picture = svg("nothing", &[Panel { title: "seconds".to_owned(), bars: Vec::new() }]);
    assert!(picture.ends_with("</svg>\n"));
}
