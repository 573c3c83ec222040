//! Answers that clients may read again, delete, and let a conversation go on after. They lie in a folder of this user's
//! alone, within bounds on number and size: the oldest goes first. Each belongs to the key that made it; for others it is
//! not there.

mod record;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use frank_api::{ApiError, ErrorKind};
use frank_chat::Message;
use frank_engine::CacheScope;
use serde_json::Value;

use crate::error;

/// Bytes of all stored answers together, with the conversations before them.
const FOLDER_BYTES_MAX: u64 = 256 << 20;

/// Bytes of one answer with the conversation before it.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Longest id that is looked for.
const ID_BYTES_MAX: usize = 64;

/// Ends the names of files, so that nothing else in the folder is ever touched.
const ENDING: &str = ".answer";

/// Ends the names of files while they are written.
const UNFINISHED: &str = ".new";

/// An answer and the conversation that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    /// The reply, as the client got it or would have got it in one piece.
    pub(crate) body: Value,
    /// What was said, with the answer as the last message.
    pub(crate) messages: Vec<Message>,
}

/// Where answers are stored.
#[derive(Clone, Debug)]
pub struct AnswerStore {
    folder: PathBuf,
    answers_max: usize,
}

impl AnswerStore {
    /// A store in `folder`, which is made if it is missing, for up to `answers_max` answers.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(folder: &Path, answers_max: usize) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // It may have been there, open to others.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        Ok(Self { folder: folder.to_owned(), answers_max })
    }

    /// Stores an answer under `id`. One that is too large for the store is not kept.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn insert(&self, id: &str, scope: CacheScope, answer: &Stored) -> io::Result<()> {
        let bytes = record::written(answer);
        if bytes.len() > ANSWER_BYTES_MAX {
            tracing::warn!(bytes = bytes.len(), "an answer is too large to be stored");
            return Ok(());
        }
        let path = self.path(id, scope).ok_or(io::ErrorKind::InvalidInput)?;
        let unfinished = path.with_extension("new");
        let written = write_new(&unfinished, &bytes).and_then(|()| fs::rename(&unfinished, &path));
        if written.is_err() {
            drop(fs::remove_file(&unfinished));
        }
        written?;
        self.make_room()
    }

    /// The stored answer `id`, if `scope` made it.
    ///
    /// # Errors
    /// A 404 where it is not there.
    pub(crate) fn get(&self, id: &str, scope: CacheScope) -> Result<Stored, ApiError> {
        let path = self.path(id, scope).ok_or_else(|| not_stored(id))?;
        let bytes = fs::read(path).map_err(|error| of_store(id, &error))?;
        record::read(&bytes).ok_or_else(|| not_stored(id))
    }

    /// Deletes the stored answer `id`, if `scope` made it.
    ///
    /// # Errors
    /// A 404 where it is not there.
    pub(crate) fn remove(&self, id: &str, scope: CacheScope) -> Result<(), ApiError> {
        let path = self.path(id, scope).ok_or_else(|| not_stored(id))?;
        fs::remove_file(path).map_err(|error| of_store(id, &error))
    }

    /// The file of an answer; `None` for an id that no answer has, and that may be a path.
    fn path(&self, id: &str, scope: CacheScope) -> Option<PathBuf> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_id = !id.is_empty() && id.len() <= ID_BYTES_MAX && id.bytes().all(is_plain);
        let scope: String = scope.0[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        is_id.then(|| self.folder.join(format!("{scope}-{id}{ENDING}")))
    }

    /// Deletes the oldest answers until what is left is within the bounds.
    fn make_room(&self) -> io::Result<()> {
        let mut answers: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            // One that was not finished is left by a process that was killed, or by one that writes it now.
            let is_answer = path
                .to_str()
                .is_some_and(|path| path.ends_with(ENDING) || path.ends_with(UNFINISHED));
            // Another process may have deleted it meanwhile.
            if let (true, Ok(metadata)) = (is_answer, fs::metadata(&path)) {
                answers.push((metadata.modified()?, metadata.len(), path));
            }
        }
        answers.sort();
        let mut bytes: u64 = answers.iter().map(|(_, bytes, _)| bytes).sum();
        let mut n_left = answers.len();
        for (_, length, path) in answers {
            if bytes <= FOLDER_BYTES_MAX && n_left <= self.answers_max {
                break;
            }
            drop(fs::remove_file(path));
            bytes -= length;
            n_left -= 1;
        }
        Ok(())
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

/// What the system says, as a client is told.
fn of_store(id: &str, error: &io::Error) -> ApiError {
    if error.kind() == io::ErrorKind::NotFound {
        return not_stored(id);
    }
    tracing::error!(%error, "a stored answer cannot be reached");
    error::internal()
}

/// Nothing of that name is stored for whoever asks.
pub(crate) fn not_stored(id: &str) -> ApiError {
    let message = format!(
        "no answer {id:?} is stored here for this key: it was never stored, was deleted, or went to make room"
    );
    ApiError::new(ErrorKind::NotFound, message).with_code("response_not_found")
}

#[cfg(test)]
mod tests {
    use frank_chat::{Role, ToolCall};
    use serde_json::json;

    use super::*;

    const MINE: CacheScope = CacheScope([1; 32]);
    const YOURS: CacheScope = CacheScope([2; 32]);

    fn answer(text: &str) -> Stored {
        let call = ToolCall {
            id: Some("c1".to_owned()),
            name: "f".to_owned(),
            arguments: json!({"a": 1}),
        };
        let spoken = Message {
            reasoning: Some("hm".to_owned()),
            tool_calls: vec![call],
            ..Message::new(Role::Assistant, text)
        };
        let result =
            Message { tool_call_id: Some("c1".to_owned()), ..Message::new(Role::Tool, "3") };
        Stored { body: json!({"text": text}), messages: vec![spoken, result] }
    }

    fn store(answers_max: usize) -> (tempfile::TempDir, AnswerStore) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = AnswerStore::open(&folder.path().join("answers"), answers_max).expect("opens");
        (folder, store)
    }

    #[test]
    fn an_answer_is_there_for_the_key_that_made_it_and_for_no_other() {
        let (folder, store) = store(8);
        store.insert("resp_1", MINE, &answer("hi")).expect("it is stored");
        assert_eq!(store.get("resp_1", MINE), Ok(answer("hi")));
        assert!(store.get("resp_1", YOURS).is_err() && store.remove("resp_1", YOURS).is_err());
        store.remove("resp_1", MINE).expect("it is stored");
        assert_eq!(store.get("resp_1", MINE).unwrap_err().kind, ErrorKind::NotFound);
        let mode = fs::metadata(folder.path().join("answers")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "nobody else may read what was said");
    }

    #[test]
    fn the_oldest_answers_make_room_and_no_other_file_does() {
        let (folder, store) = store(3);
        let other = folder.path().join("answers/notes");
        fs::write(&other, "mine").expect("a file");
        for id in 0..5 {
            store.insert(&format!("resp_{id}"), MINE, &answer("hi")).expect("it is stored");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let kept = |id: usize| store.get(&format!("resp_{id}"), MINE).is_ok();
        assert_eq!((0..5).map(kept).collect::<Vec<_>>(), [false, false, true, true, true]);
        assert!(other.exists());
    }

    #[test]
    fn an_id_that_is_a_path_finds_nothing() {
        let (_folder, store) = store(3);
        for id in ["", "../x", "a/b", "a.b", "..", &"a".repeat(65)] {
            assert_eq!(store.get(id, MINE).unwrap_err().kind, ErrorKind::NotFound, "{id}");
        }
    }
}
