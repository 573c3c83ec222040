//! Experts on their way from the files to memory: which of their reads run, which have arrived and wait in staging.
//! Never decides what is read, or where it goes.

use std::sync::Arc;

use frank_kernels::{PackJob, Pool, pack_all};
use frank_os::{DataFile, Finished, OsError, QueueOptions, ReadQueue};
use slab::Slab;

use crate::pieces::{Cursor, Piece, Pieces};
use crate::table::{ExpertTable, LayerExperts};

/// Why an expert is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The running visit waits for it; its place among what that wants.
    Demand { index: usize },
    /// A prediction named it.
    Prefetch,
    /// It goes where it is, whoever wants it.
    Load,
}

/// An expert on its way.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) position: usize,
    pub(crate) expert: u32,
    pub(crate) purpose: Purpose,
    /// Where it goes in memory, once that has been decided.
    pub(crate) start: Option<usize>,
    /// Bytes whose reads were started.
    pub(crate) bytes: u64,
    next: Cursor,
    /// Whether all of its reads have been started.
    pub(crate) is_started: bool,
    n_reading: usize,
    n_arrived: usize,
}

impl Fetch {
    /// Whether all that is not laid out yet is in staging.
    pub(crate) fn is_here(&self) -> bool {
        self.is_started && self.n_reading == 0
    }
}

/// Which read is whose: `None` when nobody wants it any more.
#[derive(Debug)]
struct Read {
    fetch: Option<usize>,
    piece: Piece,
}

/// A piece in staging.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) fetch: usize,
    pub(crate) piece: Piece,
    finished: Finished,
}

/// A read that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) fetch: usize,
    pub(crate) source: OsError,
}

/// The queue of reads and all experts that are on their way.
#[derive(Debug)]
pub(crate) struct Fetches {
    queue: ReadQueue,
    pieces: Pieces,
    fetches: Slab<Fetch>,
    reads: Slab<Read>,
    arrived: Vec<Arrived>,
}

impl Fetches {
    pub(crate) fn new(
        table: &ExpertTable,
        files: &[Arc<DataFile>],
        options: &QueueOptions,
    ) -> Result<Self, OsError> {
        let queue = ReadQueue::open(files, options)?;
        let pieces = Pieces::new(table, options.staging_bytes);
        let (fetches, reads) = (Slab::new(), Slab::new());
        Ok(Self { queue, pieces, fetches, reads, arrived: Vec::new() })
    }

    pub(crate) fn queue(&self) -> &ReadQueue {
        &self.queue
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fetches.is_empty()
    }

    pub(crate) fn get(&self, id: usize) -> &Fetch {
        &self.fetches[id]
    }

    pub(crate) fn get_mut(&mut self, id: usize) -> &mut Fetch {
        &mut self.fetches[id]
    }

    /// The fetch of an expert, if it is on its way.
    pub(crate) fn find(&self, position: usize, expert: u32) -> Option<usize> {
        let mut all = self.fetches.iter();
        all.find(|(_, fetch)| (fetch.position, fetch.expert) == (position, expert))
            .map(|(id, _)| id)
    }

    /// All fetches that `which` picks.
    pub(crate) fn pick(&self, which: impl Fn(&Fetch) -> bool) -> Vec<usize> {
        self.fetches.iter().filter(|(_, fetch)| which(fetch)).map(|(id, _)| id).collect()
    }

    pub(crate) fn add(&mut self, position: usize, expert: u32, purpose: Purpose) -> usize {
        self.fetches.insert(Fetch {
            position,
            expert,
            purpose,
            start: None,
            bytes: 0,
            next: Cursor::default(),
            is_started: false,
            n_reading: 0,
            n_arrived: 0,
        })
    }

    /// Starts what is left to read of an expert; whether all of it is started now.
    pub(crate) fn start(&mut self, table: &ExpertTable, id: usize) -> bool {
        let fetch = &mut self.fetches[id];
        let layer = &table.layers[fetch.position];
        while let Some(piece) = self.pieces.next(layer, fetch.position, fetch.expert, fetch.next) {
            let read = self.reads.insert(Read { fetch: Some(id), piece });
            if !self.queue.start(piece.file, piece.offset, piece.len, read as u64) {
                self.reads.remove(read);
                return false;
            }
            fetch.next = piece.to;
            fetch.n_reading += 1;
            fetch.bytes += piece.len as u64;
        }
        fetch.is_started = true;
        true
    }

    /// Whether reads of an expert run.
    pub(crate) fn is_reading(&self, id: usize) -> bool {
        self.fetches[id].n_reading > 0
    }

    pub(crate) fn submit(&mut self) {
        self.queue.submit();
    }

    /// Takes in what has ended, and waits for one read when `wait` and none has; whether anything ended.
    ///
    /// # Errors
    /// The first read that failed. What else has ended is taken in by the next call.
    pub(crate) fn take(&mut self, wait: bool) -> Result<bool, Failed> {
        let mut wait = wait;
        let mut any = false;
        while let Some(mut finished) = self.queue.finish(wait) {
            (any, wait) = (true, false);
            let Read { fetch, piece } = self.reads.remove(finished.tag as usize);
            let result = std::mem::replace(&mut finished.result, Ok(()));
            let Some(id) = fetch else {
                self.queue.give_back(finished);
                continue;
            };
            self.fetches[id].n_reading -= 1;
            match result {
                Ok(()) => {
                    self.fetches[id].n_arrived += 1;
                    self.arrived.push(Arrived { fetch: id, piece, finished });
                }
                Err(source) => {
                    self.queue.give_back(finished);
                    return Err(Failed { fetch: id, source });
                }
            }
        }
        Ok(any)
    }

    /// Takes those pieces out of staging, for [`Fetches::pack`], whose fetch `choose` picks. Of an expert with a part that is
    /// cut one piece comes at a time.
    pub(crate) fn choose(
        &mut self,
        mut choose: impl FnMut(usize, &mut Fetch) -> bool,
    ) -> Vec<Arrived> {
        let Self { fetches, arrived, .. } = self;
        let mut cut = Vec::new();
        let chosen = arrived.extract_if(.., |&mut Arrived { fetch: id, piece, .. }| {
            if (!piece.is_whole() && cut.contains(&id)) || !choose(id, &mut fetches[id]) {
                return false;
            }
            if !piece.is_whole() {
                cut.push(id);
            }
            true
        });
        chosen.collect()
    }

    /// Lays out pieces in `memory`, where their fetches say, and gives their staging back. Calls `ended` with each fetch
    /// that has come whole.
    pub(crate) fn pack(
        &mut self,
        table: &ExpertTable,
        pool: &mut Pool,
        memory: &mut [u8],
        chosen: Vec<Arrived>,
        mut ended: impl FnMut(usize, Fetch),
    ) {
        pack_all(pool, &mut self.jobs(table, memory, &chosen));
        for Arrived { fetch: id, finished, .. } in chosen {
            self.queue.give_back(finished);
            self.fetches[id].n_arrived -= 1;
            let fetch = &self.fetches[id];
            if fetch.is_here() && fetch.n_arrived == 0 {
                ended(id, self.fetches.remove(id));
            }
        }
    }

    /// Forgets an expert, wherever it is on its way.
    pub(crate) fn abandon(&mut self, id: usize) -> Fetch {
        for arrived in self.arrived.extract_if(.., |arrived| arrived.fetch == id) {
            self.queue.give_back(arrived.finished);
        }
        let reads = self.reads.iter_mut().map(|(_, read)| read);
        reads.filter(|read| read.fetch == Some(id)).for_each(|read| read.fetch = None);
        self.fetches.remove(id)
    }

    fn jobs<'a>(
        &'a self,
        table: &ExpertTable,
        memory: &'a mut [u8],
        chosen: &[Arrived],
    ) -> Vec<PackJob<'a>> {
        let mut places = Vec::with_capacity(2 * chosen.len());
        for Arrived { fetch: id, piece, finished } in chosen {
            let Fetch { position, expert, start, .. } = self.fetches[*id];
            let layer: &LayerExperts = &table.layers[position];
            let (start, bytes) = (start.unwrap_or(0), self.queue.bytes(finished));
            for segment in self.pieces.segments(layer, position, expert, *piece) {
                let place = start + layer.part_range(segment.part).start;
                let shape = layer.parts[segment.part].shape;
                places.push((place, shape, segment.first_row, &bytes[segment.bytes]));
            }
        }
        places.sort_unstable_by_key(|&(place, ..)| place);
        let (mut rest, mut passed) = (memory, 0);
        let jobs = places.into_iter().map(|(place, shape, first_row, rows)| {
            let (_, tail) = std::mem::take(&mut rest).split_at_mut(place - passed);
            let (bytes, tail) = tail.split_at_mut(shape.bytes());
            (rest, passed) = (tail, place + shape.bytes());
            PackJob { shape, first_row, rows, bytes }
        });
        jobs.collect()
    }
}
