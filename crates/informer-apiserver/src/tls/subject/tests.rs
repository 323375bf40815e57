use proptest::prelude::*;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::user;
use crate::model::user::User;
use crate::tls::CertificateAuthority;

fn certificate_of(user: &User) -> Vec<u8> {
    let made = CertificateAuthority::new("test").unwrap().issue_to(user).unwrap();
    CertificateDer::from_pem_slice(made.chain().as_bytes()).unwrap().to_vec()
}

#[test]
fn subject_yields_user_and_groups() {
    let alice = User::new("alice").groups(["developers", "prüfer"]);
    assert_eq!(user(&certificate_of(&alice)), Some(alice));
}

#[test]
fn certificate_without_common_name_has_no_user() {
    assert_eq!(user(&certificate_of(&User::new(""))), None);
}

proptest! {
    #[test]
    fn malformed_certificate_never_panics(at in 0_usize..300, byte: u8, cut in 0_usize..400) {
        let mut certificate = certificate_of(&User::new("alice").groups(["developers"]));
        certificate[at] = byte;
        certificate.truncate(cut);
        let _ = user(&certificate);
    }
}
