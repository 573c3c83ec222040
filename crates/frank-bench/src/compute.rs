//! How fast all threads together multiply the rows of a prompt with quantized weights. Never a product that means
//! something.

use std::time::{Duration, Instant};

use frank_kernels::{PackError, Pool, SyntheticProduct, WeightType};

/// Inputs and outputs of the matrix: the MLP of a model of a billion weights, so that neither edges nor the start of a
/// product count for much.
const SHAPE: (usize, usize) = (2048, 2048);

/// Rows of a prompt chunk: the default of `--ubatch-size`.
const N_ROWS: usize = 256;

/// Products at least, whatever they take.
const RUNS_MIN: usize = 3;

/// Multiplications with an addition per second of each product of a prompt chunk with weights of `weight_type`, made
/// with every thread of `pool` for about `time`. The first one is not counted.
///
/// # Errors
/// [`PackError`] when the type has blocks that the matrix does not hold whole.
pub fn arithmetic_rate(
    pool: &mut Pool,
    weight_type: WeightType,
    time: Duration,
) -> Result<Vec<f64>, PackError> {
    let mut product = SyntheticProduct::new(weight_type, SHAPE, N_ROWS)?;
    let n = product.multiply_adds() as f64;
    product.run(pool);
    let start = Instant::now();
    let mut rates = Vec::new();
    while rates.len() < RUNS_MIN || start.elapsed() < time {
        let run_start = Instant::now();
        product.run(pool);
        rates.push(n / run_start.elapsed().as_secs_f64());
    }
    Ok(rates)
}
