//! Made experts in files, and what they must be in memory.

use std::path::PathBuf;
use std::sync::Arc;

use frank_experts::{
    ExpertPart, ExpertStore, ExpertTable, FilePlace, LayerExperts, ResidentExpert, StoreError,
    StoreOptions, Visit,
};
use frank_gguf::type_id;
use frank_kernels::{MatrixShape, Pool, WeightType};
use frank_os::{DataFile, Faults};
use frank_plan::Tier;
use tempfile::TempDir;

/// Matrices of an expert: `(type, n_in, n_out)`.
pub(crate) type Parts = &'static [(u32, usize, usize)];

/// Interleaved types with rows that fill no group, and a type without blocks.
pub(crate) const MIXED: Parts =
    &[(type_id::Q4_0, 64, 19), (type_id::F32, 5, 3), (type_id::Q6_K, 256, 16)];

/// A type that has no kernel stays as in the file.
pub(crate) const SMALL: Parts = &[(type_id::Q8_0, 32, 2), (type_id::IQ2_XXS, 256, 3)];

/// Longer than the least staging, with a last group of rows that is not full.
pub(crate) const LONG: Parts =
    &[(type_id::Q4_0, 2048, 1000), (type_id::Q8_0, 2048, 200), (type_id::F32, 512, 500)];

/// Options of a store in which nothing fails and nothing runs ahead.
pub(crate) fn options(tiers: Vec<Tier>, cache_slots: usize) -> StoreOptions {
    StoreOptions {
        tiers,
        cache_slots,
        io: None,
        prefetch: false,
        faults: Faults::default(),
        usage: None,
        n_used: 2,
    }
}

/// A visit that hands each wave to a closure.
pub(crate) struct Waves<F> {
    pub(crate) pool: Pool,
    pub(crate) compute: F,
}

impl<F: FnMut(&[ResidentExpert<'_>])> Visit for Waves<F> {
    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn compute(&mut self, experts: &[ResidentExpert<'_>]) {
        (self.compute)(experts);
    }
}

/// Visits a layer without a prediction.
pub(crate) fn visit(
    store: &mut ExpertStore,
    layer: usize,
    wanted: &[u32],
    compute: impl FnMut(&[ResidentExpert<'_>]),
) -> Result<(), StoreError> {
    store.visit(layer, wanted, None, &mut Waves { pool: Pool::new(1), compute })
}

/// Files full of bytes, and the table of the experts in them.
pub(crate) struct Made {
    pub(crate) table: ExpertTable,
    pub(crate) paths: Vec<PathBuf>,
    contents: Vec<Vec<u8>>,
    _folder: TempDir,
}

impl Made {
    /// Layers `(layer, n_experts, parts)` of a model with `n_layers`, their experts anywhere in `n_files` files.
    pub(crate) fn new(n_layers: usize, layers: &[(u32, u32, Parts)], n_files: usize) -> Self {
        let mut contents = vec![vec![0xee; 3]; n_files];
        let layers = layers.iter().map(|&(layer, n_experts, parts)| {
            let parts = parts.iter().map(|&spec| part(spec, n_experts, &mut contents));
            LayerExperts { layer, n_experts, parts: parts.collect() }
        });
        let table = ExpertTable { n_layers, layers: layers.collect() };
        let folder = tempfile::tempdir().expect("a folder");
        let paths: Vec<_> =
            (0..n_files).map(|file| folder.path().join(format!("{file}.gguf"))).collect();
        let made = Self { table, paths, contents, _folder: folder };
        (0..n_files).for_each(|file| made.write(file));
        made
    }

    /// Writes a file with its bytes, as it was.
    pub(crate) fn write(&self, file: usize) {
        std::fs::write(&self.paths[file], &self.contents[file]).expect("the file is written");
    }

    pub(crate) fn files(&self) -> Vec<Arc<DataFile>> {
        let open = |path: &PathBuf| Arc::new(DataFile::open(path).expect("the file opens"));
        self.paths.iter().map(open).collect()
    }

    /// A store of the table, which fits its files.
    pub(crate) fn open(&self, options: &StoreOptions) -> ExpertStore {
        self.try_open(options).expect("the table fits the files")
    }

    pub(crate) fn try_open(&self, options: &StoreOptions) -> Result<ExpertStore, StoreError> {
        ExpertStore::open(self.table.clone(), self.files(), options, &mut Pool::new(2))
    }

    /// With the least staging, through which few experts come whole.
    pub(crate) fn open_tight(&self, options: &StoreOptions) -> Result<ExpertStore, StoreError> {
        let pool = &mut Pool::new(1);
        ExpertStore::open_with_staging(self.table.clone(), self.files(), options, pool, 2 << 20)
    }

    /// Panics unless `bytes` are expert `expert` of the layer at `position`, every part in its final layout.
    pub(crate) fn check(&self, position: usize, expert: u32, bytes: &[u8]) {
        let layer = &self.table.layers[position];
        assert_eq!(bytes.len(), layer.slot_bytes());
        for (index, part) in layer.parts.iter().enumerate() {
            let FilePlace { file, offset } = part.places[expert as usize];
            let n_raw = part.shape.n_out() * part.shape.file_row_bytes();
            let raw = &self.contents[file][offset as usize..][..n_raw];
            let mut expected = vec![0; part.shape.bytes()];
            part.shape.pack(0, raw, &mut expected);
            let range = layer.part_range(index);
            assert!(range.start.is_multiple_of(64), "{range:?}");
            let got = &bytes[range];
            assert!(got == expected, "part {index} of expert {expert} of layer {}", layer.layer);
        }
    }
}

fn part(
    (type_id, n_in, n_out): (u32, usize, usize),
    n_experts: u32,
    contents: &mut [Vec<u8>],
) -> ExpertPart {
    let weight_type = WeightType::of(type_id).expect("a type that is multiplied");
    let shape = MatrixShape::new(weight_type, n_in, n_out).expect("whole blocks");
    let n_bytes = shape.file_row_bytes() * n_out;
    let places = (0..n_experts).map(|expert| {
        let seed = contents.iter().map(Vec::len).sum::<usize>();
        let file = (expert as usize * 7 + n_in) % contents.len();
        let content = &mut contents[file];
        content.extend(vec![0xee; seed % 5]);
        let offset = content.len() as u64;
        // No two experts alike, and no zeroes that could be taken for memory that was never written.
        content.extend((0..n_bytes).map(|i| ((seed * 31 + i * 7) % 251 + 1) as u8));
        FilePlace { file, offset }
    });
    ExpertPart { shape, places: places.collect() }
}
