use super::*;
use crate::chap::TargetProof;

const HOST: &str = "InitiatorName=iqn.2026-11.example:host\0";
const TARGET: &str = "TargetName=iqn.2026-11.io.basalt:test\0";

fn request(stage: u8, next: Option<u8>) -> LoginRequest {
    LoginRequest { transit: next.is_some(), stage, next: next.unwrap_or(0), isid: [1; 6], tag: 1, ..LoginRequest::default() }
}
fn take(login: &mut Login, request: &LoginRequest, text: &str) -> (LoginResponse, String, Step) {
    let (response, out, step) =
        login.take(request, text.as_bytes(), &mut Door { admit: &mut |_| Ok(None), join: &of_none, portal_group: 3, random: &mut |_| {} });
    (response, String::from_utf8(out).unwrap(), step)
}
fn of_none(_: &Who) -> Result<Params, Refusal> {
    Err(refuse(status::NO_SESSION, "there is none"))
}
fn status_of(request: &LoginRequest, text: &str) -> u16 {
    take(&mut Login::default(), request, text).0.status
}

#[test]
fn a_login_goes_through_both_stages_and_declares_what_this_end_takes() {
    let mut login = Login::default();
    let (response, text, step) =
        take(&mut login, &request(0, Some(1)), &format!("{HOST}{TARGET}SessionType=Normal\0AuthMethod=CHAP,None\0"));
    assert_eq!((response.status, response.transit, response.next, step), (0, true, 1, Step::GoesOn));
    assert_eq!(text, "AuthMethod=None\0TargetPortalGroupTag=3\0");
    let (response, text, step) = take(&mut login, &request(1, Some(3)), "HeaderDigest=CRC32C\0InitialR2T=No\0");
    assert_eq!((response.status, response.transit, response.next, step), (0, true, 3, Step::Done));
    assert_eq!(text, "HeaderDigest=CRC32C\0InitialR2T=No\0MaxRecvDataSegmentLength=262144\0");
    assert!(login.params().header_digest && !login.params().initial_r2t);
    assert_eq!(login.who().host, "iqn.2026-11.example:host");
}

#[test]
fn text_of_several_requests_is_one_text() {
    let mut login = Login::default();
    let more = LoginRequest { more: true, ..request(1, None) };
    let (response, text, step) = take(&mut login, &more, &HOST[..20]);
    assert_eq!((response.status, response.transit, text.as_str(), step), (0, false, "", Step::GoesOn));
    let (response, _, step) = take(&mut login, &request(1, Some(3)), &format!("{}{TARGET}", &HOST[20..]));
    assert_eq!((response.status, step), (0, Step::Done));
}

#[test]
fn what_is_wrong_with_a_login_is_said_by_its_status() {
    let both = format!("{HOST}{TARGET}");
    assert_eq!(status_of(&request(1, Some(3)), TARGET), status::MISSING);
    assert_eq!(status_of(&request(1, Some(3)), HOST), status::MISSING);
    assert_eq!(status_of(&request(1, Some(3)), &format!("{HOST}SessionType=Discovery\0")), status::SUCCESS);
    assert_eq!(status_of(&request(1, Some(3)), &format!("{both}SessionType=Other\0")), status::SESSION_TYPE);
    assert_eq!(status_of(&request(0, Some(1)), &format!("{both}AuthMethod=KRB5\0")), status::AUTHENTICATION_FAILED);
    assert_eq!(status_of(&request(1, Some(3)), &format!("{both}X=1\0X=1\0")), status::HOST_ERROR);
    assert_eq!(status_of(&request(1, Some(3)), &format!("{both}nothing\0")), status::HOST_ERROR);
    assert_eq!(status_of(&request(1, Some(1)), &both), status::INVALID);
    assert_eq!(status_of(&request(2, Some(3)), &both), status::INVALID);
    assert_eq!(status_of(&request(0, Some(2)), &both), status::INVALID);
    assert_eq!(status_of(&LoginRequest { tsih: 5, ..request(1, Some(3)) }, &both), status::NO_SESSION);
    assert_eq!(status_of(&LoginRequest { version_min: 1, ..request(1, Some(3)) }, &both), status::VERSION);
    let refused = Login::default().take(
        &request(1, Some(3)),
        both.as_bytes(),
        &mut Door { admit: &mut |_| Err(refuse(status::FORBIDDEN, "no")), join: &of_none, portal_group: 3, random: &mut |_| {} },
    );
    assert_eq!((refused.0.status, refused.2), (status::FORBIDDEN, Step::Refused("no")));
}

#[test]
fn a_login_is_bounded_and_stays_who_it_was() {
    let mut login = Login::default();
    take(&mut login, &request(1, None), &format!("{HOST}{TARGET}"));
    assert_eq!(take(&mut login, &request(1, None), "InitiatorName=iqn.2026-11.example:other\0").0.status, status::INVALID);
    let mut login = Login::default();
    take(&mut login, &request(1, None), &format!("{HOST}{TARGET}"));
    let other = LoginRequest { isid: [2; 6], ..request(1, None) };
    assert_eq!(take(&mut login, &other, "").0.status, status::INVALID);
    let mut login = Login::default();
    let more = LoginRequest { more: true, ..request(1, None) };
    let long = "A".repeat(8192);
    assert_eq!(take(&mut login, &more, &long).0.status, status::SUCCESS);
    assert_eq!(take(&mut login, &more, &long).0.status, status::SUCCESS);
    assert_eq!(take(&mut login, &more, &long).0.status, status::INVALID, "too much text");
    let mut login = Login::default();
    let last = (0..=LOGIN_PDUS_MAX).map(|_| take(&mut login, &more, "").0.status).last();
    assert_eq!(last, Some(status::INVALID), "too many PDUs");
}

/// One request of a host that has a secret.
fn with_secret(login: &mut Login, request: &LoginRequest, text: &str) -> (LoginResponse, String, Step) {
    with_secrets(login, request, text, &None)
}
/// The same where the target has one too.
fn with_secrets(login: &mut Login, request: &LoginRequest, text: &str, target: &Option<TargetProof>) -> (LoginResponse, String, Step) {
    let secret = base::SecretBytes::new(b"secret-of-12".to_vec());
    let of = Arc::new(Credentials { user: "me".into(), secret, target: target.clone() });
    let mut door = Door { admit: &mut |_| Ok(Some(Arc::clone(&of))), join: &of_none, portal_group: 3, random: &mut |out| out.fill(9) };
    let (response, out, step) = login.take(request, text.as_bytes(), &mut door);
    (response, String::from_utf8(out).unwrap(), step)
}

#[test]
fn a_host_with_a_secret_gets_in_by_proving_it_and_not_otherwise() {
    let both = format!("{HOST}{TARGET}");
    let challenged = |last: &str| {
        let mut login = Login::default();
        let (response, text, _) = with_secret(&mut login, &request(0, Some(1)), &format!("{both}AuthMethod=CHAP,None\0"));
        assert_eq!((response.status, response.transit), (0, false), "not yet");
        assert_eq!(text, "AuthMethod=CHAP\0TargetPortalGroupTag=3\0");
        let (response, text, _) = with_secret(&mut login, &request(0, None), "CHAP_A=5\0");
        assert_eq!((response.status, text), (0, format!("CHAP_A=5\0CHAP_I=9\0CHAP_C=0x{}\0", "09".repeat(32))));
        let (response, _, step) = with_secret(&mut login, &request(0, Some(1)), last);
        (response.status, response.transit, step, login.has_proved())
    };
    let bytes = [&[9][..], b"secret-of-12", &[9; 32]].concat();
    let digest = openssl::hash::hash(openssl::hash::MessageDigest::md5(), &bytes).unwrap();
    let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(challenged(&format!("CHAP_N=me\0CHAP_R=0x{hex}\0")), (0, true, Step::GoesOn, true));
    for wrong in [
        format!("CHAP_N=you\0CHAP_R=0x{hex}\0"),
        "CHAP_N=me\0CHAP_R=0x00\0".into(),
        format!("CHAP_N=me\0CHAP_R=0x{hex}\0CHAP_I=1\0CHAP_C=0x00\0"),
    ] {
        assert_eq!(challenged(&wrong).0, status::AUTHENTICATION_FAILED, "{wrong}");
    }
    assert!(!challenged("").1, "without an answer it does not get further");
    let first = |request: &LoginRequest, keys: &str| with_secret(&mut Login::default(), request, &format!("{both}{keys}")).0.status;
    assert_eq!(first(&request(1, Some(3)), ""), status::AUTHENTICATION_FAILED, "straight to the operational stage");
    assert_eq!(first(&request(0, Some(3)), ""), status::AUTHENTICATION_FAILED, "straight through");
    assert_eq!(first(&request(0, Some(1)), "AuthMethod=None\0"), status::AUTHENTICATION_FAILED);
    assert_eq!(first(&request(0, Some(1)), "CHAP_A=5\0"), status::AUTHENTICATION_FAILED, "no method was agreed");
    assert_eq!(first(&request(0, Some(1)), "CHAP_N=me\0CHAP_R=0x00\0"), status::AUTHENTICATION_FAILED, "no challenge was sent");
}

/// MD5 of an identifier, a secret and a challenge, as CHAP_R has it.
fn md5(id: u8, secret: &[u8], challenge: &[u8]) -> String {
    let digest = openssl::hash::hash(openssl::hash::MessageDigest::md5(), &[&[id][..], secret, challenge].concat()).unwrap();
    format!("0x{}", digest.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

#[test]
fn a_target_proves_itself_to_a_host_that_has_proved_who_it_is() {
    let proof = Some(TargetProof { user: "storage".into(), secret: base::SecretBytes::new(b"another-secret".to_vec()) });
    let answered = |last: &str, proof: &Option<TargetProof>| {
        let mut login = Login::default();
        with_secrets(&mut login, &request(0, None), &format!("{HOST}{TARGET}AuthMethod=CHAP\0"), proof);
        with_secrets(&mut login, &request(0, None), "CHAP_A=5\0", proof);
        let (response, text, _) = with_secrets(&mut login, &request(0, Some(1)), last, proof);
        (response.status, text)
    };
    let own = md5(9, b"secret-of-12", &[9; 32]);
    let right = format!("CHAP_N=me\0CHAP_R={own}\0CHAP_I=7\0CHAP_C=0x0102\0");
    let want = format!("CHAP_N=storage\0CHAP_R={}\0", md5(7, b"another-secret", &[1, 2]));
    assert_eq!(answered(&right, &proof), (status::SUCCESS, want));
    assert_eq!(answered(&format!("CHAP_N=me\0CHAP_R={own}\0"), &proof), (status::SUCCESS, String::new()), "it does not ask");
    let failed = (status::AUTHENTICATION_FAILED, String::new());
    assert_eq!(answered(&right, &None), failed, "the target has no secret");
    let reflected = format!("CHAP_N=me\0CHAP_R={own}\0CHAP_I=9\0CHAP_C=0x{}\0", "09".repeat(32));
    for wrong in [
        right.replace(&own, "0x00"),
        right.replace("CHAP_I=7\0", ""),
        right.replace("CHAP_C=0x0102\0", ""),
        right.replace("CHAP_I=7", "CHAP_I=256"),
        "CHAP_I=7\0CHAP_C=0x0102\0".into(),
        reflected,
    ] {
        assert_eq!(answered(&wrong, &proof), failed, "{wrong}");
    }
}
