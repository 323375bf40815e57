use std::convert::Infallible;
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;

use super::super::ResponseBody;
use super::GzipBody;

fn member(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

async fn inflate(frames: Vec<Vec<u8>>) -> (String, bool) {
    let frames = frames.into_iter().map(|frame| Ok::<_, Infallible>(Frame::data(Bytes::from(frame))));
    let body = ResponseBody::new(StreamBody::new(stream::iter(frames)));
    let (mut body, mut text) = (ResponseBody::new(GzipBody::new(body)), Vec::new());
    loop {
        match body.next_frame().await {
            Ok(Some(frame)) => text.extend_from_slice(&frame),
            end => return (String::from_utf8(text).unwrap(), end.is_ok()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn multi_member_gzip_is_inflated_at_every_frame_boundary() {
    let body = [member("first\n"), member(""), member("second\n")].concat();
    for border in 0..=body.len() {
        let (left, right) = body.split_at(border);
        assert_eq!(inflate(vec![left.to_vec(), right.to_vec()]).await, ("first\nsecond\n".to_owned(), true));
    }
}

#[tokio::test(start_paused = true)]
async fn data_before_a_truncated_gzip_member_is_returned() {
    let (first, rest) = (member("first\n"), member("second\n"));
    let (text, whole) = inflate(vec![first, rest[..rest.len() / 2].to_vec()]).await;
    assert!(text.starts_with("first\n") && !whole, "{text:?}");
}

#[tokio::test(start_paused = true)]
async fn invalid_gzip_is_an_error_and_an_empty_body_is_valid() {
    assert_eq!(inflate(vec![b"this is no gzip stream".to_vec()]).await, (String::new(), false));
    assert_eq!(inflate(vec![]).await, (String::new(), true));
    let large = "x".repeat(10 << 20);
    let (text, whole) = inflate(vec![member(&large)]).await;
    assert!(whole && text == large);
}
