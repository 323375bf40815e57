//! Converts a Kubernetes manifest of a project into a template of its Helm chart. The manifest contains fixed
//! names, and in the template the names depend on the Helm release.
//!
//! The conversion works on lines, so that comments and the layout are kept.

/// The first words of each generated template of the chart. A later run recognizes by them that it may remove
/// the template, because the user did not write it.
const MARK: &str = "# Generated from ";

pub(super) fn is_generated(text: &str) -> bool {
    text.starts_with(MARK)
}

/// Returns the first line of a manifest that is generated from `source`.
pub(super) fn header(source: &str) -> String {
    format!("{MARK}{source}; edit it and run `informer manifests`.")
}

/// Converts the Kubernetes manifest `text`, which was read from the path `source`, into a template of the
/// project's Helm chart. If the manifest is generated itself, the template has its first line. With a
/// `condition`, Helm renders the template only if `CONDITION.enabled` is true in the chart's values.
pub(super) fn template(source: &str, text: &str, project: &str, condition: Option<&str>) -> String {
    let (first, text) = match text.split_once('\n') {
        Some((first, rest)) if is_generated(first) => (first.to_owned(), rest),
        _ => (header(source), text),
    };
    let mut template = vec![first];
    if let Some(condition) = condition {
        template.push(format!("{{{{- if .Values.{condition}.enabled }}}}"));
    }
    let mut lines = Vec::new();
    for line in text.lines() {
        if line == "---" {
            convert(&std::mem::take(&mut lines), project, &mut template);
            template.push(line.to_owned());
        } else {
            lines.push(line.replace("{{", "{{ \"{{\" }}"));
        }
    }
    convert(&lines, project, &mut template);
    if condition.is_some() {
        template.push("{{- end }}".to_owned());
    }
    template.join("\n") + "\n"
}

/// Converts one YAML document of a manifest into the corresponding part of a Helm template, and appends its
/// lines to `template`. The project's fixed names, namespace, labels and selectors become Helm expressions,
/// and the conversion of a CRD is rendered only if webhooks are enabled.
fn convert(lines: &[String], project: &str, template: &mut Vec<String>) {
    let metadata = block(lines, "metadata:");
    let labels = format!("    {{{{- include \"{project}.labels\" . | nindent 4 }}}}");
    let last_name = metadata.clone().rev().find(|&index| {
        let key = key(&lines[index]);
        indent(&lines[index]) == 2 && (key == "name" || key == "namespace")
    });
    let has_labels = metadata.clone().any(|index| lines[index] == "  labels:");
    // A CRD's conversion needs the webhook server. Without that server, the API server could not convert
    // between versions, so the template contains the conversion only if webhooks are enabled.
    let conversion = block(lines, "  conversion:");
    for (index, line) in lines.iter().enumerate() {
        if index + 1 == conversion.start && !conversion.is_empty() {
            template.push("  {{- if .Values.webhooks.enabled }}".to_owned());
        }
        let is_selector = line.trim() == format!("app.kubernetes.io/name: {project}");
        match is_selector {
            true if metadata.contains(&index) => {}
            true => {
                let (indent, spaces) = (indent(line), " ".repeat(indent(line)));
                template
                    .push(format!("{spaces}{{{{- include \"{project}.selector\" . | nindent {indent} }}}}"));
            }
            false => template.push(with_release_names(line, project)),
        }
        if metadata.contains(&index) && line == "  labels:" {
            template.push(labels.clone());
        }
        if Some(index) == last_name && !has_labels {
            template.extend(["  labels:".to_owned(), labels.clone()]);
        }
        if index + 1 == conversion.end && !conversion.is_empty() {
            template.push("  {{- end }}".to_owned());
        }
    }
}

/// Returns the indices of the lines that belong to a YAML key, which are the following lines with a larger
/// indentation. Returns an empty range if no line consists of this key.
fn block(lines: &[String], key: &str) -> std::ops::Range<usize> {
    let Some(at) = lines.iter().position(|line| line == key) else { return 0..0 };
    let deeper = |line: &&String| line.trim().is_empty() || indent(line) > indent(key);
    at + 1..at + 1 + lines[at + 1..].iter().take_while(deeper).count()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn key(line: &str) -> &str {
    line.trim_start().split_once(':').map_or("", |(key, _)| key)
}

/// Converts a line of a manifest whose value refers to an object of the project, such as `name: shop`.
/// Replaces the project's name by the Helm expression for the full name of the release, and the project's
/// namespace by that of the release. Returns other lines unchanged.
fn with_release_names(line: &str, project: &str) -> String {
    // The characters that may precede the project's name where the value refers to an object of the project.
    // Other values, such as the name `v1.shops.example.com` of a webhook, are not references.
    let before: &[char] = match key(line) {
        "name" | "namespace" | "secretName" => &[' '],
        "serverName" => &[' ', '.'],
        "cert-manager.io/inject-ca-from" => &[' ', '/'],
        _ => &[],
    };
    let is_reference = !before.is_empty();
    // A list item with the host name of a Service, such as `web.shop-system.svc` in a certificate, also
    // refers to an object of the project.
    let is_host = line.trim_start().starts_with("- ") && line.ends_with(&format!(".{project}-system.svc"));
    let before = if is_host { &[' ', '.'] } else { before };
    let start = match line.trim_start().split_once([':', ' ']) {
        Some((first, _)) if is_reference || is_host => indent(line) + first.len(),
        _ => return line.to_owned(),
    };
    let (head, mut rest) = line.split_at(start);
    let mut converted = head.to_owned();
    let is_end = |next: Option<char>| next.is_none_or(|next| ['-', '.', '/'].contains(&next));
    while !rest.is_empty() {
        let is_begin = converted.ends_with(before);
        let after = rest.strip_prefix(project).filter(|after| is_begin && is_end(after.chars().next()));
        let Some(after) = after else {
            let next = rest.chars().next().map_or(0, char::len_utf8);
            converted.push_str(&rest[..next]);
            rest = &rest[next..];
            continue;
        };
        let namespace = after
            .strip_prefix("-system")
            .filter(|after| after.chars().next().is_none_or(|next| ['.', '/'].contains(&next)));
        match namespace {
            Some(after) => {
                converted.push_str("{{ .Release.Namespace }}");
                rest = after;
            }
            None => {
                converted.push_str(&format!("{{{{ include \"{project}.fullname\" . }}}}"));
                rest = after;
            }
        }
    }
    converted
}

/// Converts the name of a manifest's file to lower camel case, which is usual for keys of Helm values:
/// `network_policy` becomes `networkPolicy`.
pub(super) fn lower_camel_case(name: &str) -> String {
    let mut converted = String::new();
    for (index, word) in name.split(['_', '-']).enumerate() {
        let mut letters = word.chars();
        match letters.next() {
            Some(first) if index > 0 => converted.push(first.to_ascii_uppercase()),
            Some(first) => converted.push(first),
            None => {}
        }
        converted.push_str(letters.as_str());
    }
    converted
}
