use super::*;

#[test]
fn a_query_has_what_is_given_with_nothing_in_it_that_means_something_else() {
    assert_eq!(query_of(&[None, of_node(None)]), "");
    assert_eq!(query_of(&[Some(("limit", "5".into())), None, of_node(Some("a&limit=1".into()))]), "?limit=5&node=a%26limit%3D1");
}
