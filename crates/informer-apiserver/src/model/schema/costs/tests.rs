use kube_cel::compile_schema;
use serde_json::{Value, json};

use super::find_excess;

fn rule(rule: &str) -> Value {
    let validations = json!([{"rule": rule}]);
    json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": validations, "properties": {
        "l": {"type": "array", "items": {"type": "integer"}},
        "s": {"type": "string"},
        "m": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "array", "items": {"type": "integer"}}}}},
    }}}})
}

fn cost_error(expression: &str, spec: Value) -> Option<String> {
    find_excess(&compile_schema(&rule(expression)), &json!({"spec": spec}), None).map(|cause| {
        assert_eq!((cause.field.as_str(), cause.reason), ("spec", "FieldValueInvalid"));
        cause.message
    })
}

fn numbers(count: usize) -> Value {
    Value::from((0..count).collect::<Vec<_>>())
}

#[test]
fn expensive_rule_is_rejected_with_the_error_of_kube_apiserver() {
    let twice = "self.l.all(x, self.l.all(y, x + y >= 0))";
    assert_eq!(cost_error(twice, json!({"l": numbers(300)})), None);
    assert_eq!(
        cost_error(twice, json!({"l": numbers(1000)})).unwrap(),
        format!(
            "Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run \
             due to call cost exceeds limit for rule: {twice}"
        )
    );
}

#[test]
fn rules_that_traverse_a_value_once_are_cheap() {
    let lists: Vec<Value> = (0..300).map(|_| json!({"p": numbers(100)})).collect();
    for rule in [
        "self.m.all(i, i.p.all(x, x >= 0))",
        "self.m.filter(i, has(i.p)).all(i, i.p.all(x, x >= 0))",
        "self.m.map(i, i.p).all(p, p.exists(x, x == 3))",
        "self.m.all(i, !has(i.p) || size(i.p) < 1000)",
        "self.m[0].p.exists_one(x, x == 1) && self.s.matches('^a+$') && self.s != 'b'",
    ] {
        assert_eq!(cost_error(rule, json!({"m": lists, "s": "a".repeat(1000)})), None, "{rule}");
    }
}

#[test]
fn loops_over_results_of_loops_are_counted() {
    let lists: Vec<Value> = (0..100).map(|_| json!({"p": numbers(100)})).collect();
    for rule in [
        "self.m.all(i, i.p.all(x, i.p.all(y, i.p.all(z, x + y + z >= 0))))",
        "self.m.map(i, i.p).all(a, a.all(x, a.all(y, a.all(z, x + y + z >= 0))))",
        "[self.s].map(a, a + a + a + a).map(a, a + a + a + a).map(a, a + a + a + a).map(a, a + a + a + a).map(a, a + a + a + a)\
         .map(a, a + a + a + a).map(a, a + a + a + a).map(a, a + a + a + a).all(a, a.contains('b'))",
        "(self.l + self.l + self.l + self.l).all(x, (self.l + self.l + self.l + self.l).all(y, x == y))",
    ] {
        let spec = json!({"m": lists, "s": "a".repeat(1000), "l": numbers(200)});
        assert!(cost_error(rule, spec).is_some(), "{rule}");
    }
}

#[test]
fn total_cost_of_all_rules_is_limited() {
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {
        "type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x + y >= 0))"}]
    }}}});
    let object = |count: usize| json!({"l": vec![numbers(200); count]});
    let compiled = compile_schema(&schema);
    assert!(find_excess(&compiled, &object(20), None).is_none());
    let cause = find_excess(&compiled, &object(100), None).unwrap();
    assert!(
        cause
            .message
            .starts_with("Invalid value: \"array\": validation failed due to running out of cost budget")
    );
    assert!(cause.field.starts_with("l["), "{}", cause.field);
}

#[test]
fn transition_rule_costs_nothing_on_create() {
    let compiled = compile_schema(&rule("self.l.all(x, oldSelf.l.all(y, x + y >= 0))"));
    let object = json!({"spec": {"l": numbers(1000)}});
    assert!(find_excess(&compiled, &object, None).is_none());
    assert!(find_excess(&compiled, &object, Some(&object)).is_some());
}

#[test]
fn results_larger_than_their_arguments_are_counted() {
    let spec = json!({"s": "a".repeat(3_000), "l": numbers(2_000), "m": [{"p": numbers(1_000)}]});
    for rule in [
        "lists.range(1000000000).size() > 0",
        "size(lists.range(20000 * 20000 + size(self.l))) > 0",
        "self.l.map(x, lists.range(x * 1000)).size() > 0",
        "lists.range(int(self.s)).size() > 0",
        "lists.range(true ? int('1000000000') : 5).size() > 0",
        "lists.range(2000).map(x, lists.range(2000)).flatten().size() > 0",
        "self.s.replace('a', self.s).size() > 0 && self.s.replace('', self.s.replace('', self.s)) == ''",
        "self.l.map(x, self.s + self.s + self.s + self.s).join(self.s) == ''",
        "lists.range(2000).distinct().size() > 0",
        "sets.contains(lists.range(2000), self.l)",
        "'%.100000f'.format([1.0]) == ''",
        "(self.s + '%.100000f').format([1.0]) == ''",
        "string(quantity('1e-999999999')) == ''",
        "string(quantity('1e-9' + '99999999')) == ''",
        "lists.range(1000).all(x, lists.range(1000) == lists.range(1000) || lists.range(1000) == lists.range(1000))",
    ] {
        assert!(cost_error(rule, spec.clone()).is_some(), "{rule}");
    }
}

#[test]
fn rules_with_bounded_results_are_accepted() {
    let spec = json!({"s": "a-b-c", "l": numbers(200), "m": [{"p": numbers(100)}]});
    for rule in [
        "lists.range(size(self.l)).all(i, self.l[i] == i)",
        "lists.range(10).map(i, i * 2).all(i, lists.range(i).size() <= 20)",
        "self.m.map(i, i.p).flatten().size() == 100",
        "self.s.split('-').join('.') == 'a.b.c' && self.s.replace('-', '.') == 'a.b.c'",
        "'%s has %d and %.2f'.format([self.s, size(self.l), 1.5]) != ''",
        "quantity('1e3').isGreaterThan(quantity('10Mi').sub(quantity('9Mi'))) || quantity('1Ei').isGreaterThan(quantity('1'))",
        "quantity(self.s.size() > 0 ? '1Gi' : '2Gi').isLessThan(quantity('3Gi')) && string(quantity('1Gi')) != ''",
        "self.l.distinct().size() == 200 && self.l.isSorted() && [80, 443].all(port, !(port in self.l) || port < 200)",
        "self.l.all(x, x + 1 > 0 && x in [1, 2, 3] || x >= 0) && sets.contains(self.l, [1, 2])",
    ] {
        assert_eq!(cost_error(rule, spec.clone()), None, "{rule}");
    }
}
