//! One frame of each command as the protocol's document has it, octet by octet: what tests compare
//! with and fuzzing begins with.

/// A line of hexadecimal digits as octets; what stands between quotes is text.
fn octets(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, part) in line.split('"').enumerate() {
        if at % 2 == 1 {
            bytes.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u32> = part.chars().filter_map(|c| c.to_digit(16)).collect();
        bytes.extend(digits.chunks(2).map(|pair| match pair {
            [high, low] => (high * 16 + low) as u8,
            _ => panic!("half an octet in {line}"),
        }));
    }
    bytes
}

/// The lines of a table: the side that says it, its name, and its frame behind the size.
pub fn lines() -> impl Iterator<Item = (char, &'static str, Vec<u8>)> {
    let lines = include_str!("../spec/frames.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let (side, rest) = line.split_once(' ').expect("a side and a name");
        let (name, frame) = rest.trim().split_once(' ').expect("a name and a frame");
        let frame = octets(frame);
        let size = (frame.len() as u32).to_be_bytes();
        let side = side.chars().next().unwrap_or_default();
        (side, name, [&size[..], &frame].concat())
    })
}

/// All frames.
pub fn every_frame() -> Vec<Vec<u8>> {
    lines().map(|(_, _, frame)| frame).collect()
}
