use std::path::PathBuf;

use kube_client::config::Kubeconfig;

use super::authority_file;

fn kubeconfig(current: &str, cluster: &str) -> Kubeconfig {
    let text = format!(
        "current-context: {current}\ncontexts: [{{name: main, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: other, cluster: {{certificate-authority: /other}}}}, {{name: c, cluster: {cluster}}}]\n"
    );
    Kubeconfig::from_yaml(&text).unwrap()
}

#[test]
fn authority_file_returns_the_ca_file_of_the_current_cluster() {
    let file = kubeconfig("main", "{certificate-authority: /ca.crt}");
    assert_eq!(authority_file(&file), Some(PathBuf::from("/ca.crt")));
    let both = kubeconfig("main", "{certificate-authority: /ca.crt, certificate-authority-data: eA==}");
    assert_eq!(authority_file(&both), None);
    assert_eq!(authority_file(&kubeconfig("main", "{server: 'https://a'}")), None);
    assert_eq!(authority_file(&kubeconfig("unknown", "{certificate-authority: /ca.crt}")), None);
    assert_eq!(authority_file(&Kubeconfig::default()), None);
}
