//! Folders as if they lay on one, two or three slower devices: what `leveret perf --model` asks a
//! node of its own for.

use super::{Device, DeviceModel, RealDisk};
use leveret_storage::Folders;
use std::path::PathBuf;
use std::sync::Arc;

/// Devices for folders, the longest path first.
pub(super) type FolderDevices = Arc<[(PathBuf, Arc<Device>)]>;

impl RealDisk {
    /// The disk as if `folders` lay on slower devices. `text` is the kind (`hdd`, `ssd`) and how
    /// many there are: `hdd:1` has everything on one, `hdd:2` the write-ahead log on another,
    /// `hdd:3` the segments on a third. For trials only; `None` if it is anything else.
    #[must_use]
    pub fn with_trial_devices(text: &str, folders: &Folders) -> Option<Self> {
        let (kind, count) = text.split_once(':')?;
        let model = match kind {
            "hdd" => DeviceModel::HARD_DISK,
            "ssd" => DeviceModel::SOLID_STATE,
            _ => return None,
        };
        let first = Arc::new(Device::new(model));
        let own = || Arc::new(Device::new(model));
        let (segment, wal) = match count {
            "1" => (Arc::clone(&first), Arc::clone(&first)),
            "2" => (Arc::clone(&first), own()),
            "3" => (own(), own()),
            _ => return None,
        };
        tracing::warn!(
            "NOT FOR PRODUCTION: every disk access is slowed down to model the devices {text}"
        );
        let mut placed = vec![
            (folders.segment.clone(), segment),
            (folders.wal.clone(), wal),
        ];
        placed.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_os_str().len()));
        Some(Self {
            device: Some(first),
            placed: placed.into(),
            quota: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Which of the folders share a device: data with segment, data with wal, segment with wal.
    fn shared(text: &str) -> Option<[bool; 3]> {
        let folders = Folders::within(Path::new("/somewhere"));
        let disk = RealDisk::with_trial_devices(text, &folders)?;
        let device = |folder: &Path| disk.device_of(&folder.join("file")).unwrap();
        let [data, segment, wal] =
            [&folders.data, &folders.segment, &folders.wal].map(|f| device(f));
        Some([
            Arc::ptr_eq(&data, &segment),
            Arc::ptr_eq(&data, &wal),
            Arc::ptr_eq(&segment, &wal),
        ])
    }

    #[test]
    fn folders_share_as_many_devices_as_there_are() {
        assert_eq!(shared("hdd:1"), Some([true, true, true]));
        assert_eq!(shared("hdd:2"), Some([true, false, false]));
        assert_eq!(shared("ssd:3"), Some([false, false, false]));
        for text in ["", "hdd", "hdd:0", "hdd:4", "tape:1"] {
            assert_eq!(shared(text), None, "{text}");
        }
    }
}
