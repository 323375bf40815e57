//! Validation of the schedule and the time zone of CronJobs.

use jiff::tz::TimeZoneDatabase;

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{FieldView, required};
use crate::model::schema::formats::is_go_duration;

/// Validates `schedule` and its relation to `timeZone`. An update may keep a time zone in the schedule.
pub(super) fn check(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let (field, schedule) = (spec.field_path("schedule"), spec.text("schedule"));
    if schedule.is_empty() {
        return causes.push(required(&field, ""));
    }
    let invalid = |why: &str| Cause::invalid(&field, &format!("{schedule:?}"), why);
    causes.extend(schedule_problem(schedule).map(|why| invalid(&why)));
    let Some(old) = spec.old else { return };
    let had_zone = old["schedule"].as_str().is_some_and(|old| old.contains("TZ"));
    if !had_zone {
        check_without_zone(spec, causes);
    } else if schedule.contains("TZ") && spec.get("timeZone").is_some() {
        causes.push(invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule"));
    }
}

/// Rejects a time zone in `schedule`.
pub(super) fn check_without_zone(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let (field, schedule) = (spec.field_path("schedule"), spec.text("schedule"));
    if schedule.contains("TZ") {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        causes.push(Cause::invalid(&field, &format!("{schedule:?}"), why));
    }
}

/// The maximum length of a component of the name of a time zone, in bytes.
const MAX_COMPONENT_BYTES: usize = 14;

/// Validates a new or changed `timeZone`.
pub(super) fn check_time_zone(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let given = spec.get("timeZone").and_then(serde_json::Value::as_str);
    let Some(name) = given.filter(|name| spec.old.is_none_or(|old| old["timeZone"] != *name)) else { return };
    let invalid = |why: &str| Cause::invalid(&spec.field_path("timeZone"), &format!("{name:?}"), why);
    let unknown = format!("unknown time zone {name}");
    if name.is_empty() {
        causes.push(invalid("timeZone must be nil or non-empty string"));
    } else if !name.split('/').all(is_component) {
        causes.push(invalid(&unknown));
    } else {
        if name.eq_ignore_ascii_case("Local") {
            let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
            causes.push(invalid(why));
        }
        if !is_location(name) {
            causes.push(invalid(&unknown));
        }
    }
}

fn is_component(part: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    (1..=MAX_COMPONENT_BYTES).contains(&part.len())
        && !matches!(part, "." | "..")
        && !part.starts_with('-')
        && part.bytes().all(is_allowed)
}

/// Returns true if Go's `time.LoadLocation` accepts a name. Names are case-sensitive, as in the files of the
/// time zone database. The bundled database makes the result independent of the machine.
fn is_location(name: &str) -> bool {
    matches!(name, "" | "UTC" | "Local")
        || TimeZoneDatabase::bundled().available().any(|known| known.as_str() == name)
}

/// Names of numbers in a field, each with its number.
type NumberNames = &'static [(&'static str, u64)];

/// A field of a schedule.
#[derive(Clone, Copy)]
struct ScheduleField {
    /// The lowest number.
    least: u64,
    /// The highest number.
    most: u64,
    names: NumberNames,
}

impl ScheduleField {
    const fn new(least: u64, most: u64, names: NumberNames) -> Self {
        Self { least, most, names }
    }
}

const MONTHS: NumberNames = &[
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];
const WEEKDAYS: NumberNames =
    &[("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)];
/// Minute, hour, day of the month, month and day of the week.
const FIELDS: [ScheduleField; 5] = [
    ScheduleField::new(0, 59, &[]),
    ScheduleField::new(0, 23, &[]),
    ScheduleField::new(1, 31, &[]),
    ScheduleField::new(1, 12, MONTHS),
    ScheduleField::new(0, 6, WEEKDAYS),
];

/// Returns the parser error for an invalid schedule in the standard format of `robfig/cron`, which
/// kube-apiserver uses.
fn schedule_problem(schedule: &str) -> Option<String> {
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let Some((zone, after)) = schedule.split_once(' ') else {
            return Some(
                "invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned(),
            );
        };
        let name = zone.split_once('=').map_or("", |(_, name)| name);
        if !is_location(name) {
            return Some(format!("provided bad location {name}: unknown time zone {name}"));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return descriptor_problem(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (count, shown) = (fields.len(), fields.join(" "));
        return Some(format!("expected exactly 5 fields, found {count}: [{shown}]"));
    }
    fields.iter().zip(FIELDS).find_map(|(field, bounds)| {
        // As in kube-apiserver, empty elements of a list are ignored.
        field.split(',').filter(|range| !range.is_empty()).find_map(|range| parse_range(range, bounds).err())
    })
}

fn descriptor_problem(descriptor: &str) -> Option<String> {
    match descriptor.strip_prefix("@every ") {
        Some(duration) if is_go_duration(duration) => None,
        Some(duration) => {
            Some(format!("failed to parse duration {descriptor}: time: invalid duration {duration:?}"))
        }
        None => match descriptor {
            "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => None,
            other => Some(format!("unrecognized descriptor: {other}")),
        },
    }
}

fn parse_range(expression: &str, field: ScheduleField) -> Result<(), String> {
    let ScheduleField { least, most, names } = field;
    let parts: Vec<&str> = expression.split('/').collect();
    let bounds: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = match *bounds {
        // As in kube-apiserver, the text after the hyphen of `*-` is ignored.
        ["*" | "?", ..] => (least, most),
        [only] => {
            let only = parse_number(only, names)?;
            (only, only)
        }
        [start, end] => (parse_number(start, names)?, parse_number(end, names)?),
        [start, ..] => {
            parse_number(start, names)?;
            return Err(format!("too many hyphens: {expression}"));
        }
        [] => (least, most),
    };
    let step = match *parts {
        [_] => 1,
        [_, step] => {
            // `5/10` means `5-59/10` in the field of minutes.
            if bounds.len() == 1 {
                end = most;
            }
            parse_number(step, &[])?
        }
        _ => return Err(format!("too many slashes: {expression}")),
    };
    let why = match () {
        () if start < least => format!("beginning of range ({start}) below minimum ({least})"),
        () if end > most => format!("end of range ({end}) above maximum ({most})"),
        () if start > end => format!("beginning of range ({start}) beyond end of range ({end})"),
        () if step == 0 => "step of range should be a positive number".to_owned(),
        () => return Ok(()),
    };
    Err(format!("{why}: {expression}"))
}

fn parse_number(text: &str, names: NumberNames) -> Result<u64, String> {
    let lower = text.to_lowercase();
    if let Some((_, number)) = names.iter().find(|(name, _)| *name == lower) {
        return Ok(*number);
    }
    let number = text.parse::<i64>().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}
