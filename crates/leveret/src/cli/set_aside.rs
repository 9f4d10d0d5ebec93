//! Files of streams that a start has set aside: what an operator does with them.

/// What to do about files that were set aside.
pub(super) const SET_ASIDE: &str = "what told of these streams was missing at a start, such as a file of the write-ahead log or a \
     checkpoint,\nand the node uses none of them: stop it, put that back, and these files into the \
     folder above; or delete them\n";
