//! How far Linux reads ahead of a mapped file on a drive: changed for a while, and put back however this process ends.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Waits until its input ends, which it does when whoever holds the other end drops it or dies in any way, then writes its
/// first argument into the file that is its second. What ends a whole terminal does not end it before.
const PUT_BACK: &str = r#"trap "" INT TERM HUP; cat > /dev/null; echo "$0" > "$1""#;

/// The setting of a drive, in KiB. Put back when it is dropped.
pub(super) struct ReadAhead {
    file: PathBuf,
    /// What it was.
    pub(super) kib: u64,
    put_back: Child,
}

impl ReadAhead {
    /// Of the drive on which `path` lies. Nothing is changed yet.
    /// # Errors
    /// The drive has no such setting, or it cannot be written.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let device = fs::metadata(path).with_context(|| format!("{}", path.display()))?.dev();
        let file = setting(Path::new("/sys/dev/block"), device)
            .with_context(|| format!("{} lies on no drive that reads ahead", path.display()))?;
        let kib = read(&file)?;
        let opened = OpenOptions::new().write(true).open(&file);
        drop::<File>(opened.with_context(|| format!("write {}", file.display()))?);
        let mut command = Command::new("sh");
        command.args(["-c", PUT_BACK, &kib.to_string()]).arg(&file);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let put_back = command.spawn().context("start what puts the read-ahead back")?;
        Ok(Self { file, kib, put_back })
    }

    /// Changes it until the next change or the end.
    pub(super) fn set(&self, kib: u64) -> Result<()> {
        let place = self.file.display();
        let mut file = OpenOptions::new().write(true).open(&self.file)?;
        file.write_all(kib.to_string().as_bytes()).with_context(|| format!("write {place}"))?;
        let is = read(&self.file)?;
        if is != kib {
            bail!("{place} is {is} after {kib} was written");
        }
        Ok(())
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        drop(self.put_back.stdin.take());
        let ended = self.put_back.wait();
        let is = read(&self.file);
        if !is.as_ref().is_ok_and(|is| *is == self.kib) {
            let place = self.file.display();
            eprintln!("warning: {place} was {} and is {is:?} now ({ended:?})", self.kib);
        }
    }
}

/// The file with the setting of a device or, for a part of a drive, of the drive.
fn setting(devices: &Path, device: u64) -> Option<PathBuf> {
    let (major, minor) = numbers(device);
    let device = devices.join(format!("{major}:{minor}")).canonicalize().ok()?;
    let drives = [Some(device.as_path()), device.parent()];
    drives
        .into_iter()
        .flatten()
        .map(|drive| drive.join("queue/read_ahead_kb"))
        .find(|f| f.is_file())
}

/// Major and minor number, as Linux packs them.
fn numbers(device: u64) -> (u64, u64) {
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
    let minor = (device & 0xff) | ((device >> 12) & 0xffff_ff00);
    (major, minor)
}

fn read(file: &Path) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    text.trim().parse().with_context(|| format!("{} is {text:?}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_unpacked_into_its_numbers() {
        assert_eq!(numbers(0xfe00), (254, 0));
        assert_eq!(numbers(0x0010_0803), (8, 259));
    }

    #[test]
    fn a_part_of_a_drive_has_the_setting_of_the_drive() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let drive = folder.path().join("drive");
        fs::create_dir_all(drive.join("queue")).expect("a folder");
        fs::create_dir_all(drive.join("part")).expect("a folder");
        fs::write(drive.join("queue/read_ahead_kb"), "128\n").expect("a file");
        let devices = folder.path().join("devices");
        fs::create_dir(&devices).expect("a folder");
        for (name, target) in [("8:0", drive.clone()), ("8:1", drive.join("part"))] {
            std::os::unix::fs::symlink(target, devices.join(name)).expect("a link");
        }
        for device in [0x0800, 0x0801] {
            let found =
                setting(&devices, device).expect("a setting").canonicalize().expect("it is there");
            assert_eq!(read(&found).expect("a number"), 128);
        }
        assert_eq!(setting(&devices, 0x0802), None);
    }

    #[test]
    fn what_was_changed_is_put_back() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("read_ahead_kb");
        fs::write(&file, "8192\n").expect("a file");
        let mut command = Command::new("sh");
        command.args(["-c", PUT_BACK, "8192"]).arg(&file).stdin(Stdio::piped());
        let put_back = command.spawn().expect("a shell");
        let read_ahead = ReadAhead { file: file.clone(), kib: 8192, put_back };
        fs::write(&file, "").expect("an empty file");
        read_ahead.set(128).expect("it is written");
        assert_eq!(read(&file).expect("a number"), 128);
        drop(read_ahead);
        assert_eq!(read(&file).expect("a number"), 8192);
    }
}
