//! A device of a plan as the parts of one bar: what others hold, each purpose, what is left, what stays free. Never draws.

use frank_plan::DevicePlan;

/// What a part of a bar stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What other processes hold.
    Others,
    /// What frank will hold for one purpose: its place in the order of the JSON.
    Purpose(usize),
    /// What frank will hold in pools that are a part of this one.
    Pools,
    /// What nobody will hold.
    Left,
    /// What stays free on purpose.
    Headroom,
}

/// A colour for each purpose in the order of the JSON, told apart by people who see few colours too: its number among
/// the 256 of terminals, and in an SVG.
const PURPOSE_COLOURS: [Colour; 11] = [
    Colour { ansi: 25, hex: "#0072b2" },
    Colour { ansi: 36, hex: "#009e73" },
    Colour { ansi: 79, hex: "#6fd1b3" },
    Colour { ansi: 214, hex: "#e69f00" },
    Colour { ansi: 227, hex: "#f0e442" },
    Colour { ansi: 175, hex: "#cc79a7" },
    Colour { ansi: 166, hex: "#d55e00" },
    Colour { ansi: 74, hex: "#56b4e9" },
    Colour { ansi: 89, hex: "#882255" },
    Colour { ansi: 133, hex: "#aa4499" },
    Colour { ansi: 94, hex: "#8c6d46" },
];

/// A colour of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour {
    /// Number among the 256 colours of terminals.
    pub(crate) ansi: u8,
    /// As in an SVG.
    pub(crate) hex: &'static str,
}

impl Kind {
    /// The colour of what it stands for.
    pub(crate) fn colour(self) -> Colour {
        match self {
            Self::Others => Colour { ansi: 244, hex: "#8a8f98" },
            Self::Purpose(index) => PURPOSE_COLOURS[index],
            Self::Pools => Colour { ansi: 108, hex: "#7fa88f" },
            Self::Left => Colour { ansi: 236, hex: "#f4f5f7" },
            Self::Headroom => Colour { ansi: 250, hex: "#d3d7de" },
        }
    }
}

/// A part of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) kind: Kind,
    /// As in the JSON where it is a purpose.
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
}

/// The parts of a device that are not empty, in the order of a bar. Together they are the whole device, or more where
/// more would be held than there is.
pub(crate) fn parts(device: &DevicePlan) -> Vec<Part> {
    let part = |kind, name, bytes| Part { kind, name, bytes };
    let others = part(Kind::Others, "others", device.total.saturating_sub(device.free));
    let uses = device.uses.entries().into_iter().enumerate();
    let uses = uses.map(|(index, (name, bytes))| part(Kind::Purpose(index), name, bytes));
    let mut parts: Vec<Part> = std::iter::once(others).chain(uses).collect();
    let left =
        [part(Kind::Left, "left", device.left), part(Kind::Headroom, "headroom", device.headroom)];
    let told = parts.iter().chain(&left).fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
    parts.push(part(Kind::Pools, "pools", device.total.saturating_sub(told)));
    parts.extend(left);
    parts.retain(|part| part.bytes > 0);
    parts
}

/// How many of `width` cells each of `bytes` gets, in proportion, so that all cells are given away and none that is not
/// empty goes without, as far as there are cells.
pub(crate) fn cells(bytes: &[u64], width: usize) -> Vec<usize> {
    let total: u128 = bytes.iter().copied().map(u128::from).sum();
    if total == 0 {
        return vec![0; bytes.len()];
    }
    let mut end = 0u128;
    let mut before = 0;
    let shares = bytes.iter().map(|&bytes| {
        end += u128::from(bytes);
        let border = usize::try_from((end * width as u128 + total / 2) / total).unwrap_or(width);
        border - std::mem::replace(&mut before, border)
    });
    let mut cells: Vec<usize> = shares.collect();
    for index in 0..cells.len() {
        let largest = (0..cells.len()).max_by_key(|&index| cells[index]).unwrap_or(0);
        if bytes[index] > 0 && cells[index] == 0 && cells[largest] > 1 {
            cells[largest] -= 1;
            cells[index] = 1;
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_given_in_proportion_and_all_of_them() {
        let check = |bytes: &[u64], width, expected: &[usize]| {
            assert_eq!(cells(bytes, width), expected, "{bytes:?} in {width}");
        };
        check(&[1, 1, 2], 8, &[2, 2, 4]);
        check(&[1, 1, 1], 10, &[3, 4, 3]);
        check(&[1, 0, 1_000_000], 10, &[1, 0, 9]);
        check(&[1, 1_000_000, 1], 3, &[1, 1, 1]);
        check(&[1, 1_000_000, 1], 2, &[1, 1, 0]);
        check(&[u64::MAX, u64::MAX], 10, &[5, 5]);
        check(&[0, 0], 10, &[0, 0]);
        check(&[], 10, &[]);
        check(&[5], 0, &[0]);
    }
}
