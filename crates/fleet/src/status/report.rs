//! A report of the reporter in a cluster.

use serde::Deserialize;

use super::Moment;
use super::observation::{
    Health, InputRef, MOST_INPUT, MOST_KIND, MOST_NAME, MOST_NAMESPACE, MOST_REPORTER, Object, Observation, PROVIDER,
    Source, cut,
};

/// The most objects of one report.
const MOST: usize = 10_000;

/// What a reporter saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub at: Moment,
    pub reporter: Box<str>,
    /// Whether it has every object. Else it has those that changed.
    pub full: bool,
    pub objects: Vec<Observation>,
}

/// Why a body is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    #[error("{0}")]
    Syntax(String),
    #[error("{0}: {1}")]
    Field(String, String),
}

#[derive(Deserialize)]
struct Wire {
    at: Option<String>,
    #[serde(default)]
    reporter: String,
    #[serde(default)]
    full: bool,
    #[serde(default)]
    objects: Vec<WireObject>,
    #[serde(default)]
    providers: Vec<WireProvider>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireObject {
    kind: String,
    namespace: Option<String>,
    name: String,
    resource_version: Option<String>,
    ready: Option<bool>,
    reason: Option<String>,
    message: Option<String>,
    version: Option<String>,
    input: Option<String>,
    desired: Option<String>,
    at: Option<String>,
    #[serde(default)]
    deleted: bool,
}

#[derive(Deserialize)]
struct WireProvider {
    name: String,
    namespace: Option<String>,
    ready: Option<bool>,
    reason: Option<String>,
    message: Option<String>,
}

impl Report {
    /// Reads a report that came at `now`.
    pub fn parse(body: &[u8], now: Moment) -> Result<Report, ReportError> {
        let wire: Wire = serde_json::from_slice(body).map_err(|error| ReportError::Syntax(error.to_string()))?;
        let count = wire.objects.len() + wire.providers.len();
        if count > MOST {
            let problem = format!("a report has at most {MOST} objects and providers, not {count}");
            return Err(ReportError::Field("/objects".to_owned(), problem));
        }
        // A clock that is ahead must not hide what is seen later.
        let at = time("/at", wire.at.as_deref())?.unwrap_or(now).min(now);
        let objects = wire.objects.into_iter().enumerate();
        let objects = objects.map(|(n, object)| observation(object, at, now, &format!("/objects/{n}")));
        let providers = wire.providers.into_iter().enumerate();
        let providers = providers.map(|(n, provider)| {
            let object = WireObject {
                kind: PROVIDER.to_owned(),
                namespace: provider.namespace,
                name: provider.name,
                resource_version: None,
                ready: provider.ready,
                reason: provider.reason,
                message: provider.message,
                version: None,
                input: None,
                desired: None,
                at: None,
                deleted: false,
            };
            observation(object, at, now, &format!("/providers/{n}"))
        });
        let mut reporter = wire.reporter.into_boxed_str();
        cut(&mut reporter, MOST_REPORTER);
        Ok(Report {
            at,
            reporter,
            full: wire.full,
            objects: objects.chain(providers).collect::<Result<_, _>>()?,
        })
    }
}

fn time(pointer: &str, text: Option<&str>) -> Result<Option<Moment>, ReportError> {
    let parse = |text| {
        Moment::parse(text).ok_or_else(|| {
            let problem = "must be a time such as 2026-11-16T04:31:00Z".to_owned();
            ReportError::Field(pointer.to_owned(), problem)
        })
    };
    text.map(parse).transpose()
}

fn observation(wire: WireObject, at: Moment, learnt: Moment, pointer: &str) -> Result<Observation, ReportError> {
    let refuse = |field: &str, problem: &str| ReportError::Field(format!("{pointer}/{field}"), problem.to_owned());
    for (field, value, most) in [("kind", &wire.kind, MOST_KIND), ("name", &wire.name, MOST_NAME)] {
        if value.is_empty() || value.len() > most {
            return Err(refuse(field, &format!("must have 1 to {most} characters")));
        }
    }
    let namespace = wire.namespace.unwrap_or_default();
    if namespace.len() > MOST_NAMESPACE {
        let problem = format!("must have at most {MOST_NAMESPACE} characters");
        return Err(refuse("namespace", &problem));
    }
    let input = match wire.input.as_deref().filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => {
            let problem = || refuse("input", &format!("must be PATH/ID, of at most {MOST_INPUT} bytes"));
            Some(InputRef::parse(text).ok_or_else(problem)?)
        }
    };
    let mark = match wire.desired.as_deref().filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(
            text.parse()
                .map_err(|_| refuse("desired", "must be 16 hexadecimal digits"))?,
        ),
    };
    let health = match (wire.deleted, wire.ready) {
        (true, _) => Health::Gone,
        (false, Some(true)) => Health::Ready,
        (false, Some(false)) => Health::Failing,
        (false, None) => Health::UnderWay,
    };
    let since = time(&format!("{pointer}/at"), wire.at.as_deref())?
        .unwrap_or(at)
        .min(at);
    let resource_version = wire.resource_version.and_then(|text| text.parse().ok());
    Ok(Observation {
        object: Object {
            kind: wire.kind.into(),
            namespace: namespace.into(),
            name: wire.name.into(),
        },
        input,
        mark,
        inferred: false,
        health,
        reason: wire.reason.unwrap_or_default().into(),
        message: wire.message.unwrap_or_default().into(),
        version: wire.version.unwrap_or_default().into(),
        at,
        since,
        learnt,
        resource_version: resource_version.unwrap_or_default(),
        source: Source::Report,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment(1_800_000_000_000);

    #[test]
    fn ready_has_three_values_and_providers_are_objects() {
        let body = r#"{"at":"2026-11-16T04:31:00Z","reporter":"flux-resourceset-reporter/0.1.0","full":true,"objects":[
            {"kind":"HelmRelease","namespace":"a","name":"one","ready":true,"input":"platform-components/one","desired":"00000000000000ff"},
            {"kind":"HelmRelease","namespace":"a","name":"two","ready":false,"reason":"UpgradeFailed","message":"why","at":"2026-11-16T04:30:00Z"},
            {"kind":"HelmRelease","namespace":"a","name":"three","ready":null},
            {"kind":"HelmRelease","namespace":"a","name":"four","deleted":true}],
            "providers":[{"name":"namespaces","ready":false,"reason":"Failed","message":"502"}]}"#;
        let report = Report::parse(body.as_bytes(), NOW).unwrap();
        let health: Vec<_> = report.objects.iter().map(|seen| seen.health).collect();
        use Health::*;
        assert_eq!(health, [Ready, Failing, UnderWay, Gone, Failing]);
        assert_eq!(report.objects[1].since, Moment::parse("2026-11-16T04:30:00Z").unwrap());
        assert_eq!(report.objects[0].since, report.at);
        assert_eq!(&*report.objects[4].object.kind, PROVIDER);
    }

    #[test]
    fn what_is_no_report_is_refused_with_its_place() {
        for (body, problem) in [
            ("nope", "expected"),
            (r#"{"at":"noon"}"#, "/at: must be a time"),
            (r#"{"objects":[{"kind":"K"}]}"#, "missing field `name`"),
            (
                r#"{"objects":[{"kind":"K","name":"n","desired":"xyz"}]}"#,
                "/objects/0/desired: must be 16",
            ),
            (
                r#"{"objects":[{"kind":"K","name":"n","input":"alone"}]}"#,
                "/objects/0/input: must be PATH/ID",
            ),
            (
                &format!(
                    r#"{{"objects":[{{"kind":"K","name":"n","input":"p/{}"}}]}}"#,
                    "x".repeat(MOST_INPUT)
                ),
                "/objects/0/input: must be PATH/ID, of at most 512 bytes",
            ),
            (r#"{"providers":[{"name":""}]}"#, "/providers/0/name: must have"),
        ] {
            let refused = Report::parse(body.as_bytes(), NOW).unwrap_err().to_string();
            assert!(refused.contains(problem), "{body}: {refused}");
        }
    }
}
