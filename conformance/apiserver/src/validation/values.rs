//! Values at and beyond the limits of their types.

use informer_schema::BaseType;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

const NAMES: [&str; 22] = [
    "",
    "a",
    "web",
    "Bad_Name",
    "-a",
    "a-",
    "a.b",
    "a/b",
    "/a",
    "../a",
    "a b",
    "\u{e4}",
    "0",
    "a\n",
    "*",
    "A",
    "example.com/a",
    "a.example.com",
    "*.example.com",
    "http",
    "Nonsense",
    "system:a",
];
const ADDRESSES: [&str; 12] = [
    "10.0.0.1",
    "10.1.2.3",
    "1.2.3.4",
    "::1",
    "fd00::1",
    "10.0.0.0/8",
    "10.0.0.1/8",
    "fd00::/8",
    "01.2.3.4",
    "127.0.0.1",
    "169.254.1.1",
    "a",
];
const INTEGERS: [i64; 16] =
    [-1, 0, 1, 2, 3, 5, 10, 80, 100, 101, 600, 3600, 65_535, 65_536, 86_400, 2_147_483_647];
const RARE_INTEGERS: [i64; 4] = [-2_147_483_648, 2_147_483_648, 1_000_000_001, 9_223_372_036_854_775_807];
const QUANTITIES: [&str; 11] = ["1", "0", "-1", "1.5", "100m", "1Gi", "2", "0.1m", "1e3", "abc", ""];
const TIMES: [&str; 4] = ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.000000Z", "2024-01-01", ""];

/// Returns a value of a type that is no message. `name` is the name of the field, which decides between
/// strings of several formats.
pub(super) fn scalar(base: BaseType<'_>, name: &str, rng: &mut StdRng) -> Value {
    match base {
        BaseType::String => string(name, rng).into(),
        BaseType::Bool => rng.random_bool(0.5).into(),
        BaseType::Int32 | BaseType::Int64 => integer(rng).into(),
        BaseType::Double => json!(1.5),
        BaseType::Bytes => pick(&["AAAA", "", "YQ==", "!", "YQ"], rng).into(),
        BaseType::Time | BaseType::MicroTime => pick(&TIMES, rng).into(),
        BaseType::Duration => pick(&["1s", "1h30m", "-1s", "abc"], rng).into(),
        BaseType::Quantity if rng.random_bool(0.1) => json!(integer(rng)),
        BaseType::Quantity => pick(&QUANTITIES, rng).into(),
        BaseType::IntOrString if rng.random_bool(0.5) => json!(integer(rng)),
        BaseType::IntOrString => pick(&["50%", "150%", "-1%", "http", "Bad_Name", "", "10"], rng).into(),
        BaseType::Strings => json!([string(name, rng)]),
        BaseType::RawExtension | BaseType::Json => json!({"a": 1}),
        _ => json!({}),
    }
}

fn string(name: &str, rng: &mut StdRng) -> String {
    let lower = name.to_ascii_lowercase();
    if ["ip", "cidr", "address", "range"].iter().any(|part| lower.contains(part)) && rng.random_bool(0.7) {
        return pick(&ADDRESSES, rng).to_owned();
    }
    match rng.random_range(0..20) {
        0 => "a".repeat(64),
        1 => "a".repeat(254),
        2 => format!("{}/a", "a".repeat(254)),
        _ => pick(&NAMES, rng).to_owned(),
    }
}

fn integer(rng: &mut StdRng) -> i64 {
    if rng.random_bool(0.1) {
        RARE_INTEGERS[rng.random_range(0..RARE_INTEGERS.len())]
    } else {
        INTEGERS[rng.random_range(0..INTEGERS.len())]
    }
}

fn pick<'v>(values: &[&'v str], rng: &mut StdRng) -> &'v str {
    values[rng.random_range(0..values.len())]
}

/// Returns a value of another JSON type.
pub(super) fn wrong_type(value: &Value) -> Value {
    match value {
        Value::String(_) => json!(7),
        Value::Number(_) => json!("seven"),
        Value::Bool(_) => json!("true"),
        Value::Array(_) => json!({"a": "b"}),
        Value::Object(_) => json!(["a"]),
        Value::Null => json!(7),
    }
}
