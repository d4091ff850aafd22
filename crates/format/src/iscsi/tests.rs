use super::*;
use proptest::prelude::*;

fn header(bytes: &[(usize, &[u8])]) -> Header {
    let mut b = [0; HEADER_BYTES];
    for (at, v) in bytes {
        b[*at..at + v.len()].copy_from_slice(v);
    }
    b
}

#[test]
fn a_command_is_laid_out_as_section_11_3_says() {
    let command = ScsiCommand {
        last: true,
        read: true,
        attribute: 1,
        lun: [0, 5, 0, 0, 0, 0, 0, 0],
        tag: 0x0102_0304,
        expected_bytes: 4096,
        cmd_sn: 7,
        exp_stat_sn: 9,
        cdb: [0x28, 0, 0, 0, 0, 8, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0],
        ..ScsiCommand::default()
    };
    let want = header(&[
        (0, &[0x01, 0xC1]),
        (9, &[5]),
        (16, &[1, 2, 3, 4, 0, 0, 0x10, 0, 0, 0, 0, 7, 0, 0, 0, 9]),
        (32, &[0x28, 0, 0, 0, 0, 8, 0, 0, 8]),
    ]);
    assert_eq!(command.to_header(0), want);
    assert_eq!(HostPdu::parse(&want), Ok(HostPdu::Command(command)));
}

#[test]
fn a_login_request_is_laid_out_as_section_11_12_says() {
    let want = header(&[
        (0, &[0x43, 0x87, 0, 0, 0, 0, 1, 2]),
        (8, &[0x40, 1, 2, 3, 4, 5, 0x0A, 0x0B]),
        (16, &[0, 0, 0, 1, 0, 2]),
        (24, &[0, 0, 0, 3, 0, 0, 0, 4]),
    ]);
    let login = LoginRequest {
        transit: true,
        stage: 1,
        next: 3,
        isid: [0x40, 1, 2, 3, 4, 5],
        tsih: 0x0A0B,
        tag: 1,
        cid: 2,
        cmd_sn: 3,
        exp_stat_sn: 4,
        ..LoginRequest::default()
    };
    assert_eq!(HostPdu::parse(&want), Ok(HostPdu::Login(login)));
    let parts = Parts::parse(&want);
    assert_eq!(parts, Parts { opcode: 3, immediate: true, ahs_bytes: 0, data_bytes: 258 });
    assert_eq!((parts.head_bytes(false), parts.head_bytes(true)), (48, 52));
    assert_eq!((parts.body_bytes(false), parts.body_bytes(true)), (260, 264));
}

#[test]
fn what_a_target_sends_is_laid_out_as_section_11_says() {
    let data = DataIn {
        last: true,
        has_status: true,
        underflow: true,
        tag: 1,
        transfer_tag: NO_TAG,
        data_sn: 2,
        offset: 3,
        residual: 4,
        ..DataIn::default()
    };
    let want = header(&[(0, &[0x25, 0x83, 0, 0, 0, 0, 0, 5]), (19, &[1]), (20, &[0xFF; 4]), (39, &[2, 0, 0, 0, 3, 0, 0, 0, 4])]);
    assert_eq!(data.to_header(5), want);
    let r2t = ReadyToTransfer { tag: 1, transfer_tag: 2, r2t_sn: 3, offset: 4, bytes: 5, ..ReadyToTransfer::default() };
    assert_eq!(r2t.to_header(0), header(&[(0, &[0x31, 0x80]), (19, &[1, 0, 0, 0, 2]), (39, &[3, 0, 0, 0, 4, 0, 0, 0, 5])]));
    let login = LoginResponse { transit: true, stage: 1, next: 3, tsih: 9, status: 0x0203, ..LoginResponse::default() };
    assert_eq!(login.to_header(0), header(&[(0, &[0x23, 0x87]), (15, &[9]), (36, &[2, 3])]));
    let response = ScsiResponse { status: 2, overflow: true, residual: 6, ..ScsiResponse::default() };
    assert_eq!(response.to_header(20), header(&[(0, &[0x21, 0x84, 0, 2, 0, 0, 0, 20]), (47, &[6])]));
}

#[test]
fn an_operation_code_of_the_other_direction_is_refused() {
    assert_eq!(HostPdu::parse(&header(&[(0, &[0x25])])), Err(Malformed { opcode: 0x25 }));
    assert_eq!(TargetPdu::parse(&header(&[(0, &[0x05])])), Err(Malformed { opcode: 0x05 }));
}

#[test]
fn text_is_pairs_that_end_with_zero() {
    let mut out = Vec::new();
    push_pair(&mut out, "InitiatorName", "iqn.2026-11.example:a");
    push_pair(&mut out, "X", "");
    assert_eq!(out, b"InitiatorName=iqn.2026-11.example:a\0X=\0");
    assert_eq!(parse_pairs(&out).unwrap(), [("InitiatorName", "iqn.2026-11.example:a"), ("X", "")]);
    assert_eq!(parse_pairs(b"A=b=c\0\0\0").unwrap(), [("A", "b=c")], "padding");
    assert_eq!(parse_pairs(b"A=b").unwrap(), [("A", "b")], "the last zero is missing");
}

#[test]
fn text_that_is_none_is_refused_and_all_of_it_is_bounded() {
    assert_eq!(parse_pairs(b"A\0"), Err(TextError::NoValue));
    assert_eq!(parse_pairs(b"=a\0"), Err(TextError::BadKey));
    assert_eq!(parse_pairs(b"A b=a\0"), Err(TextError::BadKey));
    assert_eq!(parse_pairs(b"A=\xFF\0"), Err(TextError::NotText));
    let long = ["A".repeat(KEY_BYTES_MAX + 1), "=a\0".into()].concat();
    assert_eq!(parse_pairs(long.as_bytes()), Err(TextError::BadKey));
    let long = ["A=".into(), "a".repeat(VALUE_BYTES_MAX + 1)].concat();
    assert_eq!(parse_pairs(long.as_bytes()), Err(TextError::LongValue));
    assert_eq!(parse_pairs("A=b\0".repeat(PAIRS_MAX).as_bytes()).unwrap().len(), PAIRS_MAX);
    assert_eq!(parse_pairs("A=b\0".repeat(PAIRS_MAX + 1).as_bytes()), Err(TextError::TooMany));
}

proptest! {
    #[test]
    fn any_header_parses_or_not_and_is_built_to_one_that_parses_to_the_same(b in any::<[u8; HEADER_BYTES]>(), data in 0usize..1 << 24) {
        if let Ok(pdu) = HostPdu::parse(&b) {
            prop_assert_eq!(HostPdu::parse(&pdu.to_header(data)), Ok(pdu));
            prop_assert_eq!(Parts::parse(&pdu.to_header(data)).data_bytes, data);
        }
        if let Ok(pdu) = TargetPdu::parse(&b) {
            prop_assert_eq!(TargetPdu::parse(&pdu.to_header(data)), Ok(pdu));
        }
        let parts = Parts::parse(&b);
        prop_assert!(parts.ahs_bytes <= AHS_BYTES_MAX && parts.data_bytes < 1 << 24);
        prop_assert_eq!(parts.body_bytes(false) % 4, 0);
    }

    #[test]
    fn any_text_parses_or_not_and_is_built_to_the_same(b in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(pairs) = parse_pairs(&b) {
            let mut out = Vec::new();
            pairs.iter().for_each(|(k, v)| push_pair(&mut out, k, v));
            prop_assert_eq!(parse_pairs(&out), Ok(pairs));
        }
    }
}
