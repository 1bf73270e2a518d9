//! The state of a cluster, as a function of evidence and time.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use fleet::document::Etag;
use fleet::inputs::{Mark, mark};
use fleet::log::Revision;
use fleet::status::{
    ClusterStatus, Event, Evidence, Expected, ExpectedKind, Health, InputRef, Moment, Report, State, Told, judge,
};
use proptest::prelude::*;
use serde_json::json;

const PATH: &str = "platform-components";
const SILENT_AFTER: Duration = Duration::from_secs(20 * 60);
/// When the story begins.
const START: u64 = 1_800_000_000_000;

fn second(n: u64) -> Moment {
    Moment(START + n * 1000)
}

/// The reply with these versions of `a`, `b` and so on. Version 0 is turned off.
fn body(versions: &[u32]) -> String {
    let inputs = versions.iter().zip('a'..).map(|(version, id)| input(id, *version));
    format!(r#"{{"inputs":[{}]}}"#, inputs.collect::<Vec<_>>().join(","))
}

fn input(id: char, version: u32) -> String {
    format!(r#"{{"enabled":{},"id":"{id}","version":"{version}"}}"#, version > 0)
}

fn mark_of(id: char, version: u32) -> Mark {
    mark(PATH, &input(id, version))
}

fn expected(body: &str, watched: bool) -> Expected {
    let sets: Arc<[Box<str>]> = Arc::new([Box::from("components")]);
    Expected {
        kinds: vec![ExpectedKind::read(PATH.into(), body.as_bytes(), watched, sets)],
    }
}

/// One piece of evidence.
#[derive(Clone, Debug)]
enum Piece {
    /// When, and the versions that it was told.
    Poll(u64, Vec<u32>),
    /// An event about the release of an input: when, input, version, severity and reason.
    Event(u64, char, u32, &'static str, &'static str),
    /// A whole report: when, and the input, version and readiness of each release.
    Report(u64, Vec<(char, u32, Option<bool>)>),
    /// An event without a mark: kind, name, severity and reason.
    Stray(u64, &'static str, &'static str, &'static str, &'static str),
    /// A failure whose input was found later: when, input, and the version that the input had then, if that is known.
    Found(u64, char, Option<u32>),
}

fn apply(evidence: &mut Evidence, piece: &Piece) {
    match piece {
        Piece::Poll(at, versions) => {
            evidence.poll(Told {
                path: PATH.into(),
                digest: Etag::of_bytes(body(versions).as_bytes()),
                revision: Revision(*at),
                at: second(*at),
                since: second(*at),
                agent: "flux-operator/v0.58.1".into(),
            });
        }
        Piece::Event(at, id, version, severity, reason) => {
            let event = json!({
                "involvedObject": {"kind": "HelmRelease", "namespace": "flux-system", "name": id.to_string(),
                    "resourceVersion": at.to_string()},
                "severity": severity, "reason": reason, "message": "why", "timestamp": second(*at).to_string(),
                "metadata": {"input": format!("{PATH}/{id}"), "desired": mark_of(*id, *version).to_string()},
            });
            observe(evidence, *at, &event);
        }
        Piece::Stray(at, kind, name, severity, reason) => {
            observe(evidence, *at, &stray(*at, kind, name, severity, reason));
        }
        Piece::Found(at, id, version) => {
            let event = stray(*at, "HelmChart", "chart", "error", "InvalidChartReference").to_string();
            let mut found = Event::parse(event.as_bytes(), second(*at))
                .unwrap()
                .observation
                .unwrap();
            found.input = InputRef::parse(&format!("{PATH}/{id}"));
            found.mark = version.map(|version| mark_of(*id, version));
            found.inferred = true;
            evidence.observe(second(*at), Some(found));
        }
        Piece::Report(at, releases) => {
            let objects: Vec<_> = releases
                .iter()
                .map(|(id, version, ready)| {
                    json!({
                        "kind": "HelmRelease", "namespace": "flux-system", "name": id.to_string(), "ready": ready,
                        "input": format!("{PATH}/{id}"), "desired": mark_of(*id, *version).to_string(),
                    })
                })
                .collect();
            let report = json!({"at": second(*at).to_string(), "full": true, "objects": objects});
            let report = Report::parse(report.to_string().as_bytes(), second(1_000_000)).unwrap();
            evidence.report(report);
        }
    }
}

/// An event without a mark.
fn stray(at: u64, kind: &str, name: &str, severity: &str, reason: &str) -> serde_json::Value {
    json!({
        "involvedObject": {"kind": kind, "namespace": "flux-system", "name": name},
        "severity": severity, "reason": reason, "message": "why", "timestamp": second(at).to_string(),
    })
}

fn observe(evidence: &mut Evidence, at: u64, event: &serde_json::Value) {
    let event = Event::parse(event.to_string().as_bytes(), second(at)).unwrap();
    evidence.observe(second(at), event.observation);
}

fn known(pieces: &[Piece]) -> Evidence {
    let mut evidence = Evidence::default();
    pieces.iter().for_each(|piece| apply(&mut evidence, piece));
    evidence
}

/// The status when the cluster should have these versions.
fn status(pieces: &[Piece], versions: &[u32], now: u64) -> ClusterStatus {
    judge(
        &known(pieces),
        &expected(&body(versions), true),
        second(now),
        SILENT_AFTER,
    )
}

fn state(pieces: &[Piece], versions: &[u32], now: u64) -> State {
    status(pieces, versions, now).state
}

use Piece::{Event as E, Found as F, Poll as P, Report as R, Stray as S};
use State::{Behind, Converged, Failing, Never, Silent, Told as ToldState};

#[test]
fn a_state_follows_from_evidence() {
    let failed = || E(20, 'a', 1, "error", "UpgradeFailed");
    let succeeded = |at| E(at, 'a', 1, "info", "UpgradeSucceeded");
    let cases: Vec<(&str, Vec<Piece>, Vec<u32>, State)> = vec![
        ("nothing is known", vec![], vec![1], Never),
        ("told", vec![P(10, vec![1])], vec![1], ToldState),
        ("told an older reply", vec![P(10, vec![1])], vec![2], Behind),
        ("told again", vec![P(10, vec![1]), P(20, vec![2])], vec![2], ToldState),
        ("turned off and told", vec![P(10, vec![0])], vec![0], Converged),
        ("nothing to have, and told so", vec![P(10, vec![])], vec![], Converged),
        ("ready", vec![P(10, vec![1]), succeeded(20)], vec![1], Converged),
        (
            "one of two ready",
            vec![P(10, vec![1, 1]), succeeded(20)],
            vec![1, 1],
            ToldState,
        ),
        (
            "ready with an earlier content",
            vec![P(10, vec![1]), succeeded(20), P(30, vec![2])],
            vec![2],
            ToldState,
        ),
        ("failed", vec![P(10, vec![1]), failed()], vec![1], Failing),
        (
            "failed before it was told again",
            vec![P(10, vec![1]), failed(), P(30, vec![2])],
            vec![2],
            ToldState,
        ),
        (
            "failed, then should be other, and was not told",
            vec![P(10, vec![1]), failed()],
            vec![2],
            Behind,
        ),
        (
            "failed, then succeeded",
            vec![P(10, vec![1]), failed(), succeeded(30)],
            vec![1],
            Converged,
        ),
        (
            "succeeded, then failed",
            vec![P(10, vec![1]), succeeded(15), failed()],
            vec![1],
            Failing,
        ),
        (
            "rolled back",
            vec![P(10, vec![1]), E(20, 'a', 1, "info", "RollbackSucceeded")],
            vec![1],
            Failing,
        ),
        (
            "under way",
            vec![P(10, vec![1]), E(20, 'a', 1, "info", "Progressing")],
            vec![1],
            ToldState,
        ),
        (
            "reported ready",
            vec![P(10, vec![1]), R(20, vec![('a', 1, Some(true))])],
            vec![1],
            Converged,
        ),
        (
            "reported not ready",
            vec![P(10, vec![1]), R(20, vec![('a', 1, Some(false))])],
            vec![1],
            Failing,
        ),
        (
            "reported under way",
            vec![P(10, vec![1]), R(20, vec![('a', 1, None)])],
            vec![1],
            ToldState,
        ),
        (
            "reported with an earlier mark",
            vec![P(10, vec![2]), R(20, vec![('a', 1, Some(true))])],
            vec![2],
            ToldState,
        ),
        (
            "a report heals a hint",
            vec![P(10, vec![1]), failed(), R(30, vec![('a', 1, Some(true))])],
            vec![1],
            Converged,
        ),
        (
            "an older report does not",
            vec![P(10, vec![1]), R(15, vec![('a', 1, Some(true))]), failed()],
            vec![1],
            Failing,
        ),
        (
            "a report without the object drops the hint",
            vec![P(10, vec![1]), failed(), R(30, vec![])],
            vec![1],
            ToldState,
        ),
        (
            "a chart of no release",
            vec![
                P(10, vec![1]),
                S(20, "HelmChart", "flux-system-x", "error", "InvalidChartReference"),
            ],
            vec![1],
            Failing,
        ),
        (
            "the chart of a release",
            vec![
                P(10, vec![1]),
                E(12, 'a', 1, "info", "Progressing"),
                succeeded(15),
                S(20, "HelmChart", "flux-system-a", "error", "InvalidChartReference"),
            ],
            vec![1],
            Failing,
        ),
        (
            "and the release succeeds later",
            vec![
                P(10, vec![1]),
                S(20, "HelmChart", "flux-system-a", "error", "InvalidChartReference"),
                succeeded(25),
            ],
            vec![1],
            Converged,
        ),
        (
            "its ResourceSet fails",
            vec![
                P(10, vec![1]),
                S(20, "ResourceSet", "components", "error", "BuildFailed"),
            ],
            vec![1],
            Failing,
        ),
        (
            "its ResourceSet failed with what it was told before",
            vec![
                P(10, vec![1]),
                S(20, "ResourceSet", "components", "error", "BuildFailed"),
                P(30, vec![2]),
            ],
            vec![2],
            ToldState,
        ),
        (
            "a provider fails",
            vec![
                P(10, vec![1]),
                S(20, "ResourceSetInputProvider", "components", "error", "Failed"),
            ],
            vec![1],
            Failing,
        ),
        (
            "and polls again",
            vec![
                P(10, vec![1]),
                S(20, "ResourceSetInputProvider", "components", "error", "Failed"),
                P(30, vec![1]),
            ],
            vec![1],
            ToldState,
        ),
    ];
    for (name, pieces, versions, expected) in cases {
        assert_eq!(state(&pieces, &versions, 40), expected, "{name}");
    }
}

/// Version 2 did not exist, so that its release told nothing. The way back to version 1 tells nothing, either.
#[test]
fn a_success_does_not_count_after_the_input_had_another_content() {
    let chart = |evidence: &mut Evidence, at: u64, version: u32| {
        let event = json!({
            "involvedObject": {"kind": "HelmChart", "namespace": "flux-system", "name": "flux-system-a"},
            "severity": "error", "reason": "InvalidChartReference", "timestamp": second(at).to_string(),
            "metadata": {"input": format!("{PATH}/a"), "desired": mark_of('a', version).to_string()},
        });
        observe(evidence, at, &event);
    };
    let state = |evidence: &Evidence| {
        let status = judge(evidence, &expected(&body(&[1]), true), second(60), SILENT_AFTER);
        status.kinds[0].inputs[0].state
    };
    let mut evidence = known(&[
        P(10, vec![1]),
        E(15, 'a', 1, "info", "UpgradeSucceeded"),
        P(20, vec![2]),
    ]);
    chart(&mut evidence, 25, 2);
    assert_eq!(state(&evidence), Behind, "it has version 2");
    apply(&mut evidence, &P(30, vec![1]));
    assert_eq!(state(&evidence), ToldState);
    let mut reported = evidence.clone();
    apply(&mut reported, &R(40, vec![('a', 1, Some(true))]));
    assert_eq!(state(&reported), Converged);
    apply(&mut evidence, &E(40, 'a', 1, "info", "UpgradeSucceeded"));
    assert_eq!(state(&evidence), Converged);
    // What failed before counts no longer.
    chart(&mut evidence, 35, 2);
    assert_eq!(state(&evidence), Converged);
}

#[test]
fn what_is_under_way_is_told_by_what_applies_the_input() {
    let object = |kind: &str, ready: Option<bool>, reason: &str| {
        json!({
            "kind": kind, "name": "a", "ready": ready, "reason": reason, "input": format!("{PATH}/a"),
            "desired": mark_of('a', 1).to_string(),
        })
    };
    let (release, source) = (
        object("HelmRelease", None, "Progressing"),
        object("HelmRepository", Some(true), "Succeeded"),
    );
    for objects in [[&release, &source], [&source, &release]] {
        let mut evidence = known(&[P(10, vec![1])]);
        let report = json!({"at": second(20).to_string(), "full": true, "objects": objects}).to_string();
        evidence.report(Report::parse(report.as_bytes(), second(20)).unwrap());
        let status = judge(&evidence, &expected(&body(&[1]), true), second(30), SILENT_AFTER);
        let input = &status.kinds[0].inputs[0];
        assert_eq!(input.state, ToldState);
        assert_eq!(&*input.seen.as_ref().unwrap().reason, "Progressing");
    }
}

#[test]
fn a_cluster_that_stops_polling_becomes_silent_but_stays_failing() {
    let told = [P(10, vec![1])];
    let limit = 10 + SILENT_AFTER.as_secs();
    assert_eq!(state(&told, &[1], limit), ToldState);
    let silent = status(&told, &[1], limit + 1);
    assert_eq!((silent.state, silent.since), (Silent, Some(second(limit))));
    let failing = [P(10, vec![1]), E(20, 'a', 1, "error", "UpgradeFailed")];
    let failing = status(&failing, &[1], limit + 1);
    assert_eq!((failing.state, failing.since), (Failing, Some(second(20))));
}

#[test]
fn what_renders_nothing_that_waits_is_converged_once_told() {
    let evidence = known(&[P(10, vec![1])]);
    let watched = |watched| {
        let expected = expected(&body(&[1]), watched);
        judge(&evidence, &expected, second(20), SILENT_AFTER).state
    };
    assert_eq!((watched(true), watched(false)), (ToldState, Converged));
}

#[test]
fn a_kind_that_is_never_polled_counts_only_if_it_has_inputs() {
    let evidence = known(&[P(10, vec![1])]);
    let other = |body: &str| ExpectedKind::read("namespaces".into(), body.as_bytes(), false, Arc::new([]));
    let state = |body: &str| {
        let mut expected = expected(&self::body(&[1]), false);
        expected.kinds.push(other(body));
        judge(&evidence, &expected, second(20), SILENT_AFTER).state
    };
    assert_eq!(state(r#"{"inputs":[]}"#), Converged);
    assert_eq!(state(r#"{"inputs":[{"id":"x"}]}"#), Behind);
}

#[test]
fn the_short_judgement_of_polls_is_the_long_one() {
    for (polled, current) in [
        (vec![1], vec![1]),
        (vec![1], vec![2]),
        (vec![0], vec![0]),
        (vec![], vec![]),
    ] {
        for watched in [true, false] {
            let evidence = known(&[P(10, polled.clone())]);
            let expected = expected(&body(&current), watched);
            let long = judge(&evidence, &expected, second(20), SILENT_AFTER).lasting;
            let replies = expected.kinds.iter().map(|kind| {
                let path: &str = &kind.path;
                (path, kind.digest, kind.is_watched(), !kind.inputs.is_empty())
            });
            let short = fleet::status::Lasting::of_polls(&evidence, replies);
            assert_eq!(short, long, "{polled:?} {current:?} {watched}");
        }
    }
}

#[test]
fn floods_are_bounded_and_the_newest_count() {
    let mut evidence = Evidence::default();
    for n in 0..2000 {
        let event = json!({
            "involvedObject": {"kind": "Kustomization", "namespace": "flux-system", "name": format!("k{n}")},
            "severity": "error", "reason": "BuildFailed", "timestamp": second(n).to_string(),
            "message": "x".repeat(10_000),
        });
        observe(&mut evidence, n, &event);
    }
    assert_eq!(evidence.objects().count(), 256);
    assert!(evidence.objects().all(|seen| seen.at >= second(2000 - 256)));
    assert!(evidence.objects().all(|seen| seen.message.len() <= 1024));
}

/// Text that a cluster chooses: all of it is bounded, however it comes.
#[test]
fn floods_of_long_texts_are_bounded() {
    let object = |name: String, input: &str, message: &str| json!({"kind": "HelmRelease", "name": name, "ready": false, "input": input, "reason": "UpgradeFailed", "message": message});
    // Many reports of changes, each of which is small enough.
    let mut evidence = Evidence::default();
    for n in 0..40 {
        let objects = (0..500).map(|m| {
            let name = format!("{n:03}-{m:03}-{}", "x".repeat(200));
            object(name, &format!("{PATH}/{}", "y".repeat(480)), &"z".repeat(10_000))
        });
        let report = json!({"at": second(n).to_string(), "objects": objects.collect::<Vec<_>>()});
        evidence.report(Report::parse(report.to_string().as_bytes(), second(n)).unwrap());
    }
    let kept = serde_json::to_string(&evidence).unwrap();
    assert!(kept.len() < 5 << 20, "{} bytes", kept.len());
    let newest: Vec<_> = evidence.objects().filter(|seen| seen.at == second(39)).collect();
    assert_eq!(newest.len(), 500, "the newest count");
    // Events say what fails, but no input that long.
    let event = json!({
        "involvedObject": {"kind": "HelmRelease", "namespace": "flux-system", "name": "a"},
        "severity": "error", "reason": "UpgradeFailed", "timestamp": second(50).to_string(),
        "metadata": {"input": format!("{PATH}/{}", "x".repeat(60_000))},
    });
    let mut evidence = Evidence::default();
    observe(&mut evidence, 50, &event);
    assert_eq!(evidence.objects().map(|seen| &seen.input).collect::<Vec<_>>(), [&None]);
}

/// Another release may have stored what this one would not accept.
#[test]
fn stored_evidence_is_bounded_when_it_is_merged() {
    let mut stored = known(&[
        P(10, vec![1]),
        E(20, 'a', 1, "error", "UpgradeFailed"),
        E(30, 'b', 1, "error", "UpgradeFailed"),
    ]);
    let long = "x".repeat(1 << 20);
    let text = serde_json::to_string(&stored).unwrap();
    let text = text.replace(r#""t":"why""#, &format!(r#""t":"{long}""#));
    let text = text.replace(r#""i":"a""#, &format!(r#""i":"{long}""#));
    let text = text.replace(r#""n":"b""#, &format!(r#""n":"{long}""#));
    stored = serde_json::from_str(&text).unwrap();
    let mut evidence = Evidence::default();
    evidence.merge(stored);
    let kept: Vec<_> = evidence.objects().collect();
    assert_eq!(kept.len(), 1, "a name is not cut");
    assert_eq!((kept[0].message.len(), &kept[0].input), (1024, &None));
    assert!(evidence.told_at(PATH).is_some());
}

#[test]
fn the_same_event_again_changes_nothing() {
    let mut evidence = known(&[P(10, vec![1]), E(20, 'a', 1, "error", "UpgradeFailed")]);
    let before = evidence.clone();
    apply(&mut evidence, &E(20, 'a', 1, "error", "UpgradeFailed"));
    assert_eq!(evidence, before);
}

#[test]
fn evidence_is_read_as_it_was_stored() {
    let evidence = known(&[
        P(10, vec![1]),
        E(20, 'a', 1, "error", "UpgradeFailed"),
        R(30, vec![('a', 1, Some(true)), ('b', 2, None)]),
        S(40, "HelmChart", "x", "error", "InvalidChartReference"),
    ]);
    let text = serde_json::to_string(&evidence).unwrap();
    assert_eq!(serde_json::from_str::<Evidence>(&text).unwrap(), evidence);
}

/// Evidence about two inputs in up to three versions, all of it with marks.
fn marked() -> BoxedStrategy<Piece> {
    prop_oneof![
        prop::collection::vec(1..4u32, 2).prop_map(|versions| P(0, versions)),
        (prop::sample::select(vec!['a', 'b']), 1..4u32, any::<bool>()).prop_map(|(id, version, good)| match good {
            true => E(0, id, version, "info", "UpgradeSucceeded"),
            false => E(0, id, version, "error", "UpgradeFailed"),
        }),
        prop::collection::vec((1..4u32, prop::option::of(any::<bool>())), 0..3).prop_map(|releases| {
            let releases = releases.into_iter().zip('a'..);
            R(0, releases.map(|((version, ready), id)| (id, version, ready)).collect())
        }),
    ]
    .boxed()
}

/// Evidence that does not say what it is about, or of which that was found out later.
fn unmarked() -> BoxedStrategy<Piece> {
    prop_oneof![
        prop::sample::select(vec![
            ("HelmChart", "flux-system-a", "error", "InvalidChartReference"),
            ("HelmChart", "flux-system-a", "info", "ChartPullSucceeded"),
            ("HelmChart", "chart", "error", "InvalidChartReference"),
            ("HelmRelease", "a", "error", "UpgradeFailed"),
            ("HelmRelease", "a", "info", "UpgradeSucceeded"),
            ("ResourceSet", "components", "error", "BuildFailed"),
            ("ResourceSet", "components", "info", "ApplySucceeded"),
            ("ResourceSetInputProvider", "components", "error", "Failed"),
        ])
        .prop_map(|(kind, name, severity, reason)| S(0, kind, name, severity, reason)),
        (prop::sample::select(vec!['a', 'b']), prop::option::of(1..4u32)).prop_map(|(id, version)| F(0, id, version)),
    ]
    .boxed()
}

/// Times are unique, so that there is one order in which it happened.
fn in_time(piece: BoxedStrategy<Piece>) -> impl Strategy<Value = Vec<Piece>> {
    prop::collection::vec(piece, 0..8).prop_map(|mut pieces| {
        for (piece, time) in pieces.iter_mut().zip((10..).step_by(10)) {
            let (P(at, ..) | E(at, ..) | R(at, ..) | S(at, ..) | F(at, ..)) = piece;
            *at = time;
        }
        pieces
    })
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    in_time(marked())
}

/// The states of everything, without times.
fn states(status: &ClusterStatus) -> (State, Vec<(State, Vec<State>)>) {
    let kinds = status.kinds.iter().map(|kind| {
        let inputs = kind.inputs.iter().map(|input| input.state);
        (kind.state, inputs.collect())
    });
    (status.state, kinds.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_order_of_arrival_does_not_matter(
        pieces in pieces(),
        order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle(),
        split in 0..8usize,
        versions in prop::collection::vec(1..4u32, 2),
    ) {
        let expected = expected(&body(&versions), true);
        let judge = |evidence: &Evidence| states(&judge(evidence, &expected, second(100), SILENT_AFTER));
        let in_order = judge(&known(&pieces));
        let shuffled: Vec<_> = order.iter().filter_map(|n| pieces.get(*n).cloned()).collect();
        prop_assert_eq!(&judge(&known(&shuffled)), &in_order);
        // Two processes, which learn from each other.
        let (one, other) = shuffled.split_at(split.min(shuffled.len()));
        let (one, other) = (known(one), known(other));
        let (mut left, mut right) = (one.clone(), other.clone());
        left.merge(other);
        right.merge(one);
        prop_assert_eq!(&judge(&left), &in_order);
        prop_assert_eq!(&judge(&right), &in_order);
        let before = left.clone();
        prop_assert!(!left.merge(before), "merging twice changes nothing");
    }

    /// What does not say what it is about is judged by when the cluster was told what: so polls come in order, as they do from one cluster.
    #[test]
    fn the_order_of_arrival_of_events_and_reports_does_not_matter_without_marks_either(
        pieces in in_time(prop_oneof![marked(), unmarked()].boxed()),
        order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle(),
        split in 0..8usize,
        versions in prop::collection::vec(1..4u32, 2),
    ) {
        let expected = expected(&body(&versions), true);
        let judge = |evidence: &Evidence| states(&judge(evidence, &expected, second(100), SILENT_AFTER));
        let in_order = judge(&known(&pieces));
        let shuffled: Vec<_> = order.iter().filter_map(|n| pieces.get(*n).cloned()).collect();
        let (_, others): (Vec<_>, Vec<_>) = shuffled.into_iter().partition(|piece| matches!(piece, P(..)));
        let polls: Vec<_> = pieces.iter().filter(|piece| matches!(piece, P(..))).cloned().collect();
        let told = |others: &[Piece]| known(&[&polls[..], others].concat());
        prop_assert_eq!(&judge(&told(&others)), &in_order);
        let (one, other) = others.split_at(split.min(others.len()));
        let (one, other) = (told(one), told(other));
        let (mut left, mut right) = (one.clone(), other.clone());
        left.merge(other);
        right.merge(one);
        prop_assert_eq!(&judge(&left), &in_order);
        prop_assert_eq!(&judge(&right), &in_order);
    }

    #[test]
    fn evidence_about_another_content_never_makes_one_converged(pieces in in_time(prop_oneof![marked(), unmarked()].boxed())) {
        // Version 9 is in no evidence.
        let status = status(&pieces, &[9, 9], 100);
        for kind in &status.kinds {
            prop_assert!(kind.inputs.iter().all(|input| input.state != Converged));
        }
        prop_assert!(status.state != Converged);
    }

    /// Who loses the news of a failure, or of another content, does not know of it. To lose good news makes no state better.
    #[test]
    fn losing_good_news_makes_no_state_better(
        pieces in pieces(),
        versions in prop::collection::vec(1..3u32, 2),
    ) {
        let current = |id: char| versions[if id == 'a' { 0 } else { 1 }];
        let is_good = |piece: &Piece| match piece {
            E(_, id, version, severity, _) => *severity == "info" && *version == current(*id),
            P(_, told) => *told == versions,
            // A whole report without an input is bad news about it.
            R(_, releases) => releases.len() == 2 && releases.iter().all(|(id, version, ready)| *version == current(*id) && *ready == Some(true)),
            S(..) | F(..) => false,
        };
        let whole = status(&pieces, &versions, 100).state;
        for lost in (0..pieces.len()).filter(|n| is_good(&pieces[*n])) {
            let rest: Vec<_> = [&pieces[..lost], &pieces[lost + 1..]].concat();
            let less = status(&rest, &versions, 100).state;
            prop_assert!(less >= whole, "without {:?} {less:?} instead of {whole:?}", pieces[lost]);
        }
    }

    /// Whatever is lost.
    #[test]
    fn an_input_is_converged_only_with_a_success_of_its_current_content(
        pieces in in_time(prop_oneof![marked(), unmarked()].boxed()),
        versions in prop::collection::vec(1..4u32, 2),
    ) {
        let status = status(&pieces, &versions, 100);
        for input in status.kinds.iter().flat_map(|kind| &kind.inputs).filter(|input| input.state == Converged) {
            let seen = input.seen.as_ref().unwrap();
            prop_assert_eq!((seen.mark, seen.inferred, seen.health), (Some(input.digest), false, Health::Ready));
        }
    }
}
