//! A memory plan as one bar for each device, for a terminal or for a plain text. Never decides anything.

use std::io::IsTerminal;

use frank_plan::Plan;

use crate::plan_parts::{Kind, Part, cells, parts};
use crate::report::printable;

/// Columns of a plain text, which every reader has.
const PLAIN_COLUMNS: usize = 80;

/// Longer bars say no more.
const COLUMNS_MAX: usize = 120;

/// Shorter bars say nothing.
const COLUMNS_MIN: usize = 24;

/// What stdout can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    columns: usize,
    has_colour: bool,
}

impl Look {
    /// What this process's stdout can show: colours in a terminal, unless `NO_COLOR` or its `TERM` says otherwise.
    pub(crate) fn of_stdout() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let stdout = std::io::stdout();
        let width = terminal_size::terminal_size_of(&stdout);
        let columns = width.map_or(PLAIN_COLUMNS, |(width, _)| usize::from(width.0));
        let has_colour = stdout.is_terminal() && !is_set("NO_COLOR") && !is_dumb;
        Self { columns: columns.clamp(COLUMNS_MIN, COLUMNS_MAX), has_colour }
    }
}

/// One bar for each device below its name, and what its signs mean.
pub(crate) fn bars(plan: &Plan, look: Look) -> String {
    let devices = plan.devices.iter().map(|device| {
        let parts = parts(device);
        format!("{}\n  {}\n", printable(&device.id), bar(&parts, look))
    });
    let devices: String = devices.collect();
    devices + &legend(plan, look)
}

/// The parts of a device in a row.
fn bar(parts: &[Part], look: Look) -> String {
    let bytes: Vec<u64> = parts.iter().map(|part| part.bytes).collect();
    // An indent of two, and brackets where there is no colour to end with.
    let width = look.columns - if look.has_colour { 2 } else { 4 };
    let cells = parts.iter().zip(cells(&bytes, width));
    if look.has_colour {
        let cells = cells.map(|(part, n)| blocks(part.kind, n));
        cells.collect()
    } else {
        let cells = cells.map(|(part, n)| sign(part.kind).repeat(n));
        format!("[{}]", cells.collect::<String>())
    }
}

/// What stands for a part where there are no colours.
fn sign(kind: Kind) -> &'static str {
    match kind {
        Kind::Others => "-",
        Kind::Purpose(_) | Kind::Pools => "#",
        Kind::Left => " ",
        Kind::Headroom => ".",
    }
}

/// `n` cells of a terminal in the colour of a part.
fn blocks(kind: Kind, n: usize) -> String {
    format!("\x1b[48;5;{}m{}\x1b[0m", kind.colour().ansi, " ".repeat(n))
}

/// What the parts of all devices are, as many to a line as there is room for.
fn legend(plan: &Plan, look: Look) -> String {
    if !look.has_colour {
        return "  # planned here  - held by others  . stays free (headroom)\n".to_owned();
    }
    let mut kinds: Vec<Part> = Vec::new();
    for part in plan.devices.iter().flat_map(parts) {
        if !kinds.iter().any(|known| known.kind == part.kind) {
            kinds.push(part);
        }
    }
    kinds.sort_by_key(|part| order(part.kind));
    let mut out = String::new();
    let mut column = 0;
    for Part { kind, name, .. } in kinds {
        let n_columns = 2 + 2 + 1 + name.len();
        if column > 0 && column + n_columns > look.columns {
            out.push('\n');
            column = 0;
        }
        out.push_str(&format!("  {} {name}", blocks(kind, 2)));
        column += n_columns;
    }
    out + "\n"
}

/// Parts in the order of a bar.
fn order(kind: Kind) -> usize {
    match kind {
        Kind::Others => 0,
        Kind::Purpose(index) => 1 + index,
        Kind::Pools => usize::MAX - 2,
        Kind::Left => usize::MAX - 1,
        Kind::Headroom => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> [Part; 4] {
        let part = |kind, bytes| Part { kind, name: "", bytes };
        [
            part(Kind::Others, 10),
            part(Kind::Purpose(0), 30),
            part(Kind::Left, 50),
            part(Kind::Headroom, 10),
        ]
    }

    #[test]
    fn a_plain_bar_is_made_of_signs_and_as_wide_as_asked() {
        let look = Look { columns: 24, has_colour: false };
        assert_eq!(bar(&parts(), look), "[--######          ..]");
    }

    #[test]
    fn a_bar_in_colour_has_a_colour_for_each_part_and_ends_it() {
        let look = Look { columns: 22, has_colour: true };
        let block = |colour: u8, n| format!("\x1b[48;5;{colour}m{}\x1b[0m", " ".repeat(n));
        let expected = [block(244, 2), block(25, 6), block(236, 10), block(250, 2)].concat();
        assert_eq!(bar(&parts(), look), expected);
    }
}
