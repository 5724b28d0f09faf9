//! Lists of ids with scores, as lines or as JSON, written piece by piece.

use std::time::Instant;

use rankfold::Result;
use serde_json::{Value, json};

use crate::output::{Output, Stream};

/// One entry of a list.
pub struct Entry<'a> {
    pub id: &'a str,
    pub score: f64,
    /// What else is said, by name: columns of a line in this order, fields in JSON.
    pub more: Vec<(&'static str, Value)>,
}

/// Writes lists, one after the other.
pub struct Listed {
    out: Stream,
    json: bool,
    /// What a list is called in JSON.
    name: &'static str,
    separator: &'static str,
}

impl Listed {
    pub fn new(output: &Output, task: &str, k: usize, name: &'static str) -> Result<Self> {
        Listed::scored(output, task, None, k, name)
    }

    /// The same, saying by which score the lists are ordered.
    pub fn scored(
        output: &Output,
        task: &str,
        score: Option<&str>,
        k: usize,
        name: &'static str,
    ) -> Result<Self> {
        let mut out = output.stream()?;
        if output.is_json() {
            let task = json!(task);
            let score = score.map_or_else(String::new, |s| format!("\"score\":{},", json!(s)));
            let head = format!("{{\"format\":1,\"task\":{task},{score}\"k\":{k},\"queries\":[");
            out.put(head.as_bytes())?;
        }
        Ok(Listed {
            out,
            json: output.is_json(),
            name,
            separator: "",
        })
    }

    /// The list of a query, best first.
    pub fn put<'e>(&mut self, query: &str, list: impl Iterator<Item = Entry<'e>>) -> Result<()> {
        if self.json {
            let one = |entry: Entry<'_>| {
                let mut json = json!({ "id": entry.id, "score": entry.score });
                for (name, value) in entry.more {
                    json[name] = value;
                }
                json
            };
            let piece = json!({ "query": query, self.name: list.map(one).collect::<Vec<_>>() });
            self.out
                .put(format!("{}{piece}", self.separator).as_bytes())?;
            self.separator = ",";
            return Ok(());
        }
        let mut lines = String::new();
        for (rank, entry) in (1..).zip(list) {
            lines += &format!("{query}\t{rank}\t{}\t{}", entry.id, entry.score);
            for (_, value) in entry.more {
                lines.push('\t');
                lines += &match value {
                    Value::String(text) => text.replace(['\t', '\n', '\r'], " "),
                    Value::Array(all) => {
                        let texts = all.iter().map(|v| v.as_str().unwrap_or_default());
                        texts.collect::<Vec<_>>().join("; ")
                    }
                    // As scores are written, and not as JSON has it.
                    Value::Number(n) => n.as_f64().map_or(n.to_string(), |v| v.to_string()),
                    other => other.to_string(),
                };
            }
            lines.push('\n');
        }
        self.out.put(lines.as_bytes())
    }

    pub fn end(mut self, start: Instant, output: &Output) -> Result<()> {
        let more = output.end_of_stream();
        if self.json {
            let seconds = json!(start.elapsed().as_secs_f64());
            self.out
                .put(format!("],{more}\"seconds\":{seconds}}}\n").as_bytes())?;
        }
        self.out.commit()
    }
}
