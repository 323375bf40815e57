use super::replace;

#[cfg(unix)]
#[test]
fn the_state_is_for_its_owner_alone_since_secrets_are_in_it() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    // Of a run that was killed, and before that of one that cared less.
    let half = folder.path().join("state.half");
    std::fs::write(&half, "{").unwrap();
    std::fs::set_permissions(&half, std::fs::Permissions::from_mode(0o644)).unwrap();
    for text in ["{}", "{\"a\":1}"] {
        replace(&path, text.as_bytes()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o077, 0);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
}
