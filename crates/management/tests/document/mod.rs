//! Answers held against the document of the API (`/api/openapi.json`).

use serde_json::Value;

/// What of an answer the document does not say, or says otherwise, each with where it stands.
pub fn differences(document: &Value, schema: &Value, answer: &Value, at: &str) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        let Some(schema) = document.pointer(pointer) else {
            return vec![format!("{at}: no {reference}")];
        };
        return differences(document, schema, answer, at);
    }
    if let Some(all) = schema["allOf"].as_array() {
        if answer.is_null() && schema["nullable"] == true {
            return Vec::new();
        }
        let of_one = |schema| differences(document, schema, answer, at);
        return all.iter().flat_map(of_one).collect();
    }
    if let Some(one_of) = schema["oneOf"].as_array() {
        let kind = if answer.is_array() { "array" } else { "object" };
        let fits = |schema: &&Value| (schema["type"] == "array") == (kind == "array");
        let schema = one_of.iter().find(fits).expect("a list and a page");
        return differences(document, schema, answer, at);
    }
    let wrong = || vec![format!("{at}: {answer} is not {schema}")];
    match (schema["type"].as_str(), answer) {
        (None, _) => Vec::new(),
        (Some(_), Value::Null) if schema["nullable"] == true => Vec::new(),
        (Some("string"), Value::String(_))
        | (Some("number"), Value::Number(_))
        | (Some("boolean"), Value::Bool(_)) => Vec::new(),
        (Some("integer"), Value::Number(number)) if number.is_u64() || number.is_i64() => {
            Vec::new()
        }
        (Some("array"), Value::Array(items)) => {
            let of_item = |item| differences(document, &schema["items"], item, &format!("{at}[]"));
            items.iter().flat_map(of_item).collect()
        }
        (Some("object"), Value::Object(fields)) => {
            let of_field = |(name, value): (&String, &Value)| {
                let at = format!("{at}.{name}");
                match schema["properties"].get(name) {
                    Some(schema) => differences(document, schema, value, &at),
                    None if schema["additionalProperties"] == true => Vec::new(),
                    None => vec![format!("{at}: not in the document: {value}")],
                }
            };
            fields.iter().flat_map(of_field).collect()
        }
        _ => wrong(),
    }
}

/// The schema of what a path of the document answers.
pub fn schema_of<'a>(document: &'a Value, path: &str) -> &'a Value {
    &document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
}
