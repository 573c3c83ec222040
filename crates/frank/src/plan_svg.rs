//! A memory plan as a picture: one bar for each device in SVG. Never decides anything.

use std::fmt::Write;

use frank_plan::{DevicePlan, Outcome, Size};

use crate::plan_parts::{Part, parts};
use crate::plan_text::{model_line, settings_line, speed_line, tiers_line};
use crate::report::printable;

/// Sizes in the units of the picture.
const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
const LINE: f64 = 20.0;
const BAR: f64 = 34.0;
const SWATCH: f64 = 12.0;
/// An entry of a legend, which has the widest name and size that there are.
const ENTRY: f64 = 228.0;

/// A text of more characters would leave the picture.
const CHARS_MAX: usize = 130;

/// The picture of a plan, and why it does not fit where it does not.
pub(crate) fn svg(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    let mut picture = Picture { body: String::new(), y: MARGIN };
    picture.text("title", &model_line(plan));
    picture.text("note", &settings_line(plan));
    if let Some(line) = tiers_line(plan) {
        picture.text("note", &line);
    }
    for device in &plan.devices {
        picture.device(device);
    }
    if let Some(line) = speed_line(&plan.predict) {
        picture.gap();
        picture.text("note", &line);
    }
    if let Some(refusal) = &outcome.refusal {
        picture.gap();
        picture.wrapped("refusal", &refusal.to_string());
    }
    picture.finish()
}

/// Lines and bars from the top down.
struct Picture {
    body: String,
    /// Where the next one begins.
    y: f64,
}

impl Picture {
    fn gap(&mut self) {
        self.y += LINE / 2.0;
    }

    fn text(&mut self, class: &str, text: &str) {
        let text: String = text.chars().take(CHARS_MAX).collect();
        let baseline = self.y + LINE * 0.7;
        self.push(&format!(
            r#"<text class="{class}" x="{MARGIN}" y="{baseline:.1}">{}</text>"#,
            escaped(&text)
        ));
        self.y += LINE;
    }

    /// A text in as many lines as it takes.
    fn wrapped(&mut self, class: &str, text: &str) {
        let mut line = String::new();
        for word in text.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > CHARS_MAX {
                self.text(class, &std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.text(class, &line);
    }

    /// The name of a device, its bar, and what the parts of it are.
    fn device(&mut self, device: &DevicePlan) {
        let (free, total) = (Size(device.free), Size(device.total));
        self.gap();
        self.text("device", &format!("{}: {free} free of {total}", device.id));
        let parts = parts(device);
        self.bar(&parts, device.total);
        self.legend(&parts);
    }

    /// The bar, with a line where the memory ends when more would be held than there is.
    fn bar(&mut self, parts: &[Part], device_bytes: u64) {
        let total: f64 = parts.iter().map(|part| width_of(part.bytes)).sum();
        let room = WIDTH - 2.0 * MARGIN;
        let (mut x, y) = (MARGIN, self.y);
        for part in parts {
            let width = width_of(part.bytes) / total * room;
            self.push(&format!(
                r#"<rect class="part" x="{x:.2}" y="{y:.1}" width="{width:.2}" height="{BAR}" fill="{}"><title>{} {}</title></rect>"#,
                part.kind.colour().hex,
                part.name,
                Size(part.bytes),
            ));
            x += width;
        }
        self.push(&format!(
            r#"<rect class="frame" x="{MARGIN}" y="{y:.1}" width="{room}" height="{BAR}"/>"#
        ));
        if width_of(device_bytes) < total {
            let end = MARGIN + width_of(device_bytes) / total * room;
            let (top, bottom) = (y - 5.0, y + BAR + 5.0);
            self.push(&format!(
                r#"<path class="end" d="M{end:.2} {top:.1}V{bottom:.1}"><title>end of the memory</title></path>"#
            ));
        }
        self.y += BAR + LINE * 0.6;
    }

    fn legend(&mut self, parts: &[Part]) {
        const PER_ROW: usize = ((WIDTH - 2.0 * MARGIN) / ENTRY) as usize;
        for row in parts.chunks(PER_ROW) {
            let mut x = MARGIN;
            for part in row {
                self.entry(x, part);
                x += ENTRY;
            }
            self.y += LINE;
        }
    }

    fn entry(&mut self, x: f64, part: &Part) {
        let (top, baseline) = (self.y + 3.0, self.y + 13.5);
        self.push(&format!(
            r#"<rect class="part" x="{x}" y="{top:.1}" width="{SWATCH}" height="{SWATCH}" fill="{}"/>"#,
            part.kind.colour().hex
        ));
        self.push(&format!(
            r#"<text class="entry" x="{:.1}" y="{baseline:.1}">{} {}</text>"#,
            x + SWATCH + 7.0,
            part.name,
            Size(part.bytes)
        ));
    }

    fn push(&mut self, element: &str) {
        writeln!(self.body, "{element}").expect("a String takes every text");
    }

    fn finish(self) -> String {
        let height = self.y + MARGIN;
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" width="{WIDTH}" height="{height:.0}" role="img">
<style>
text {{ font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #1f2430 }}
.title {{ font-size: 16px; font-weight: 600 }}
.device {{ font-weight: 600 }}
.note {{ fill: #555c6b }}
.refusal {{ fill: #b3261e }}
.part {{ stroke: #ffffff; stroke-width: 0.5 }}
.end {{ stroke: #b3261e; stroke-width: 2; stroke-dasharray: 4 2 }}
.frame {{ fill: none; stroke: #9aa0ab }}
</style>
<rect width="100%" height="100%" fill="#ffffff"/>
{}</svg>
"##,
            self.body
        )
    }
}

/// Bytes as a length; the picture has no more digits than an f64.
fn width_of(bytes: u64) -> f64 {
    bytes as f64
}

/// `text` inside an element: no markup, and no character that XML or a reader cannot have.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in printable(text).chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.extend(char.escape_default()),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_file_are_text_and_no_markup() {
        assert_eq!(escaped("<a href=\"x\">&\x1b"), r"&lt;a href=&quot;x&quot;&gt;&amp;\u{1b}");
        assert_eq!(escaped("qwen3moe, 2 layers"), "qwen3moe, 2 layers");
        assert_eq!(escaped("no\u{ffff}XML"), r"no\u{ffff}XML");
    }
}
