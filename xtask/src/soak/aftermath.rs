//! What must hold when the clients of a soak are gone: all places free, memory as planned, a clean end. Never asks the
//! model anything.

use std::thread;
use std::time::{Duration, Instant};

use super::memory::{self, Memory, mib};
use super::traffic::API_KEYS;
use crate::http::Request;
use crate::server_process::ServerProcess;

/// How long places may stay taken after the last client left.
const FREE_WITHIN: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(100);
/// Gauges that are 0 when nothing runs.
const IDLE_GAUGES: [&str; 3] =
    ["frank_requests_running", "frank_requests_waiting", "frank_kv_blocks_used"];
/// How far memory may grow after the warm-up, as a share of the plan, and in bytes where that is less than what the heap
/// of a dozen threads goes up and down by.
const GROWTH_MAX: f64 = 0.01;
const GROWTH_BYTES_MAX: f64 = (4 << 20) as f64;

/// Checks what is left, ends the server, and says what is broken.
pub(super) fn check(server: ServerProcess, memory: &Memory, planned_bytes: u64) -> Vec<String> {
    let mut broken = Vec::new();
    broken.extend(still_taken(&server));
    match Request::get("/health").reply(server.address) {
        Ok(reply) if reply.status == 200 => {}
        Ok(reply) => broken.push(format!("/health: status {}", reply.status)),
        Err(error) => broken.push(format!("/health: {error}")),
    }
    let planned = planned_bytes as f64;
    match memory::peak_bytes(server.id()) {
        Ok(peak) => broken.extend(check_memory(planned, peak as f64, memory.growth())),
        Err(error) => broken.push(format!("the server is gone: {error:#}")),
    }
    match server.terminate() {
        Ok(said) => broken.extend(said.into_iter().map(|line| format!("the server said: {line}"))),
        Err(error) => broken.push(format!("{error:#}")),
    }
    broken
}

/// Prints memory in bytes, and says what is too much.
fn check_memory(planned: f64, peak: f64, growth: Option<f64>) -> Vec<String> {
    let grown = match growth {
        Some(growth) => format!("{:.2} MiB ({:.2} %)", mib(growth), 100.0 * growth / planned),
        None => "unknown: the run was too short".to_owned(),
    };
    let memory = format!(
        "plan {:.1} MiB, peak {:.1} MiB ({:.1} % of it), growth after the warm-up {grown}",
        mib(planned),
        mib(peak),
        100.0 * peak / planned,
    );
    println!("{memory}");
    let mut broken = Vec::new();
    if peak > planned {
        broken.push(format!("the peak is over the plan: {memory}"));
    }
    if growth.is_some_and(|growth| growth > GROWTH_BYTES_MAX.max(planned * GROWTH_MAX)) {
        broken.push(format!("memory grows: {memory}"));
    }
    broken
}

/// What is not 0 though nothing runs, or why that is not known.
fn still_taken(server: &ServerProcess) -> Option<String> {
    let start = Instant::now();
    loop {
        let metrics = Request::get("/metrics").with_key(API_KEYS[0]).reply(server.address);
        let metrics = match metrics.and_then(|reply| reply.text()) {
            Ok(metrics) => metrics,
            Err(error) => return Some(format!("/metrics: {error}")),
        };
        let taken = IDLE_GAUGES.into_iter().find(|name| gauge(&metrics, name) != Some(0.0))?;
        if start.elapsed() > FREE_WITHIN {
            return Some(format!("{taken} is {:?} with no client", gauge(&metrics, taken)));
        }
        thread::sleep(POLL);
    }
}

/// The value of a metric without labels.
fn gauge(metrics: &str, name: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = (1 << 20) as f64;

    #[test]
    fn a_gauge_is_read_by_its_whole_name() {
        let metrics = "# TYPE frank_a gauge\nfrank_a_b 2\nfrank_a 1.5\nfrank_c{x=\"y\"} 3\n# EOF\n";
        assert_eq!(gauge(metrics, "frank_a"), Some(1.5));
        assert_eq!(gauge(metrics, "frank_a_b"), Some(2.0));
        assert_eq!(gauge(metrics, "frank_c"), None);
    }

    #[test]
    fn memory_over_the_plan_or_on_the_rise_is_broken() {
        let check = |planned: f64, peak: f64, growth: f64, n_broken: usize| {
            let broken = check_memory(planned * MIB, peak * MIB, Some(growth * MIB));
            assert_eq!(broken.len(), n_broken, "{planned}, {peak}, {growth}: {broken:?}");
        };
        check(1000.0, 1000.0, 9.9, 0);
        check(1000.0, 600.0, -5.0, 0);
        check(1000.0, 1000.1, 0.0, 1);
        check(1000.0, 1000.0, 10.1, 1);
        check(1000.0, 1001.0, 11.0, 2);
        check(100.0, 100.0, 3.9, 0);
        check(100.0, 100.0, 4.1, 1);
    }
}
