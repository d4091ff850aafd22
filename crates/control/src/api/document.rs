//! Whether a value is as the API's document says: for tests and fuzzers, which judge every answer by it.

use serde_json::Value;

/// Whether `value` fits `schema` of `document`: types, required members, references, no member that is not described. Else where it does not.
pub fn fits(value: &Value, schema: &Value, document: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).ok_or_else(|| format!("{reference} leads nowhere"))?;
        return fits(value, target, document);
    }
    if let Some(choices) = schema["oneOf"].as_array().or(schema["allOf"].as_array()) {
        let null_fits = value.is_null() && choices.iter().any(|c| c["type"] == "null");
        let choice = choices.iter().find(|c| c["type"] != "null").ok_or("a choice of nothing")?;
        return if null_fits { Ok(()) } else { fits(value, choice, document) };
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => return Ok(()),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !types.contains(&kind) {
        return Err(format!("{value} is {kind}, not {types:?}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{value} is none of {words:?}"));
    }
    if let Value::Array(items) = value {
        items.iter().try_for_each(|item| fits(item, &schema["items"], document))?;
    }
    let Value::Object(members) = value else { return Ok(()) };
    for (name, member) in members {
        let schema = schema["properties"].get(name).ok_or_else(|| format!("{name} is not described"))?;
        fits(member, schema, document).map_err(|e| format!("{name}: {e}"))?;
    }
    let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.find(|name| !members.contains_key(*name)).map_or(Ok(()), |name| Err(format!("{name} is missing")))
}
