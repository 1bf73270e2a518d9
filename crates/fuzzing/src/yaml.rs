//! Both readers of YAML: that of kinds and files, and that of the renderer, which reads as Flux's libraries do.

pub fn yaml(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(value) = fleet::yaml::parse(text)
    {
        // What was read can be written, and read again.
        let written = fleet::yaml::write(&value);
        let again = fleet::yaml::parse(&written);
        assert_eq!(again.as_ref(), Ok(&value), "written as {written:?}");
    }
    for document in resourceset::documents(bytes).unwrap_or_default() {
        let Ok(written) = resourceset::to_yaml(&document) else {
            continue;
        };
        resourceset::documents(written.as_bytes()).expect("what was written can be read");
    }
}
