//! What this node does not know yet, because another node of the cluster has made it a moment ago:
//! the frame that asks for it is looked at again once this node has seen what the others had agreed
//! on.

use crate::pending_request::PendingRequest;
use crate::port::Port;
use crate::session::Session;
use bytes::Bytes;
use leveret_types::Now;

impl Session {
    /// Keeps a frame that has just been looked at, if it is to be looked at again.
    pub(crate) fn keep_for_retry(&mut self, frame: &Bytes) {
        if std::mem::take(&mut self.may_be_behind) {
            let frame = frame.clone();
            self.pending_request = Some(PendingRequest::OtherNodes { frame });
        }
    }

    /// This node has seen what the others had agreed on when [`Port::may_be_behind`] was asked: the
    /// frame that waits for that is looked at again, if there is one.
    pub fn retry(&mut self, now: Now, port: &mut impl Port) {
        let waits =
            |pending: &mut PendingRequest| matches!(pending, PendingRequest::OtherNodes { .. });
        if let Some(PendingRequest::OtherNodes { frame }) = self.pending_request.take_if(waits) {
            self.now = now;
            self.frame(&frame, port);
            port.retried();
            self.tell_gone_behind();
            self.read_on(port);
        }
    }
}
