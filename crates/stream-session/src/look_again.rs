//! What this node does not know yet, because another node of the cluster has made it a moment ago:
//! the frame that asks for it is looked at again once this node has seen what the others had agreed
//! on.

use crate::asked::Asked;
use crate::port::Port;
use crate::session::Session;
use bytes::Bytes;
use leveret_types::Now;

impl Session {
    /// Keeps a frame that has just been looked at, if it is to be looked at again.
    pub(crate) fn keep_to_look_again(&mut self, frame: &Bytes) {
        if std::mem::take(&mut self.may_be_behind) {
            let frame = frame.clone();
            self.asked = Some(Asked::OtherNodes { frame });
        }
    }

    /// This node has seen what the others had agreed on when [`Port::may_be_behind`] was asked: the
    /// frame that waits for that is looked at again, if there is one.
    pub fn look_again(&mut self, now: Now, port: &mut impl Port) {
        let waits = |asked: &mut Asked| matches!(asked, Asked::OtherNodes { .. });
        if let Some(Asked::OtherNodes { frame }) = self.asked.take_if(waits) {
            self.now = now;
            self.frame(&frame, port);
            port.looked_again();
            self.tell_gone_behind();
            self.read_on(port);
        }
    }
}
