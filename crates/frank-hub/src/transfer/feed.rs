//! Brings the wanted ranges of one segment into the file, several at a time. Never reads a range map, and never hashes.

mod ask;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::http::{Client, HttpError, Tries, shown};

use super::board::Board;
use super::error::TransferError;
use super::{Notice, Segment, Watch};

pub(super) use ask::sizes;
use ask::{Body, Target};
pub(super) use write::Sink;
use write::Work;

/// Most requests at a time.
const PARALLEL_MAX: usize = 16;

/// Where the bytes go, and who is told.
pub(super) struct Place<'a> {
    pub(super) client: &'a Client,
    pub(super) board: &'a Board,
    /// The partial file, open for reading and writing.
    pub(super) file: &'a File,
    /// Its path.
    pub(super) partial: &'a Path,
    pub(super) sink: Sink,
    /// Counts the ranges that were not the same when they came again.
    pub(super) differing: &'a Cell<usize>,
    pub(super) watch: Watch<'a>,
}

/// One segment that is being brought.
pub(super) struct Feed<'a> {
    place: &'a Place<'a>,
    segment: &'a Segment,
    /// Its number in the layout.
    index: usize,
    /// The ranges that are still wanted.
    wanted: RefCell<BTreeSet<usize>>,
    /// Those of them that nobody works on.
    waiting: RefCell<BTreeSet<usize>>,
    /// Where the last answer came from.
    target: RefCell<Option<Target>>,
    /// Whether it was told that nothing marks the file.
    is_told: Cell<bool>,
}

/// Why bringing a segment ended early.
pub(super) enum Stop {
    /// For good.
    Error(TransferError),
    /// The source has another file now.
    Changed(String),
    /// The server does not give ranges: this is the body of the whole segment.
    Whole(Box<Body>),
}

/// What went wrong with one request.
enum Trouble {
    /// It may go better the next time.
    Again(HttpError),
    /// The place that a redirect led to does not give the file any more; another redirect may lead elsewhere.
    Expired,
    Stop(Stop),
}

impl<'a> Feed<'a> {
    pub(super) fn new(
        place: &'a Place<'a>,
        segment: &'a Segment,
        index: usize,
        wanted: BTreeSet<usize>,
    ) -> Feed<'a> {
        let (wanted, waiting) = (RefCell::new(wanted), RefCell::default());
        let (target, is_told) = (RefCell::default(), Cell::default());
        Feed { place, segment, index, wanted, waiting, target, is_told }
    }

    /// Brings all that is wanted.
    pub(super) async fn run(&self) -> Result<(), Stop> {
        let mut tries = Tries::new(self.place.client.patience());
        while !self.wanted.borrow().is_empty() {
            let here = self.place.board.here();
            let body = match self.bring_ranges().await {
                Err(Stop::Whole(body)) => *body,
                done => return done,
            };
            (self.place.watch.notice)(&Notice::Unranged { url: shown(&self.segment.url) });
            self.tell_of_marks();
            let trouble = match self.bring_whole(body).await {
                Ok(()) => return Ok(()),
                Err(trouble) => trouble,
            };
            if self.place.board.here() > here {
                tries.progressed();
            }
            self.endure(trouble, &mut tries).await?;
        }
        Ok(())
    }

    /// Brings the wanted ranges in parallel. The first answer is waited for before there are more requests: it says where the
    /// file is, and whether it comes in ranges at all.
    async fn bring_ranges(&self) -> Result<(), Stop> {
        self.waiting.replace(self.wanted.borrow().clone());
        let Some(first) = self.next_range() else { return Ok(()) };
        let work = Work::begin(self.place, first);
        let mut tries = Tries::new(self.place.client.patience());
        let body = self.ask_patiently(&work, &mut tries).await?;
        self.tell_of_marks();
        let n_workers = PARALLEL_MAX.min(self.wanted.borrow().len());
        let mut first = Some((work, body));
        let mut workers: FuturesUnordered<_> =
            (0..n_workers).map(|_| self.work(first.take())).collect();
        while let Some(done) = workers.next().await {
            done?;
        }
        Ok(())
    }

    /// The lowest range that nobody works on: so the bytes without a gap grow, and hashing keeps up.
    fn next_range(&self) -> Option<usize> {
        self.waiting.borrow_mut().pop_first()
    }

    /// Brings one range after the other until none is left.
    async fn work(&self, first: Option<(Work<'_>, Body)>) -> Result<(), Stop> {
        if let Some((work, body)) = first {
            self.fill(work, Some(body)).await?;
        }
        while let Some(range) = self.next_range() {
            self.fill(Work::begin(self.place, range), None).await?;
        }
        Ok(())
    }

    /// Brings the rest of one range, in as many answers as it takes.
    async fn fill(&self, mut work: Work<'_>, mut body: Option<Body>) -> Result<(), Stop> {
        let mut tries = Tries::new(self.place.client.patience());
        while !work.is_full() {
            let before = work.done();
            let body = match body.take() {
                Some(body) => body,
                None => self.ask_patiently(&work, &mut tries).await?,
            };
            let poured = self.pour(body, &mut work).await;
            if work.done() > before {
                tries.progressed();
            }
            if let Err(trouble) = poured {
                self.endure(trouble, &mut tries).await?;
            }
        }
        self.wanted.borrow_mut().remove(&work.range());
        Ok(())
    }

    /// Asks for the rest of a range until there is an answer.
    async fn ask_patiently(&self, work: &Work<'_>, tries: &mut Tries<'_>) -> Result<Body, Stop> {
        loop {
            let (start, end) = work.rest();
            match self.ask(start, end).await {
                Ok(body) => return Ok(body),
                Err(trouble) => self.endure(trouble, tries).await?,
            }
        }
    }

    /// Pauses where trying again may help.
    async fn endure(&self, trouble: Trouble, tries: &mut Tries<'_>) -> Result<(), Stop> {
        match trouble {
            Trouble::Stop(stop) => Err(stop),
            Trouble::Expired => Ok(()),
            Trouble::Again(error) => {
                let tell = |delay: &_| self.place.watch.delayed(delay);
                tries.again(error, tell).await.map_err(Stop::from)
            }
        }
    }

    /// Writes a body into its range.
    async fn pour(&self, mut body: Body, work: &mut Work<'_>) -> Result<(), Trouble> {
        while let Some(chunk) = self.next_chunk(&mut body).await? {
            work.write(&chunk)?;
        }
        Ok(())
    }

    /// Writes the body of the whole segment: past what is here already, and into what is wanted.
    async fn bring_whole(&self, mut body: Body) -> Result<(), Trouble> {
        let mut chunk = bytes::Bytes::new();
        for range in self.place.board.layout().ranges_of(self.index) {
            let is_wanted = self.wanted.borrow().contains(&range);
            let mut work = is_wanted.then(|| Work::begin(self.place, range));
            let mut left = self.place.board.layout().range(range).bytes;
            while left > 0 {
                if chunk.is_empty() {
                    chunk = self.next_chunk(&mut body).await?.unwrap_or_default();
                }
                let n = usize::try_from(left).map_or(chunk.len(), |left| left.min(chunk.len()));
                let piece = chunk.split_to(n);
                left -= n as u64;
                if let Some(work) = &mut work {
                    // The piece ends `left` bytes before the end of the range; what is here of it is passed over.
                    let new = work.left().saturating_sub(left);
                    let new = usize::try_from(new).map_or(n, |new| new.min(n));
                    work.write(&piece[n - new..])?;
                }
            }
            self.wanted.borrow_mut().remove(&range);
        }
        // Without a digest nothing else would tell of a body that goes on behind the size that was told before.
        match self.segment.digest {
            None => self.check_end(body).await,
            Some(_) => Ok(()),
        }
    }

    /// Refuses a body of which more comes than was promised. An end that breaks off costs no byte.
    async fn check_end(&self, mut body: Body) -> Result<(), Trouble> {
        match self.next_chunk(&mut body).await {
            Err(Trouble::Stop(stop @ Stop::Changed(_))) => Err(Trouble::Stop(stop)),
            _ => Ok(()),
        }
    }
}

impl From<HttpError> for Trouble {
    fn from(error: HttpError) -> Trouble {
        if error.is_passing() { Trouble::Again(error) } else { Trouble::Stop(error.into()) }
    }
}

impl From<TransferError> for Trouble {
    fn from(error: TransferError) -> Trouble {
        Trouble::Stop(Stop::Error(error))
    }
}

impl From<HttpError> for Stop {
    fn from(error: HttpError) -> Stop {
        Stop::Error(error.into())
    }
}
