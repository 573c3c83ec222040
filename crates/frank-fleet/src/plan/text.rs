//! A plan for people. Never adds anything that is not in it.

use std::fmt;

use frank_plan::Size;

use crate::plan::memory::{DeviceMemory, MemoryVerdict};
use crate::plan::outcome::{Change, EndpointPlan, FileChange, FleetPlan, HostPlan, Stop};

impl Change {
    /// The mark before a line.
    fn mark(self) -> char {
        match self {
            Change::Added => '+',
            Change::Changed => '~',
            Change::Removed => '-',
            Change::Unchanged => ' ',
            Change::Refused => '!',
        }
    }
}

impl fmt::Display for FleetPlan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, host) in self.hosts.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            write!(out, "{host}")?;
        }
        Ok(())
    }
}

impl fmt::Display for HostPlan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.host)?;
        match (self.next_generation, self.generation) {
            (Some(next), 0) => writeln!(out, ": generation {next}, the first")?,
            (Some(next), from) => writeln!(out, ": generation {from} becomes {next}")?,
            (None, _) if self.is_refused() => writeln!(out, ": nothing is done")?,
            (None, 0) => writeln!(out, ": nothing to do")?,
            (None, from) => writeln!(out, ": generation {from} stays")?,
        }
        self.endpoints.iter().try_for_each(|endpoint| write!(out, "{endpoint}"))?;
        self.write_files(out)?;
        for payload in &self.payloads {
            let size = payload.bytes.map_or_else(String::new, |bytes| format!(", {}", Size(bytes)));
            let (count, name) = (payload.files.len(), &payload.name);
            let noun = if count == 1 { "file" } else { "files" };
            writeln!(out, "  payload {name}: {count} {noun} to fetch or to check{size}")?;
        }
        for folder in &self.folders {
            writeln!(out, "  folder {folder} is made where it is missing")?;
        }
        if let Some(memory) = &self.memory {
            write!(out, "{memory}")?;
        }
        Ok(())
    }
}

impl HostPlan {
    fn is_refused(&self) -> bool {
        self.faults.iter().any(crate::fault::Fault::is_error)
    }

    fn write_files(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.iter().try_for_each(|file| write!(out, "{file}"))?;
        match self.n_files_unchanged {
            0 => Ok(()),
            1 => writeln!(out, "    1 file stays as it is"),
            n => writeln!(out, "    {n} files stay as they are"),
        }
    }
}

impl fmt::Display for EndpointPlan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "  {} {} ({})", self.change.mark(), self.name, self.unit)?;
        if self.change == Change::Changed {
            for input in &self.changed_inputs {
                writeln!(out, "      because of {input}")?;
            }
        }
        for gate in &self.gates {
            writeln!(out, "      gate {}: {}", gate.kind, gate.what)?;
        }
        if let Some(stop) = &self.stop {
            writeln!(out, "      {stop}")?;
        }
        if let Some(firewall) = self.firewall.as_ref().filter(|_| self.change != Change::Unchanged)
        {
            writeln!(
                out,
                "      a firewall that lets in nobody but this host and its containers:"
            )?;
            firewall.lines().try_for_each(|line| writeln!(out, "        {line}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.seconds, self.from) {
            (Some(seconds), Some("last start")) => {
                write!(
                    out,
                    "{} stops for about {seconds} s, as long as its last start took",
                    self.unit
                )
            }
            (Some(seconds), _) => {
                write!(out, "{} stops for {seconds} s at most, its start period", self.unit)
            }
            (None, _) => write!(out, "{} stops and does not come back", self.unit),
        }
    }
}

impl fmt::Display for FileChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "  {} {}", self.change.mark(), self.path)
    }
}

impl fmt::Display for MemoryVerdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "  memory: {}", if self.fits { "fits" } else { "does not fit" })?;
        let used = self.devices.iter().filter(|device| !device.uses.is_empty());
        used.clone().try_for_each(|device| write!(out, "{device}"))?;
        if !self.unknown.is_empty() {
            writeln!(out, "    unknown: {}", self.unknown.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for DeviceMemory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "    {} of {}: ", self.id, Size(self.total))?;
        match self.short_by {
            0 => write!(out, "{} left", Size(self.left))?,
            short => write!(out, "short by {}", Size(short))?,
        }
        writeln!(out, ", {} headroom, {} held by others", Size(self.headroom), Size(self.others))?;
        for one in &self.uses {
            let about = if one.is_estimate { " (estimate)" } else { "" };
            writeln!(out, "      {} {}{about}", one.name, Size(one.bytes))?;
        }
        Ok(())
    }
}
