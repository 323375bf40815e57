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
fn a_certificate_names_its_user_and_all_groups() {
    let alice = User::new("alice").groups(["developers", "prüfer"]);
    assert_eq!(user(&certificate_of(&alice)), Some(alice));
}

#[test]
fn a_certificate_without_a_common_name_names_nobody() {
    assert_eq!(user(&certificate_of(&User::new(""))), None);
}

proptest! {
    #[test]
    fn broken_certificates_name_nobody_or_somebody_but_never_panic(at in 0_usize..300, byte: u8, cut in 0_usize..400) {
        let mut certificate = certificate_of(&User::new("alice").groups(["developers"]));
        certificate[at] = byte;
        certificate.truncate(cut);
        let _ = user(&certificate);
    }
}
