//! Grouped products: the bits of each group alone, and nothing written beside them.

use super::*;

/// What an output holds before: the bits of a NaN that no product makes.
const UNTOUCHED: f32 = f32::from_bits(0x7fc5_a5a5);

/// Rows of groups: for each how many are left out before it, and how many it has.
type Layout = [(usize, usize)];

fn ranges(layout: &Layout) -> Vec<Range<usize>> {
    let mut end = 0;
    let range = |(gap, n_rows): &(usize, usize)| {
        let start = end + gap;
        end = start + n_rows;
        start..end
    };
    layout.iter().map(range).collect()
}

/// The products of a job: each has a matrix for each group.
struct Grouped {
    n_in: usize,
    rows: Vec<Range<usize>>,
    products: Vec<Vec<Case>>,
    x: Vec<f32>,
}

impl Grouped {
    /// Products of type `which` with as many columns as `n_outs` say; two rows after the last group have none.
    fn random(which: usize, seed: u64, n_in: usize, n_outs: &[usize], layout: &Layout) -> Self {
        let rows = ranges(layout);
        let n_rows = rows.last().map_or(0, |rows| rows.end) + 2;
        let seeds = |product: usize, group: usize| seed + (product * 100 + group) as u64;
        let product = |(product, &n_out): (usize, &usize)| {
            let case = |group| Case::random(which, seeds(product, group), n_in, n_out);
            (0..rows.len()).map(case).collect()
        };
        let products = n_outs.iter().enumerate().map(product).collect();
        Self { n_in, products, x: Noise::new(seed).floats(n_in * n_rows), rows }
    }

    fn groups<'a>(&self, cases: &'a [Case]) -> Vec<RowGroup<'a>> {
        let group = |(rows, case): (&Range<usize>, &'a Case)| RowGroup {
            rows: rows.clone(),
            matrix: case.matrix(),
        };
        self.rows.iter().zip(cases).map(group).collect()
    }

    fn run(&self, means: Means, n_threads: usize) -> Vec<Vec<u32>> {
        let groups: Vec<_> = self.products.iter().map(|cases| self.groups(cases)).collect();
        let n_rows = self.x.len() / self.n_in;
        let mut outs: Vec<Vec<f32>> =
            self.products.iter().map(|cases| vec![UNTOUCHED; n_rows * n_out(cases)]).collect();
        let products = groups.iter().zip(&mut outs);
        let products: Vec<_> =
            products.map(|(groups, out)| GroupedProduct::new(groups, out)).collect();
        let mut quants = Activations::default();
        multiply(means, &mut Pool::new(n_threads), &self.x, self.n_in, &mut quants, &products);
        outs.iter().map(|out| raw_bits(out)).collect()
    }

    /// What each group gives alone by the scalar form, row by row.
    fn alone(&self) -> Vec<Vec<u32>> {
        let n_rows = self.x.len() / self.n_in;
        let of_product = |cases: &Vec<Case>| {
            let n_out = n_out(cases);
            let mut out = vec![UNTOUCHED; n_rows * n_out];
            for (rows, case) in self.rows.iter().zip(cases) {
                let x = &self.x[rows.start * self.n_in..rows.end * self.n_in];
                out[rows.start * n_out..rows.end * n_out].copy_from_slice(&case.run(
                    Isa::Scalar,
                    1,
                    x,
                ));
            }
            raw_bits(&out)
        };
        self.products.iter().map(of_product).collect()
    }

    /// Every instruction set, number of threads and way to tiles gives the bits of each group alone.
    fn check(&self, name: &str) {
        let expected = self.alone();
        for isa in [Isa::Scalar, Isa::Avx2, Isa::Avx512Vnni] {
            let means = Means { isa, tiles_from: usize::MAX };
            assert!(self.run(means, 2) == expected, "{name} by {}: {:?}", isa.name(), self.rows);
        }
        for (tiles_from, n_threads) in [(1, 1), (1, 3), (5, 2), (TILES_GROUP_ROWS_MIN, 2)] {
            let means = Means { isa: Isa::Amx, tiles_from };
            let same = self.run(means, n_threads) == expected;
            assert!(same, "{name} by tiles from {tiles_from} rows on: {:?}", self.rows);
        }
    }
}

fn n_out(cases: &[Case]) -> usize {
    cases.first().map_or(1, |case| case.shape.n_out())
}

/// No product of these tests makes a NaN.
fn raw_bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn groups_of_no_one_and_many_rows_have_the_bits_of_each_alone() {
    for (which, quant) in types() {
        let n_in = row_len(quant, 2, 3);
        let layout = [(0, 0), (0, 1), (2, 33), (0, 0), (1, 16), (0, 7), (0, 40), (3, 1), (0, 0)];
        Grouped::random(which, 31, n_in, &[18, 5], &layout).check(quant.layout.name);
    }
}

#[test]
fn a_group_of_more_rows_than_tiles_take_at_once_begins_anywhere() {
    for (which, quant) in types() {
        let layout = [(0, 5), (0, 300), (1, 17)];
        Grouped::random(which, 32, row_len(quant, 1, 0), &[17], &layout).check(quant.layout.name);
    }
}

#[test]
fn groups_without_rows_and_no_groups_write_nothing() {
    for layout in [&[][..], &[(0, 0)], &[(1, 0), (0, 0)]] {
        Grouped::random(2, 33, 256, &[16, 4], layout).check("of no rows");
    }
    matmul_grouped(&mut Pool::new(2), &[0.5; 64], 32, &mut Activations::default(), &mut []);
}

#[test]
fn a_matrix_may_stand_in_several_groups_and_types_may_mix() {
    let cases: Vec<_> = types().map(|(which, _)| Case::random(which, 34, 256, 20)).collect();
    let x = Noise::new(35).floats(256 * 3 * cases.len() * 2);
    let group = |i: usize| RowGroup { rows: i * 3..(i + 1) * 3, matrix: cases[i / 2].matrix() };
    let groups: Vec<_> = (0..cases.len() * 2).map(group).collect();
    let mut out = vec![0.0; x.len() / 256 * 20];
    let products = &mut [GroupedProduct::new(&groups, &mut out)];
    matmul_grouped(&mut Pool::new(2), &x, 256, &mut Activations::default(), products);
    for ((case, x), out) in cases.iter().zip(x.chunks(256 * 6)).zip(out.chunks(20 * 6)) {
        assert_eq!(bits(&case.run(isa(), 1, x)), bits(out), "{}", case.quant.layout.name);
    }
}

/// Runs a job of one product with two groups, whose matrices are `[n_out, 32]`, on eight rows.
fn multiply_rows_of_eight(rows: &[Range<usize>; 2], n_outs: [usize; 2]) {
    let cases = n_outs.map(|n_out| Case::random(0, 36, 32, n_out));
    let group = |i: usize| RowGroup { rows: rows[i].clone(), matrix: cases[i].matrix() };
    let mut out = vec![0.0; 8 * n_outs[0]];
    let groups = [group(0), group(1)];
    let products = &mut [GroupedProduct::new(&groups, &mut out)];
    matmul_grouped(&mut Pool::new(1), &[0.5; 32 * 8], 32, &mut Activations::default(), products);
}

#[test]
#[should_panic(expected = "rows 2..4 after row 3")]
fn groups_that_overlap_are_refused() {
    multiply_rows_of_eight(&[0..3, 2..4], [16, 16]);
}

#[test]
#[should_panic(expected = "groups end at row 9, and x has 8")]
fn groups_past_the_last_row_are_refused() {
    multiply_rows_of_eight(&[0..3, 3..9], [16, 16]);
}

#[test]
#[should_panic(expected = "the output holds a row for each row of x")]
fn matrices_of_other_output_sizes_are_refused() {
    multiply_rows_of_eight(&[0..3, 3..8], [16, 17]);
}

#[test]
#[should_panic(expected = "the products have groups of the same rows")]
fn products_of_other_rows_are_refused() {
    let case = Case::random(0, 37, 32, 4);
    let [first, second] = [0..1, 0..2].map(|rows| [RowGroup { rows, matrix: case.matrix() }]);
    let (mut a, mut b) = ([0.0; 8], [0.0; 8]);
    let products = &mut [GroupedProduct::new(&first, &mut a), GroupedProduct::new(&second, &mut b)];
    matmul_grouped(&mut Pool::new(1), &[0.5; 64], 32, &mut Activations::default(), products);
}

/// Groups left out before a group, and its rows: few of most sizes, at times so many that tiles take them.
fn layouts() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let n_rows = prop_oneof![Just(0), Just(1), 2usize..16, 16usize..32, 32usize..80];
    prop::collection::vec((0usize..3, n_rows), 0..7)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(frank_testkit::property_cases(12)))]
    #[test]
    fn a_grouped_job_has_the_bits_of_each_group_alone(
        seed: u32, n_blocks in 1usize..3, tail in 0usize..31, n_outs in prop::collection::vec(1usize..40, 1..3), layout in layouts(),
    ) {
        for (which, quant) in types() {
            let n_in = row_len(quant, n_blocks, tail);
            Grouped::random(which, u64::from(seed), n_in, &n_outs, &layout).check(quant.layout.name);
        }
    }
}
