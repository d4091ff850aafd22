//! What a case is called.

/// A case as people call it.
pub fn case_name(workload: &str, labels: &[(String, String)]) -> String {
    let labels =
        labels.iter().filter(|(_, v)| v != workload).map(|(k, v)| if k == "load" || k == "name" { v.clone() } else { format!("{k} {v}") });
    std::iter::once(workload.to_owned()).chain(labels).collect::<Vec<_>>().join(", ")
}
