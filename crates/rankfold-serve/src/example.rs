//! Examples as JSON, whose fields keep their order: new features are numbered as they come, so
//! that an example in another order would give another model.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The fields of an object, in their order.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Ordered;
        impl<'de> Visitor<'de> for Ordered {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
                let mut fields = Vec::new();
                while let Some(name) = map.next_key()? {
                    fields.push((name, map.next_value()?));
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Ordered)
    }
}

/// An example in which `by_value` has replaced ids of rows, given the field and the id, by their
/// features. What is no object stays as it is, for others to refuse.
pub fn with_rows(example: &str, by_value: impl Fn(&str, &str) -> Option<String>) -> String {
    let Ok(Fields(fields)) = serde_json::from_str(example) else {
        return example.to_owned();
    };
    let mut out = String::with_capacity(example.len());
    let mut changed = false;
    for (name, raw) in fields {
        out.push(if out.is_empty() { '{' } else { ',' });
        out += &Value::String(name.clone()).to_string();
        out.push(':');
        let row = id_of(raw).and_then(|id| by_value(&name, &id));
        changed |= row.is_some();
        out += row.as_deref().unwrap_or(raw.get());
    }
    out.push('}');
    match changed {
        true => out,
        false => example.to_owned(),
    }
}

/// The id that a field holds: a text, or a number as it is written.
fn id_of(raw: &RawValue) -> Option<String> {
    match raw.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw.get()).ok(),
        Some(b'0'..=b'9' | b'-') => Some(raw.get().to_owned()),
        _ => None,
    }
}

/// Features by value, in the order in which they are given; NaN, a missing value, is `null`.
pub fn features(entries: impl Iterator<Item = (String, f64)>) -> String {
    let mut out = String::from("{");
    for (name, value) in entries {
        if out.len() > 1 {
            out.push(',');
        }
        out += &Value::String(name).to_string();
        out.push(':');
        out += &serde_json::json!(value).to_string();
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_take_the_place_of_ids_and_all_else_stays() {
        let rows = |field: &str, id: &str| {
            (field == "query" && id == "a\"b").then(|| features([("z".into(), 1.5)].into_iter()))
        };
        let given = r#"{"query":"a\"b","positive":{"zz":1,"aa":2},"x":[1, 2],"negative":7}"#;
        let want = r#"{"query":{"z":1.5},"positive":{"zz":1,"aa":2},"x":[1, 2],"negative":7}"#;
        assert_eq!(with_rows(given, rows), want);
        for same in [r#"{ "query": 7 }"#, "[1]", "{", "{}"] {
            assert_eq!(with_rows(same, rows), same);
        }
        let missing = features([("a".into(), f64::NAN), ("b".into(), 0.1)].into_iter());
        assert_eq!(missing, r#"{"a":null,"b":0.1}"#);
    }
}
