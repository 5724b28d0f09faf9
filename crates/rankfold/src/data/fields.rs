//! Picks a few named fields out of a JSON line, without building the rest.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use std::marker::PhantomData;

use super::jsonl::{Listed, Scalar, message, object};

/// The values of the named fields, in that order: texts and numbers as text,
/// `None` where a field is absent or `null`.
pub(super) fn json_fields<'a, const N: usize>(
    line: &'a [u8],
    names: [Option<&str>; N],
) -> Result<[Option<Cow<'a, str>>; N], String> {
    let found: [Option<Scalar<'a>>; N] = picked(line, names)?;
    Ok(found.map(|value| value.map(|Scalar(text)| text)))
}

/// The same of fields that may hold lists.
pub(super) fn json_lists<'a, const N: usize>(
    line: &'a [u8],
    names: [Option<&str>; N],
) -> Result<[Option<Listed<'a>>; N], String> {
    picked(line, names)
}

fn picked<'a, V: Deserialize<'a> + Clone, const N: usize>(
    line: &'a [u8],
    names: [Option<&str>; N],
) -> Result<[Option<V>; N], String> {
    let mut reader = serde_json::Deserializer::from_slice(object(line)?);
    let found = Pick(names, PhantomData).deserialize(&mut reader);
    let found = found.and_then(|found| reader.end().map(|()| found));
    found.map_err(|e| message(&e))
}

struct Pick<'n, V, const N: usize>([Option<&'n str>; N], PhantomData<V>);

impl<'de, V: Deserialize<'de> + Clone, const N: usize> DeserializeSeed<'de> for Pick<'_, V, N> {
    type Value = [Option<V>; N];

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, V: Deserialize<'de> + Clone, const N: usize> Visitor<'de> for Pick<'_, V, N> {
    type Value = [Option<V>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut out = [const { None }; N];
        let mut seen = [false; N];
        while let Some(Scalar(key)) = map.next_key()? {
            // One field may be wanted in two places: `--where label=x`.
            let mut wanted = self.0.iter().enumerate().filter(|n| *n.1 == Some(&key));
            let Some((first, _)) = wanted.next() else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if std::mem::replace(&mut seen[first], true) {
                return Err(M::Error::custom(format!("`{key}` stands twice")));
            }
            let value = map.next_value::<Option<V>>()?;
            for (other, _) in wanted {
                out[other] = value.clone();
            }
            out[first] = value;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_fields_are_found_and_others_skipped() {
        let line = br#"{"a":"x\n","b":[1,{"c":2}],"d":3.0,"e":null}"#;
        let names = [Some("d"), Some("a"), None, Some("e"), Some("a"), Some("z")];
        let got = json_fields(line, names).unwrap();
        let got = got.each_ref().map(Option::as_deref);
        assert_eq!(got, [Some("3"), Some("x\n"), None, None, Some("x\n"), None]);
    }

    #[test]
    fn lists_are_taken_where_they_may_stand() {
        let line = br#"{"a":["x",2.0,{"name":"y"}],"b":"z","c":null,"d":[]}"#;
        let names = [Some("a"), Some("b"), Some("c"), Some("d")];
        let got = json_lists(line, names).unwrap();
        let got = got.map(|field| field.map(|listed| (listed.is_list, listed.texts.join(" "))));
        let want = [
            Some((true, "x 2 y".to_owned())),
            Some((false, "z".to_owned())),
            None,
            Some((true, String::new())),
        ];
        assert_eq!(got, want);
        let bad = json_lists(br#"{"a":[["x"]]}"#, [Some("a")]);
        assert!(bad.err().unwrap().contains("invalid type: sequence"));
        let bad = json_lists(br#"{"a":{"x":1}}"#, [Some("a")]);
        assert!(
            bad.err()
                .unwrap()
                .contains("expected a text, a number or a list")
        );
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        let message = |line: &[u8]| json_fields(line, [Some("a")]).unwrap_err();
        assert_eq!(message(b"[]"), "expected a JSON object, found `[]`");
        assert_eq!(
            message(br#"{"a":[1]}"#),
            "column 6: invalid type: sequence, expected a text or a number"
        );
        assert_eq!(
            message(br#"{"a":"b"#),
            "column 7: EOF while parsing a string; is the line cut short?"
        );
        assert_eq!(
            message(br#"{"a":null,"a":2}"#),
            "column 13: `a` stands twice"
        );
        assert_eq!(message(br#"{"a":1} x"#), "column 9: trailing characters");
    }
}
