//! What a scrape of the metrics shows, and that the docs say the same.

use std::path::Path;

use frank_telemetry::{
    CATALOGUE, Kind, Metrics, ModelLabels, RequestLabels, TierLabels, catalogue_markdown,
};

/// Gives each labelled metric a series, so that a scrape shows it.
fn metrics_with_series() -> Metrics {
    let metrics = Metrics::new();
    metrics.http_requests.get_or_create(&RequestLabels { route: "/health", status: 200 }).inc();
    metrics
        .model_info
        .get_or_create(&ModelLabels { model: "m \"1\"\n".to_owned(), version: "0" })
        .set(1);
    let tier = TierLabels { tier: "streamed" };
    metrics.experts.get_or_create(&tier).set(1);
    metrics.experts_in_memory.get_or_create(&tier).set(1);
    metrics.expert_hits.get_or_create(&tier).inc();
    metrics.expert_misses.get_or_create(&tier).inc();
    metrics.expert_read.get_or_create(&tier).inc();
    metrics.expert_read_seconds.get_or_create(&tier).inc_by(0.5);
    metrics
}

#[test]
fn a_scrape_holds_each_metric_of_the_catalogue_with_its_help() {
    let text = metrics_with_series().encode();
    for info in CATALOGUE {
        let series = match info.kind {
            Kind::Counter | Kind::Gauge => info.name(),
            Kind::Histogram => format!("{}_count", info.name()),
        };
        let starts = [format!("{series} "), format!("{series}{{")];
        assert!(
            text.lines().any(|line| starts.iter().any(|s| line.starts_with(s))),
            "no {series} in\n{text}"
        );
        let family = info.name();
        let family = family.strip_suffix("_total").unwrap_or(&family);
        assert!(
            text.contains(&format!("# HELP {family} {}\n", info.help)),
            "help of {family} in\n{text}"
        );
        assert!(
            text.contains(&format!("# TYPE {family} {}\n", info.kind.as_str())),
            "type of {family} in\n{text}"
        );
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn clones_share_their_numbers() {
    let metrics = Metrics::new();
    metrics.clone().completion_tokens.inc_by(7);
    assert!(metrics.encode().contains("frank_completion_tokens_total 7\n"));
}

#[test]
fn a_model_name_with_quotes_stays_one_label() {
    let text = metrics_with_series().encode();
    assert!(
        text.contains("frank_model_info{model=\"m \\\"1\\\"\\n\",version=\"0\"} 1\n"),
        "{text}"
    );
}

#[test]
fn names_are_unique_and_start_with_frank() {
    let mut names: Vec<_> = CATALOGUE.iter().map(|info| info.name()).collect();
    assert!(names.iter().all(|name| name.starts_with("frank_")));
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn the_docs_table_is_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let wanted = catalogue_markdown();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/metrics.md differs from the catalogue; write it anew with: UPDATE=1 cargo test -p frank-telemetry"
    );
}
