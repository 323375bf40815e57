//! The functions that CEL expressions may call, identified by the last part of their names.

#[rustfmt::skip]
const FUNCTIONS: [&str; 155] = [
    "abs", "add", "all", "allowed", "asApproximateFloat", "asInteger", "base64", "bind", "bitAnd",
    "bitNot", "bitOr", "bitShiftLeft", "bitShiftRight", "bitXor", "bool", "bytes", "ceil", "charAt",
    "check", "cidr", "compareTo", "contains", "containsCIDR", "containsIP", "decode", "distinct",
    "dns1035Label", "dns1123Label", "double", "duration", "dyn", "encode", "endsWith", "equivalent",
    "error", "errored", "escapeKey", "exists", "existsOne", "exists_one", "family", "fieldSelector",
    "filter", "find", "findAll", "first", "flatten", "floor", "format", "getDate", "getDayOfMonth",
    "getDayOfWeek", "getDayOfYear", "getEscapedPath", "getFullYear", "getHost", "getHostname",
    "getHours", "getMilliseconds", "getMinutes", "getMonth", "getPort", "getQuery", "getScheme",
    "getSeconds", "greatest", "group", "has", "hasValue", "indexOf", "int", "intersects", "ip",
    "isCIDR", "isCanonical", "isFinite", "isGlobalUnicast", "isGreaterThan", "isIP", "isInf",
    "isInteger", "isLessThan", "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isNaN",
    "isQuantity", "isSemver", "isSorted", "isURL", "isUnspecified", "join", "labelSelector", "last",
    "lastIndexOf", "least", "lowerAscii", "major", "map", "masked", "matches", "max", "min",
    "minor", "name", "named", "namespace", "none", "of", "ofNonZeroValue", "optFlatMap", "optMap",
    "or", "orValue", "patch", "path", "prefixLength", "quantity", "quote", "range", "reason",
    "replace", "resource", "reverse", "round", "semver", "serviceAccount", "sets", "sign", "size",
    "slice", "sort", "sortBy", "split", "sqrt", "startsWith", "string", "sub", "subresource",
    "substring", "sum", "timestamp", "transformList", "transformMap", "transformMapEntry", "trim",
    "trunc", "type", "uint", "unwrap", "unwrapOpt", "upperAscii", "url", "validate", "value",
];

pub(crate) fn is_function(name: &str) -> bool {
    // The internal names of CEL operators, such as `_+_`, consist of punctuation and underscores.
    let is_operator =
        name.starts_with('@') || name.contains(|sign: char| !sign.is_ascii_alphanumeric() && sign != '.');
    let last = name.rsplit('.').next().unwrap_or(name);
    is_operator || FUNCTIONS.binary_search(&last).is_ok()
}
