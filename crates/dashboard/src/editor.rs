//! The one editor of documents. Its text is the body of a call, which is checked while somebody types, and planned before it is made.

use maud::{Markup, html};
use serde_json::Value;

use crate::PREFIX;
use crate::api::Problem;
use crate::call::{Call, document_diff};
use crate::visit::Visit;

/// An editor that starts with a text.
pub(crate) fn editor(call: &Call, text: &str, label: &str) -> Markup {
    let call = call.clone().yaml("");
    html! {
        form.editor method="post" action=(format!("{PREFIX}/plan")) data-check="check" {
            (call.fields())
            label for="body" { (label) }
            textarea #body name="body" spellcheck="false" autocomplete="off" rows=(text.lines().count().clamp(8, 40)) { (text) }
            div.answer {
                button.primary type="submit" { "Show the plan" }
                p.error data-stale role="status" {}
                div #check role="status" aria-live="polite" { p.faint { "What you type is checked by a dry run. Nothing is changed before you confirm the plan." } }
            }
        }
    }
}

/// The editor of a call that is refused, so that what was typed is not lost.
pub(crate) async fn again(visit: &Visit, call: &Call, refused: &Problem) -> Markup {
    if !call.has_document() {
        return html! {};
    }
    match refused.status == 412 && !call.if_match.is_empty() {
        true => with_changes(visit, call).await,
        false => editor(call, &call.body, "Your text, as YAML"),
    }
}

/// The editor of a document that somebody else changed since its text was shown.
async fn with_changes(visit: &Visit, call: &Call) -> Markup {
    let found = visit.client.answer(&call.path).await;
    let current = found.and_then(|answer| Ok((answer.etag(), answer.json::<Value>()?)));
    match current {
        Ok((etag, document)) => {
            let typed = fleet::yaml::parse(&call.body).unwrap_or_default();
            let call = call.clone().if_match(etag.as_deref());
            html! {
                p {
                    "Somebody else changed this document after you opened it. Your text is below, as it differs from the document now. Take over into your text "
                    "what is only in the document; the plan then replaces the document with your text."
                }
                (document_diff(&document, &typed))
                (editor(&call, &call.body, "Your text, as YAML"))
            }
        }
        Err(problem) => html! {
            p { "The document cannot be read now: " (problem.detail) }
            (editor(call, &call.body, "Your text, as YAML"))
        },
    }
}
