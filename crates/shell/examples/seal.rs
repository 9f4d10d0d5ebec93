//! What sealed links cost: processor time to seal and to open a gigabyte, by the size of records.
//! `cargo run --release -p leveret-shell --example seal`

use leveret_shell::cluster::seal::{HEADER_BYTES, Session, Side};
use ring::hkdf::{HKDF_SHA256, Salt};
use std::time::{Duration, Instant};

const BYTES: usize = 1_000_000_000;

fn main() {
    let shared = Salt::new(HKDF_SHA256, b"secret").extract(b"agreed");
    println!("record      seal      open   CPU s a GB");
    for length in [64 * 1024, 16 * 1024, 4 * 1024, 1_024, 256] {
        let mut near = Session::new(&shared, b"", Side::Dialer);
        let mut far = Session::new(&shared, b"", Side::Acceptor);
        let (mut sealing, mut opening) = (Duration::ZERO, Duration::ZERO);
        let mut record = Vec::with_capacity(HEADER_BYTES + length + 64);
        for _ in 0..BYTES / length {
            record.clear();
            record.resize(HEADER_BYTES + length, 0x5A);
            let begun = Instant::now();
            near.sealer.seal(&mut record, 0);
            let sealed = Instant::now();
            let opened = far.opener.open(&mut record);
            opening += sealed.elapsed();
            sealing += sealed - begun;
            assert!(matches!(opened, Ok(Some((said, _))) if said[0] == 0x5A));
        }
        let [sealing, opening] = [sealing, opening].map(|time| time.as_secs_f64());
        println!("{length:>6} {sealing:>9.3} {opening:>9.3}");
    }
}
