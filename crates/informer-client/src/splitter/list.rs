use super::value::ValueReader;
use super::{Limits, Slice, SplitError};
use crate::scan::{Cursor, is_space};

/// Splits the body of a JSON list into its items and its other members, which can be in any order.
#[derive(Debug)]
pub(crate) struct ListSplitter {
    value: ValueReader,
    state: ListState,
    limits: Limits,
    /// The number of bytes of the body consumed so far. The number is also correct if the caller does not
    /// call `next` again after an item at the end of a frame.
    used: u64,
    /// The member of the list to which the next value belongs, because its key was read last.
    member: ListMember,
    seen_items: bool,
}

#[derive(Debug)]
pub(crate) enum ListElement<'a> {
    Item(Slice<'a>),
    /// A member of the list other than `items`, and its value.
    Member(ListMember, &'a [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListMember {
    ApiVersion,
    Kind,
    Metadata,
    Items,
    Other,
}

/// The state of the list parser: which syntax element is expected at the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListState {
    Start,
    /// A key of the list is expected, after the opening brace or a comma. Only after the opening brace, the
    /// closing brace of an empty list is also valid.
    Key {
        may_close: bool,
    },
    Colon,
    Value,
    AfterValue,
    /// An item is expected, after the opening bracket of `items` or a comma in `items`.
    Item {
        may_close: bool,
    },
    AfterItem,
    End,
}

impl ListSplitter {
    pub(crate) fn new(limits: Limits) -> Self {
        // Record containers down to level 2. Level 0 is an item, level 1 its members, and level 2 the members
        // of its metadata.
        let value = ValueReader::new(limits, 2);
        Self { value, state: ListState::Start, limits, used: 0, member: ListMember::Other, seen_items: false }
    }

    /// Returns the next part of the list whose last byte is in `frame[*at..]`, and advances `at` past the
    /// consumed bytes. Returns `None` once the frame is consumed.
    pub(crate) fn next<'a>(
        &'a mut self,
        frame: &'a [u8],
        at: &mut usize,
    ) -> Result<Option<ListElement<'a>>, SplitError> {
        // `base` is the offset of the frame in the body.
        let base = self.used - *at as u64;
        while let Some(start) = self.value_start(frame, *at, base)? {
            let wanted = self.member != ListMember::Other || !matches!(self.state, ListState::Value);
            let Some(length) = self.value.read(&frame[start..], base + start as u64, wanted)? else {
                break;
            };
            *at = start + length;
            self.used = base + *at as u64;
            let part = &frame[start..*at];
            match self.state {
                ListState::Item { .. } => {
                    self.state = ListState::AfterItem;
                    let bytes = self.value.whole(part);
                    return Ok(Some(ListElement::Item(Slice { bytes, spans: self.value.spans() })));
                }
                ListState::Value => {
                    self.state = ListState::AfterValue;
                    if wanted {
                        return Ok(Some(ListElement::Member(self.member, self.value.whole(part))));
                    }
                }
                _ => {
                    self.member = member(self.value.whole(part));
                    self.state = ListState::Colon;
                    if self.member == ListMember::Items && std::mem::replace(&mut self.seen_items, true) {
                        return Err(SplitError::Member { member: "items", problem: "is a duplicate key" });
                    }
                }
            }
        }
        *at = frame.len();
        self.used = base + *at as u64;
        if self.used > self.limits.page_bytes {
            let limit = self.limits.page_bytes;
            return Err(SplitError::Large { what: "the list", limit, name: "page_bytes" });
        }
        Ok(None)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.state == ListState::End
    }

    pub(crate) fn max_buffered(&self) -> usize {
        self.value.max_buffered()
    }

    /// Returns the offset in the frame of the next byte of a value, after whitespace and punctuation; `None`
    /// if the rest of the frame contains no value. `base` is the offset of the frame in the body.
    fn value_start(&mut self, frame: &[u8], from: usize, base: u64) -> Result<Option<usize>, SplitError> {
        if self.value.is_inside() {
            return Ok((from < frame.len()).then_some(from));
        }
        for (at, &byte) in frame.iter().enumerate().skip(from) {
            if is_space(byte) {
                continue;
            }
            match self.punctuation(byte) {
                Ok(Some(next)) => self.state = next,
                Ok(None) => return Ok(Some(at)),
                Err(expected) => {
                    return Err(SplitError::Syntax { at: base + at as u64, expected, seen: Some(byte) });
                }
            }
        }
        Ok(None)
    }

    /// Returns the state of the list parser after `byte`, which is not whitespace; `None` if the byte begins
    /// a value.
    fn punctuation(&self, byte: u8) -> Result<Option<ListState>, &'static str> {
        let begins_value = !b",:]}".contains(&byte);
        Ok(match (self.state, byte) {
            (ListState::Start, b'{') => Some(ListState::Key { may_close: true }),
            (ListState::Start, _) => return Err("an object"),
            (ListState::Key { may_close: true } | ListState::AfterValue, b'}') => Some(ListState::End),
            (ListState::Key { .. }, b'"') => None,
            (ListState::Key { .. }, _) => return Err("a key"),
            (ListState::Colon, b':') => Some(ListState::Value),
            (ListState::Colon, _) => return Err("':'"),
            (ListState::Value, b'[') if self.member == ListMember::Items => {
                Some(ListState::Item { may_close: true })
            }
            (ListState::Value, b'n') => None,
            (ListState::Value, _) if self.member == ListMember::Items => return Err("an array of items"),
            (ListState::Value | ListState::Item { .. }, _) if begins_value => None,
            (ListState::Item { may_close: true } | ListState::AfterItem, b']') => Some(ListState::AfterValue),
            (ListState::Value | ListState::Item { .. }, _) => return Err("a value"),
            (ListState::AfterValue, b',') => Some(ListState::Key { may_close: false }),
            (ListState::AfterValue, _) => return Err("',' or '}'"),
            (ListState::AfterItem, b',') => Some(ListState::Item { may_close: false }),
            (ListState::AfterItem, _) => return Err("',' or ']'"),
            (ListState::End, _) => return Err("the end of the response"),
        })
    }
}

fn member(key: &[u8]) -> ListMember {
    let text = std::str::from_utf8(key).ok();
    let Some(key) = text.and_then(|text| Cursor::new(text).string().ok()) else { return ListMember::Other };
    let known = [
        ("items", ListMember::Items),
        ("metadata", ListMember::Metadata),
        ("kind", ListMember::Kind),
        ("apiVersion", ListMember::ApiVersion),
    ];
    known.into_iter().find(|(name, _)| key.is(name)).map_or(ListMember::Other, |(_, member)| member)
}
