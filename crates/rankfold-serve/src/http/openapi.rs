//! The OpenAPI document, made of the table of paths.

use serde_json::{Map, Value, json};

use super::guard::Right;
use super::routes::{ROUTES, Route};

fn schema(kind: &str) -> Value {
    match kind {
        "id" => json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
        "ids" => json!({ "type": "array", "items": schema("id") }),
        "features" => json!({
            "type": "object",
            "additionalProperties": { "type": ["number", "null"] },
        }),
        "numbers" => json!({ "type": "array", "items": { "type": "number" } }),
        "objects" => json!({ "type": "array", "items": { "type": "object" } }),
        other => json!({ "type": other }),
    }
}

fn body(route: &Route) -> Value {
    let mut body = if route.path == "/v1/feedback" {
        json!({ "oneOf": [{ "type": "object" }, schema("objects")] })
    } else {
        let fields = route.fields.iter();
        let fields: Map<String, Value> = fields
            .map(|(name, kind)| ((*name).to_owned(), schema(kind)))
            .collect();
        json!({ "type": "object", "properties": fields, "additionalProperties": false })
    };
    if let Ok(example) = serde_json::from_str::<Value>(route.example) {
        body["example"] = example;
    }
    json!({ "required": true, "content": { "application/json": { "schema": body } } })
}

fn answer(route: &Route) -> Value {
    let mut good = json!({ "description": "Done" });
    if !route.answers.is_empty() {
        good["content"] = json!({ "application/json": { "schema": {
            "type": "object",
            "required": route.answers,
        } } });
    }
    good
}

/// The document.
pub fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let error = json!({ "description": "Why not", "content": { "application/json": {
            "schema": { "$ref": "#/components/schemas/Error" } } } });
        let mut operation = json!({
            "summary": route.summary,
            "responses": { "200": answer(route), "default": error },
        });
        if matches!(route.method, "POST" | "PUT") {
            operation["requestBody"] = body(route);
        }
        let mut parameters = Vec::new();
        if route.path.contains("{id}") {
            parameters.push(json!({
                "name": "id", "in": "path", "required": true, "schema": { "type": "string" },
            }));
        }
        let query: &[(&str, &str)] = match (route.method, route.path) {
            ("GET", "/v1/rows") => &[("prefix", "string"), ("limit", "integer")],
            ("GET", "/v1/map") => &[("limit", "integer")],
            _ => &[],
        };
        for (name, kind) in query {
            parameters.push(json!({ "name": name, "in": "query", "schema": { "type": kind } }));
        }
        if !parameters.is_empty() {
            operation["parameters"] = json!(parameters);
        }
        if route.right != Right::Open {
            operation["security"] = json!([{ "token": [] }, {}]);
            operation["description"] = match route.right {
                Right::Teach => json!("Needs the right to teach, where there are tokens."),
                _ => json!("Needs the right to read, where there are tokens."),
            };
        }
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "rankfold serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Answers from a model, and learns from feedback while it answers.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Error": {
                "type": "object",
                "required": ["error"],
                "properties": { "error": {
                    "type": "object",
                    "required": ["message"],
                    "properties": { "message": { "type": "string" } },
                } },
            } },
        },
    })
}
