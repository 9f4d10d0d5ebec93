//! The files of streams that a start finds, and what the catalogue says of them.

use crate::broker::Broker;
use crate::disk::RealDisk;
use leveret_cluster::{Env as _, streams};
use leveret_metadata::QueueKind;
use leveret_stream_host::{Known, StreamHost};
use leveret_types::QueueId;
use std::collections::HashSet;
use std::io;

/// Has the streams of this node run, deletes the files of those that were deleted, and sets aside
/// what the catalogue has never known.
///
/// # Errors
/// If the disk refuses.
pub(crate) fn sort_out(broker: &Broker, host: &mut StreamHost<RealDisk>) -> io::Result<()> {
    let mut here = HashSet::new();
    let catalogue = broker.catalogue();
    for record in catalogue.queues(None) {
        if streams::has_files(record, broker) {
            here.insert(record.id());
        }
        if record.kind() == QueueKind::Stream {
            streams::found(record, broker);
        }
    }
    let known = |stream: QueueId| {
        if here.contains(&stream) {
            return Known::Here;
        }
        let id = stream.0;
        if catalogue.has_given(stream) {
            tracing::warn!(
                "deleting the files of stream {id}: the catalogue says that there is none of this \
                 id on this node any more, so it was deleted while its files could not be"
            );
            return Known::Gone;
        }
        tracing::warn!(
            "the catalogue has never had a stream {id:016x}, of which there are files: they are \
             set aside unless they are empty"
        );
        Known::Never
    };
    host.sort_out(known).map_err(io::Error::other)?;
    if let Some(aside) = host.files().what_is_set_aside()? {
        let (folder, files, bytes) = (aside.folder.display(), aside.files, aside.bytes);
        tracing::warn!(
            "{folder} has {files} files with {bytes} bytes of streams that the catalogue has never \
             had: what told of them was missing at a start, such as a file of the write-ahead log \
             or a checkpoint. Put that back and these files where they were, or delete the folder; \
             the node does neither"
        );
    }
    Ok(())
}
