//! The base template of the pages, their styles, and the template engine.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use thiserror::Error;

/// The styles that all pages share. The base template includes them.
const STYLE: &str = include_str!("page/style.css");
const BASE: &str = "base.html";
/// The extension `html` makes the template engine escape values.
const PAGE: &str = "page.html";

/// The reason why a page could not be rendered: a template with an error, or one that reads a missing value.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct RenderError(minijinja::Error);

/// Renders a page from a template and the values that it reads.
///
/// The template extends `base.html`, and fills its blocks `title`, `style` (rules of this page only),
/// `header` and `main`. All values are escaped, unless the template applies the filter `safe` to them.
///
/// # Errors
///
/// Fails if the template is invalid, or reads a value that is missing.
pub fn render(template: &str, values: &impl Serialize) -> Result<String, RenderError> {
    let page = || {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        environment.add_global("shared_style", STYLE);
        environment.add_template(BASE, include_str!("page/base.html"))?;
        environment.add_template(PAGE, template)?;
        environment.get_template(PAGE)?.render(Serde(values))
    };
    page().map_err(RenderError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Values {
        name: &'static str,
    }

    const VALUES: Values = Values { name: "<script>" };

    #[test]
    fn blocks_of_a_page_are_in_the_base_template_and_escaped() {
        let template = "{% extends \"base.html\" %}\n{% block title %}of {{ name }}{% endblock %}\n\
                        {% block main %}\n<p>{{ name }}</p>\n{% endblock %}\n";
        let page = render(template, &VALUES).unwrap();
        assert!(page.starts_with("<!doctype html>\n"), "{page}");
        assert!(page.contains("<title>of &lt;script&gt;</title>"), "{page}");
        assert!(page.contains("<main>\n<p>&lt;script&gt;</p>\n</main>"), "{page}");
        assert!(page.contains(STYLE.trim_end()), "the styles are not escaped: {page}");
        assert!(page.trim_end().ends_with("</html>"), "{page}");
    }

    #[test]
    fn page_that_reads_a_missing_value_is_an_error() {
        let template = "{% extends \"base.html\" %}{% block main %}{{ absent }}{% endblock %}";
        assert!(render(template, &VALUES).unwrap_err().to_string().contains("undefined"));
    }
}
