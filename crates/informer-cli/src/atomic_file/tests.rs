use super::{Access, replace};

#[cfg(unix)]
#[test]
fn private_file_is_readable_by_its_owner_only_and_follows_no_link() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    let folder = tempfile::tempdir().unwrap();
    let (path, victim) = (folder.path().join("state.json"), folder.path().join("victim"));
    std::fs::write(&victim, "precious").unwrap();
    std::fs::set_permissions(&victim, std::fs::Permissions::from_mode(0o644)).unwrap();
    for name in ["state.half", "state.json"] {
        symlink(&victim, folder.path().join(name)).unwrap();
    }
    for text in ["{}", "{\"a\":1}"] {
        replace(&path, text.as_bytes(), Access::Private).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        assert_eq!(std::fs::symlink_metadata(&path).unwrap().mode() & 0o077, 0);
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "no temporary file is left behind");
}

#[cfg(unix)]
#[test]
fn shared_file_keeps_its_permissions() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (path, other) = (folder.path().join("main.rs"), folder.path().join("other.rs"));
    replace(&path, b"one", Access::Shared).unwrap();
    fs::write(&other, "one").unwrap();
    assert_eq!(mode(&path), mode(&other), "a new file has the default permissions");
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    replace(&path, b"two", Access::Shared).unwrap();
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("two", 0o640));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left behind");
}
