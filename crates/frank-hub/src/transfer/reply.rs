//! What an answer to a request for a range gives: judged by its head alone. Pure; never reads a body.

use crate::digest::Digest;

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// First byte in the segment.
    pub(super) start: u64,
    /// One past the last byte.
    pub(super) end: u64,
    /// Bytes of the whole segment, as declared.
    pub(super) total: u64,
}

/// The head of an answer, as far as it matters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Head<'a> {
    pub(super) status: u16,
    pub(super) content_range: Option<&'a str>,
    pub(super) content_length: Option<&'a str>,
    pub(super) content_type: Option<&'a str>,
    pub(super) content_encoding: Option<&'a str>,
    pub(super) content_disposition: Option<&'a str>,
}

/// What the body of an answer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Bytes from `start` to before this one.
    Part {
        /// One past the last byte.
        end: u64,
    },
    /// The whole segment, though only a part of it was asked for.
    Whole,
    /// The segment has another size than declared.
    Size {
        /// Its bytes.
        got: u64,
    },
    /// A web page.
    WebPage,
    /// Nothing that can be used.
    Odd {
        /// What is wrong with it.
        why: String,
    },
    /// An error by its status.
    Refused,
}

/// Judges an answer: its status first, then its size.
pub(super) fn judge(head: &Head<'_>, asked: Asked) -> Verdict {
    match head.status {
        206 => judge_part(head, asked),
        200 => judge_whole(head, asked),
        416 => match head.content_range.and_then(total_of) {
            Some(got) if got != asked.total => Verdict::Size { got },
            _ => Verdict::Refused,
        },
        _ => Verdict::Refused,
    }
}

fn judge_part(head: &Head<'_>, asked: Asked) -> Verdict {
    let odd = |why: String| Verdict::Odd { why };
    let Some((start, last, total)) = head.content_range.and_then(part_of) else {
        return odd("a 206 without a Content-Range of bytes".to_owned());
    };
    if let Some(got) = total.filter(|&total| total != asked.total) {
        return Verdict::Size { got };
    }
    if is_packed(head) {
        return odd("the body is packed, though it was asked for as it is".to_owned());
    }
    if start != asked.start || last < start || last >= asked.end {
        let (wanted, end) = (asked.start, asked.end - 1);
        return odd(format!("bytes {start} to {last} came, {wanted} to {end} were asked for"));
    }
    Verdict::Part { end: last + 1 }
}

fn judge_whole(head: &Head<'_>, asked: Asked) -> Verdict {
    if is_web_page(head) {
        return Verdict::WebPage;
    }
    if is_packed(head) {
        return Verdict::Odd {
            why: "the body is packed, though it was asked for as it is".to_owned(),
        };
    }
    match head.content_length.and_then(|text| text.parse().ok()) {
        Some(got) if got != asked.total => Verdict::Size { got },
        _ => Verdict::Whole,
    }
}

/// A page that asks for a login or says that something is wrong comes with the status of success. A file that is a page is
/// marked as one to be saved.
fn is_web_page(head: &Head<'_>) -> bool {
    let is_html = head.content_type.is_some_and(|kind| kind.trim_start().starts_with("text/html"));
    is_html && head.content_disposition.is_none_or(|text| !text.starts_with("attachment"))
}

fn is_packed(head: &Head<'_>) -> bool {
    head.content_encoding.is_some_and(|coding| !coding.eq_ignore_ascii_case("identity"))
}

/// `bytes FIRST-LAST/TOTAL`; the total may be `*`.
fn part_of(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (span, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?, total))
}

/// The total of a `Content-Range`, of an answer that holds nothing too.
pub(super) fn total_of(text: &str) -> Option<u64> {
    text.trim().strip_prefix("bytes ")?.split_once('/')?.1.parse().ok()
}

/// Whether an `X-Linked-Etag` says that the file has another digest than `declared`: the hub puts the digest there.
pub(super) fn names_another(linked: Option<&str>, declared: Option<Digest>) -> bool {
    let named = linked.and_then(|etag| etag.trim_matches('"').parse::<Digest>().ok());
    match (named, declared) {
        (Some(named), Some(declared)) => named.kind() == declared.kind() && named != declared,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked = Asked { start: 10, end: 20, total: 100 };

    fn part(content_range: &str) -> Verdict {
        judge(&Head { status: 206, content_range: Some(content_range), ..Head::default() }, ASKED)
    }

    #[test]
    fn a_part_must_begin_where_it_was_asked_for_and_belong_to_a_file_of_the_declared_size() {
        assert_eq!(part("bytes 10-19/100"), Verdict::Part { end: 20 });
        assert_eq!(part("bytes 10-14/100"), Verdict::Part { end: 15 });
        assert_eq!(part("bytes 10-19/*"), Verdict::Part { end: 20 });
        assert_eq!(part("bytes 10-19/101"), Verdict::Size { got: 101 });
        for odd in [
            "bytes 0-9/100",
            "bytes 11-19/100",
            "bytes 10-20/100",
            "bytes 10-9/100",
            "",
            "bytes",
            "x",
        ] {
            assert!(matches!(part(odd), Verdict::Odd { .. }), "{odd}");
        }
        let without = Head { status: 206, ..Head::default() };
        assert!(matches!(judge(&without, ASKED), Verdict::Odd { .. }));
    }

    #[test]
    fn an_answer_with_everything_is_judged_by_its_size_and_kind() {
        let whole = |length, kind| {
            let head =
                Head { status: 200, content_length: length, content_type: kind, ..Head::default() };
            judge(&head, ASKED)
        };
        assert_eq!(whole(Some("100"), None), Verdict::Whole);
        assert_eq!(whole(None, Some("application/octet-stream")), Verdict::Whole);
        assert_eq!(whole(Some("153"), None), Verdict::Size { got: 153 });
        assert_eq!(whole(Some("100"), Some("text/html; charset=utf-8")), Verdict::WebPage);
        let packed = Head { status: 200, content_encoding: Some("gzip"), ..Head::default() };
        assert!(matches!(judge(&packed, ASKED), Verdict::Odd { .. }));
        let saved = Head {
            status: 200,
            content_type: Some("text/html"),
            content_disposition: Some("attachment; filename=x.html"),
            ..Head::default()
        };
        assert_eq!(judge(&saved, ASKED), Verdict::Whole);
    }

    #[test]
    fn a_range_that_is_not_there_shows_another_size() {
        let head = |content_range| Head { status: 416, content_range, ..Head::default() };
        assert_eq!(judge(&head(Some("bytes */7")), ASKED), Verdict::Size { got: 7 });
        assert_eq!(judge(&head(Some("bytes */100")), ASKED), Verdict::Refused);
        assert_eq!(judge(&head(None), ASKED), Verdict::Refused);
        assert_eq!(total_of("bytes 0-0/12"), Some(12));
    }

    #[test]
    fn a_linked_etag_may_name_a_digest() {
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        let declared = Some(a.parse().unwrap());
        assert!(names_another(Some(&format!("\"{b}\"")), declared));
        assert!(!names_another(Some(&format!("\"{a}\"")), declared));
        assert!(!names_another(Some(&"b".repeat(40)), declared));
        assert!(!names_another(Some("\"x-5\""), declared));
        assert!(!names_another(None, declared));
        assert!(!names_another(Some(&b), None));
    }
}
