//! Selectors: parsed, printed and matched against the demo fleet.

use fleet::selector::Selector;

use crate::demo;

pub fn selectors(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(selector) = Selector::parse(text) else { return };
    let printed = selector.to_string();
    let again = Selector::parse(&printed).expect("a printed selector can be parsed");
    assert_eq!(again.to_string(), printed, "a printed selector means something else");
    let fleet = demo::fleet();
    assert!(
        selector
            .select(fleet)
            .map(|cluster| &cluster.document().id)
            .eq(again.select(fleet).map(|cluster| &cluster.document().id)),
        "a printed selector selects other clusters"
    );
    // Also the checks against the fleet's fields and labels, which may refuse it.
    let _refused = Selector::for_fleet(text, fleet);
}
