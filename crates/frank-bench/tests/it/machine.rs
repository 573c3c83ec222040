//! Memory and arithmetic of this machine. How fast they are is nothing to assert.

use std::time::Duration;

use frank_bench::{arithmetic_rate, memory_rates};
use frank_gguf::quant::QUANTS;
use frank_kernels::{Pool, WeightType};

#[test]
fn memory_is_read_three_times_at_least_whatever_the_time() {
    let mut pool = Pool::new(2);
    let rates = memory_rates(&mut pool, 4 << 20, Duration::ZERO).unwrap();
    assert!(rates.len() == 3 && rates.iter().all(|&rate| rate > 0.0), "{rates:?}");
}

#[test]
fn more_memory_than_there_is_is_refused() {
    memory_rates(&mut Pool::new(1), 1 << 60, Duration::ZERO).unwrap_err();
}

#[test]
fn arithmetic_of_a_block_type_is_counted() {
    let q8_0 = QUANTS.iter().find(|quant| quant.layout.name == "Q8_0").unwrap();
    let rates =
        arithmetic_rate(&mut Pool::new(2), WeightType::of(q8_0.id).unwrap(), Duration::ZERO)
            .unwrap();
    assert!(rates.len() == 3 && rates.iter().all(|&rate| rate > 0.0), "{rates:?}");
}
