//! The OpenAPI document says what the handlers do.

use serde_json::Value;

use crate::client::{Service, similarity};

#[test]
fn every_path_of_the_document_answers_as_it_says() {
    let place = similarity();
    // Rows by position, so that the ids of the examples are there.
    let rows = place.read("rows.csv");
    let rows: String = rows
        .lines()
        .map(|line| line.split_once(',').unwrap().1.to_owned() + "\n")
        .collect();
    place.write("plain.csv", rows);
    let arguments = [
        "m.safetensors",
        "--rows",
        "plain.csv",
        "--learn",
        "--journal",
        "j",
    ];
    let service = Service::start(&place, &arguments);
    let document = service.get("/v1/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut operations = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            operations += 1;
            let method = method.to_uppercase();
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let example = match method.as_str() {
                "GET" => None,
                _ => Some(
                    schema
                        .get("example")
                        .map_or("{}".to_owned(), Value::to_string),
                ),
            };
            // Features have names here, and numbers in the document.
            let example = example.map(|text| text.replace("{\"1\":1}", "{\"a\":1}"));
            let place = path.replace("{id}", "1");
            let answer =
                service.request(&method, &place, example.as_deref().map(str::as_bytes), &[]);
            let said = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(
                ![404, 405].contains(&answer.status),
                "{method} {path}: {said}"
            );
            // What another task answers is refused in words, and all else is good.
            if schema.get("example").is_some() || method == "GET" {
                assert_eq!(answer.status, 200, "{method} {path}: {said}");
                let good = &operation["responses"]["200"];
                let wanted = &good["content"]["application/json"]["schema"]["required"];
                for field in wanted.as_array().into_iter().flatten() {
                    let field = field.as_str().unwrap();
                    assert!(
                        answer.json().get(field).is_some(),
                        "{path} has no `{field}`"
                    );
                }
            } else {
                assert!(!answer.message().is_empty());
            }
            // A field that the document does not have is refused.
            if schema["additionalProperties"] == false {
                let body = br#"{"surely_unknown":1}"#;
                let refused = service.request(&method, &place, Some(body), &[]);
                assert_eq!(refused.status, 400, "{method} {path}");
                assert!(
                    refused.message().contains("surely_unknown"),
                    "{}",
                    refused.message()
                );
                let known = schema["properties"].as_object().unwrap().keys();
                for name in known {
                    assert!(
                        refused.message().contains(&format!("`{name}`")),
                        "{path}: `{name}`"
                    );
                }
            }
        }
    }
    assert!(operations >= 20, "{operations}");
}
