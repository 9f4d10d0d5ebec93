use super::*;
use crate::fuzz::Random;

/// `depth` tables or arrays, each the only thing in the one around it.
fn nested(depth: usize, kind: u8) -> Vec<u8> {
    let mut entries = Vec::new();
    for level in 1..depth {
        let mut outer = Vec::new();
        if kind == b'F' || level + 1 == depth {
            wire::put_short_string(&mut outer, b"n");
        }
        outer.push(kind);
        wire::put_long_string(&mut outer, &entries);
        entries = outer;
    }
    entries
}

#[test]
fn one_hundred_levels_are_accepted_and_one_hundred_and_one_refused() {
    for kind in [b'F', b'A'] {
        let deepest = nested(TABLE_DEPTH_MAX, kind);
        assert!(RawTable::validate(&deepest).is_ok());
        let too_deep = nested(TABLE_DEPTH_MAX + 1, kind);
        let refused = RawTable::validate(&too_deep);
        assert_eq!(refused, Err(DecodeError::TableDepth));
        let far_too_deep = nested(20_000, kind);
        let refused = RawTable::validate(&far_too_deep);
        assert_eq!(refused, Err(DecodeError::TableDepth));
    }
}

#[test]
fn entries_count_across_all_levels() {
    for (within, accepted) in [(TABLE_ENTRIES_MAX - 1, true), (TABLE_ENTRIES_MAX, false)] {
        // One array in the table, and the rest of the entries in the array.
        let mut entries = vec![0, b'A'];
        wire::put_long_string(&mut entries, &vec![b'V'; within]);
        assert_eq!(RawTable::validate(&entries).is_ok(), accepted, "{within}");
        let flat = [0, b'V'].repeat(within + 1);
        assert_eq!(RawTable::validate(&flat).is_ok(), accepted, "{within}");
    }
    let refused = RawTable::validate(&[0, b'V'].repeat(65_000)).err();
    assert_eq!(refused, Some(DecodeError::TableEntries));
}

#[test]
fn every_type_is_read_as_rabbitmq_reads_it() {
    let cases: &[(&[u8], FieldValue)] = &[
        (b"t\x02", FieldValue::Bool(true)),
        (b"t\x00", FieldValue::Bool(false)),
        (b"b\xFF", FieldValue::I8(-1)),
        (b"B\xFF", FieldValue::U8(255)),
        (b"s\xFF\xFE", FieldValue::I16(-2)),
        (b"u\xFF\xFE", FieldValue::U16(65534)),
        (b"I\xFF\xFF\xFF\xFD", FieldValue::I32(-3)),
        (b"i\xFF\xFF\xFF\xFD", FieldValue::U32(4_294_967_293)),
        (b"l\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFC", FieldValue::I64(-4)),
        (b"L\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFC", FieldValue::I64(-4)),
        (b"f\x3F\xC0\x00\x00", FieldValue::F32(1.5)),
        (b"d\x3F\xF8\x00\x00\x00\x00\x00\x00", FieldValue::F64(1.5)),
        (
            b"D\xFF\x00\x00\x00\x07",
            FieldValue::Decimal {
                scale: 255,
                value: 7,
            },
        ),
        (
            b"S\x00\x00\x00\x02\xFF\x00",
            FieldValue::LongString(vec![255, 0]),
        ),
        (b"x\x00\x00\x00\x01a", FieldValue::Bytes(b"a".to_vec())),
        (
            b"T\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
            FieldValue::Timestamp(u64::MAX),
        ),
        (
            b"A\x00\x00\x00\x03Vt\x01",
            FieldValue::Array(vec![FieldValue::Void, FieldValue::Bool(true)]),
        ),
        (
            b"F\x00\x00\x00\x03\x01kV",
            FieldValue::Table([("k", FieldValue::Void)].into()),
        ),
        (b"V", FieldValue::Void),
    ];
    for (bytes, value) in cases {
        let mut entries = b"\x04name".to_vec();
        entries.extend_from_slice(bytes);
        let table = RawTable::validate(&entries).unwrap();
        assert_eq!(table.to_table().get("name"), Some(value));
        let mut again = Vec::new();
        encode_entries(&mut again, &table.to_table());
        let canonical = bytes[0] != b'L' && *bytes != b"t\x02";
        assert_eq!(again == entries, canonical, "{bytes:?}");
        for cut in 1..entries.len() {
            let cut = RawTable::validate(&entries[..cut]);
            assert_eq!(cut, Err(DecodeError::TableTruncated), "{bytes:?}");
        }
    }
}

#[test]
fn no_other_type_exists() {
    for kind in 0..=255_u8 {
        let mut entries = vec![0, kind];
        entries.extend([0; 8]);
        let found = RawTable::validate(&entries);
        let known = b"tbBsuIilLfdDSATFVx".contains(&kind);
        assert_eq!(found == Err(DecodeError::TableType(kind)), !known, "{kind}");
    }
}

#[test]
fn an_inner_table_may_not_reach_beyond_its_own_end() {
    // The inner table says it has two octets; its only entry needs four, which the outer table
    // would have.
    let entries = b"\x01aF\x00\x00\x00\x02\x01bt\x01";
    let refused = RawTable::validate(entries);
    assert_eq!(refused, Err(DecodeError::TableTruncated));
}

#[test]
fn of_two_entries_of_a_name_the_first_is_found() {
    let mut builder = TableBuilder::new();
    builder.push("k", &FieldValue::U8(1));
    builder.push("k", &FieldValue::U8(2));
    let table = builder.as_table();
    assert_eq!(table.get(b"k"), Some(RawValue::U8(1)));
    assert_eq!(table.to_table().get("k"), Some(&FieldValue::U8(1)));
    assert_eq!(table.get(b"other"), None);
}

#[test]
fn a_copy_leaves_out_what_it_shall_and_keeps_the_rest_to_the_octet() {
    let original = b"\x03BCCA\x00\x00\x00\x00\x01\xFFL\x00\x00\x00\x00\x00\x00\x00\x01\x01bt\x05";
    let table = RawTable::validate(original).unwrap();
    let mut copy = TableBuilder::copy_of(table, &["BCC", "absent"]);
    assert_eq!(copy.as_table().as_bytes(), &original[9..]);
    copy.push("n", &FieldValue::Void);
    assert_eq!(copy.as_table().iter().count(), 3);
    assert!(RawTable::validate(copy.as_table().as_bytes()).is_ok());
}

#[test]
fn random_tables_survive_the_way_there_and_back() {
    for seed in 1..500 {
        let table = Random::new(seed).table(4);
        let builder = TableBuilder::from(&table);
        let raw = RawTable::validate(builder.as_table().as_bytes()).unwrap();
        assert_eq!(raw.to_table(), table);
        assert_eq!(raw.iter().count(), table.len());
        for (entry, (name, value)) in raw.iter().zip(table.iter()) {
            assert_eq!(entry.name, name.as_bytes());
            assert_eq!(entry.value.as_integer(), value.as_integer());
            let first = raw.get(entry.name).map(RawValue::to_value);
            assert_eq!(first.as_ref(), table.get(name));
        }
    }
}
