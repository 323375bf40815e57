use super::replace;

#[cfg(unix)]
#[test]
fn state_is_readable_by_its_owner_only_and_follows_no_link() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    let folder = tempfile::tempdir().unwrap();
    let (path, victim) = (folder.path().join("state.json"), folder.path().join("victim"));
    std::fs::write(&victim, "precious").unwrap();
    std::fs::set_permissions(&victim, std::fs::Permissions::from_mode(0o644)).unwrap();
    for name in ["state.half", "state.json"] {
        symlink(&victim, folder.path().join(name)).unwrap();
    }
    for text in ["{}", "{\"a\":1}"] {
        replace(&path, text.as_bytes()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        assert_eq!(std::fs::symlink_metadata(&path).unwrap().mode() & 0o077, 0);
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "no temporary file is left behind");
}
