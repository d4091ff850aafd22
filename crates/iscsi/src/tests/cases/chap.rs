//! What is wrong with CHAP (12.1.3).

use super::{Cases, State, login_request, login_wire, names, with_secret};

/// MD5 of the identifier, a secret and the challenge that the session has sent: zeroes, as nothing here is random.
fn response(id: u8, secret: &[u8], challenge: &[u8]) -> String {
    let digest = openssl::hash::hash(openssl::hash::MessageDigest::md5(), &[&[id][..], secret, challenge].concat()).expect("MD5");
    format!("0x{}", digest.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

pub(super) fn cases(c: &mut Cases) {
    const FAILED: &str = "Login Response 0201h; closed";
    const SECTION: &str = "12.1.3";
    let text = |stages: (u8, Option<u8>), text: String| move |rig: &mut super::Rig| login_wire(rig, login_request(stages), &text);
    let right = response(0, b"secret-of-12", &[0; 32]);
    let own = format!("CHAP_N=me\0CHAP_R={right}\0");

    // Without proving anything.
    let first = |stages: (u8, Option<u8>), keys: &'static str| {
        move |rig: &mut super::Rig| {
            *rig = with_secret();
            login_wire(rig, login_request(stages), &format!("{}{keys}", names()))
        }
    };
    c.add("a host with a secret goes straight to the operational stage", "6.3.1", State::Fresh, first((1, Some(3)), ""), FAILED);
    c.add("a host with a secret goes straight through", "6.3.1", State::Fresh, first((0, Some(3)), ""), FAILED);
    c.add("a host with a secret offers AuthMethod=None only", "12.1", State::Fresh, first((0, Some(1)), "AuthMethod=None\0"), FAILED);
    c.add("CHAP_A before a method was agreed on", SECTION, State::Fresh, first((0, None), "CHAP_A=5\0"), FAILED);
    c.add("an answer before a method was agreed on", SECTION, State::Fresh, first((0, None), "CHAP_N=me\0CHAP_R=0x00\0"), FAILED);
    let none = "Login Response 0000h";
    c.add("on to the next stage without CHAP_A", SECTION, State::Chap, text((0, Some(1)), String::new()), none);
    c.add("on to the next stage without an answer", SECTION, State::Challenged, text((0, Some(1)), String::new()), none);
    c.add(
        "the operational stage without an answer",
        "6.3.3",
        State::Challenged,
        text((1, None), String::new()),
        "Login Response 020Bh; closed",
    );

    // The algorithm.
    for list in ["6", "1,2,8", "", "MD5", "05"] {
        let shown = if list.is_empty() { "(empty)" } else { list };
        c.add(format!("CHAP_A={shown}"), SECTION, State::Chap, text((0, None), format!("CHAP_A={list}\0")), FAILED);
    }
    let sha256 = format!("Login Response 0000h: CHAP_A=7 CHAP_I=0 CHAP_C=0x{}", "00".repeat(32));
    c.add("CHAP_A=6,7,5", SECTION, State::Chap, text((0, None), "CHAP_A=6,7,5\0".into()), sha256);
    c.add("CHAP_A again", SECTION, State::Challenged, text((0, None), "CHAP_A=5\0".into()), FAILED);
    c.add("an answer without a challenge", SECTION, State::Chap, text((0, None), own.clone()), FAILED);

    // The answer.
    let answers: [(&str, String, &str); 15] = [
        ("right", own.clone(), "Login Response 0000h"),
        ("of another user", format!("CHAP_N=you\0CHAP_R={right}\0"), FAILED),
        ("with another secret", format!("CHAP_N=me\0CHAP_R={}\0", response(0, b"secret-of-13", &[0; 32])), FAILED),
        ("for another challenge", format!("CHAP_N=me\0CHAP_R={}\0", response(0, b"secret-of-12", &[1; 32])), FAILED),
        ("for another identifier", format!("CHAP_N=me\0CHAP_R={}\0", response(1, b"secret-of-12", &[0; 32])), FAILED),
        ("without CHAP_R", "CHAP_N=me\0".into(), FAILED),
        ("without CHAP_N", format!("CHAP_R={right}\0"), FAILED),
        ("cut off", format!("CHAP_N=me\0CHAP_R={}\0", &right[..32]), FAILED),
        ("that is longer", format!("CHAP_N=me\0CHAP_R={right}00\0"), FAILED),
        ("with half a byte", format!("CHAP_N=me\0CHAP_R={right}0\0"), FAILED),
        ("without digits", "CHAP_N=me\0CHAP_R=0x\0".into(), FAILED),
        ("in base64 that is none", "CHAP_N=me\0CHAP_R=0b!!!!\0".into(), FAILED),
        ("that is text", "CHAP_N=me\0CHAP_R=secret-of-12\0".into(), FAILED),
        ("with CHAP_I alone", format!("{own}CHAP_I=1\0"), FAILED),
        ("with CHAP_C alone", format!("{own}CHAP_C=0x0102\0"), FAILED),
    ];
    for (name, keys, want) in answers {
        c.add(format!("an answer {name}"), SECTION, State::Challenged, text((0, None), keys), want);
    }

    // Mutual.
    let proof = format!("Login Response 0000h: CHAP_N=storage CHAP_R={}", response(7, b"another-secret", &[1, 2]));
    let mutual: [(&str, String, String); 8] = [
        ("right", format!("{own}CHAP_I=7\0CHAP_C=0x0102\0"), proof),
        ("before the host has proved itself", "CHAP_I=7\0CHAP_C=0x0102\0".into(), FAILED.into()),
        ("by a host with another secret", "CHAP_N=me\0CHAP_R=0x00\0CHAP_I=7\0CHAP_C=0x0102\0".into(), FAILED.into()),
        ("with the target's own challenge", format!("{own}CHAP_I=7\0CHAP_C=0x{}\0", "00".repeat(32)), FAILED.into()),
        ("with an empty challenge", format!("{own}CHAP_I=7\0CHAP_C=0x\0"), FAILED.into()),
        ("with a challenge of 1025 bytes", format!("{own}CHAP_I=7\0CHAP_C=0x{}\0", "01".repeat(1025)), FAILED.into()),
        ("with identifier 256", format!("{own}CHAP_I=256\0CHAP_C=0x0102\0"), FAILED.into()),
        ("with an identifier that is none", format!("{own}CHAP_I=x\0CHAP_C=0x0102\0"), FAILED.into()),
    ];
    for (name, keys, want) in mutual {
        c.add(format!("mutual, {name}"), SECTION, State::Challenged, text((0, None), keys), want);
    }
    let none_here = move |rig: &mut super::Rig| {
        *rig = with_secret();
        let known = rig.view.hosts.values_mut().next().expect("the host");
        known.credentials = known.credentials.as_deref().map(|c| std::sync::Arc::new(crate::Credentials { target: None, ..c.clone() }));
        super::step(rig, (0, None), &format!("{}AuthMethod=CHAP\0", names()));
        super::step(rig, (0, None), "CHAP_A=5\0");
        login_wire(rig, login_request((0, None)), &format!("{own}CHAP_I=7\0CHAP_C=0x0102\0"))
    };
    c.add("mutual, where targets have no secret", SECTION, State::Fresh, none_here, FAILED);
    let later = text((0, None), "CHAP_N=me\0CHAP_R=0x00\0".into());
    let twice = move |rig: &mut super::Rig| {
        super::step(rig, (0, None), &format!("CHAP_N=me\0CHAP_R={right}\0"));
        later(rig)
    };
    c.add("a second answer", SECTION, State::Challenged, twice, FAILED);
    let operational = text((1, None), "CHAP_A=5\0".into());
    c.add("CHAP_A in the operational stage", "12", State::Operational, operational, FAILED);
}
