//! Secrets on the command line: read from files or made new, never taken as an argument, which others could see.

use crate::{
    cli::{ChapArgs, DhchapArgs, TlsArgs},
    client::Failure,
};
use auth::{HashId, Secret};
use control::api::types::{ChapChange, DhchapChange, SecretText, TlsPskChange};
use std::{fs::File, io::Read, path::Path};
use tls::{ConfiguredPsk, Hash};
use zeroize::Zeroizing;

/// Bytes of a file with a secret, at most.
const FILE_BYTES_MAX: u64 = 4096;

fn read_text(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let mut text = Zeroizing::new(String::new());
    let done = match path == Path::new("-") {
        true => std::io::stdin().take(FILE_BYTES_MAX).read_to_string(&mut text),
        false => File::open(path).and_then(|f| f.take(FILE_BYTES_MAX).read_to_string(&mut text)),
    };
    done.map_err(|e| Failure::Local(format!("{}: {e}", path.display())))?;
    Ok(text)
}

fn read(path: &Path) -> Result<SecretText, Failure> {
    let text = read_text(path)?;
    let secret = Secret::parse(&text).map_err(|e| Failure::Local(format!("{}: {e}", path.display())))?;
    Ok(SecretText::new(secret.expose().to_string()))
}

fn make(bits: &str) -> Result<Zeroizing<String>, Failure> {
    let hash = match bits {
        "384" => HashId::Sha384,
        "512" => HashId::Sha512,
        _ => HashId::Sha256,
    };
    let mut filled = Ok(());
    let secret = Secret::generate(hash, &mut |out| filled = File::open("/dev/urandom").and_then(|mut f| f.read_exact(out)));
    filled.map_err(|e| Failure::Local(format!("/dev/urandom: {e}")))?;
    Ok(secret.expose())
}

/// What to ask the daemon for, and the secret that was made for it.
pub fn change(args: &DhchapArgs) -> Result<(DhchapChange, Option<Zeroizing<String>>), Failure> {
    let usual = |list: &Option<Vec<String>>| list.clone().map(|l| if l == ["usual"] { Vec::new() } else { l });
    let mut change = DhchapChange {
        secret: args.dhchap_secret_file.as_deref().map(read).transpose()?,
        secret_path: args.dhchap_secret_path.clone(),
        controller_secret: args.dhchap_controller_secret_file.as_deref().map(read).transpose()?,
        controller_secret_path: args.dhchap_controller_secret_path.clone(),
        no_controller_secret: args.no_dhchap_controller,
        hashes: usual(&args.dhchap_hash),
        groups: usual(&args.dhchap_group),
    };
    let mut made = None;
    if args.dhchap_generate || args.dhchap_controller_generate {
        let secret = make(&args.hash)?;
        let text = Some(SecretText::new(secret.to_string()));
        if args.dhchap_generate {
            change.secret = text
        } else {
            change.controller_secret = text
        }
        made = Some(secret);
    }
    Ok((change, made))
}

/// Characters of a new secret for CHAP: as many as all hosts take.
const CHAP_CHARACTERS: usize = 16;

/// What to ask the daemon for, and the secret that was made for it.
pub fn chap_change(args: &ChapArgs) -> Result<(ChapChange, Option<Zeroizing<String>>), Failure> {
    // The daemon says what it takes.
    let text = |path: &Option<std::path::PathBuf>| {
        path.as_ref().map(|path| Ok::<_, Failure>(SecretText::new(read_text(path)?.to_string()))).transpose()
    };
    let mut change = ChapChange {
        user: args.chap_user.clone(),
        secret: text(&args.chap_secret_file)?,
        secret_path: args.chap_secret_path.clone(),
        target_user: args.chap_target_user.clone(),
        target_secret: text(&args.chap_target_secret_file)?,
        target_secret_path: args.chap_target_secret_path.clone(),
        no_target_secret: args.no_chap_target,
    };
    if !args.chap_generate && !args.chap_target_generate {
        return Ok((change, None));
    }
    let mut bytes = Zeroizing::new([0u8; CHAP_CHARACTERS]);
    File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut *bytes)).map_err(|e| Failure::Local(format!("/dev/urandom: {e}")))?;
    // 64 characters, so that each is as likely: 96 bits in all.
    let letters: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '-']).collect();
    let made = Zeroizing::new(bytes.iter().map(|b| letters[usize::from(b % 64)]).collect::<String>());
    let made_text = Some(SecretText::new(made.to_string()));
    if args.chap_generate {
        change.secret = made_text
    } else {
        change.target_secret = made_text
    }
    Ok((change, Some(made)))
}

/// What to ask the daemon for, and the key that was made for it.
pub fn tls_change(args: &TlsArgs, bits: &str) -> Result<(TlsPskChange, Option<Zeroizing<String>>), Failure> {
    let mut change = TlsPskChange { psk: None, psk_path: args.tls_psk_path.clone(), subsystem: args.tls_subsystem.clone() };
    if let Some(path) = &args.tls_psk_file {
        let text = read_text(path)?;
        ConfiguredPsk::parse(&text).map_err(|e| Failure::Local(format!("{}: {e}", path.display())))?;
        change.psk = Some(SecretText::new(text.trim().to_owned()));
    }
    if !args.tls_psk_generate {
        return Ok((change, None));
    }
    let hash = match bits {
        "256" => Hash::Sha256,
        "384" => Hash::Sha384,
        _ => return Err(Failure::Local("a TLS key has 256 or 384 bits: --hash 256 or --hash 384".into())),
    };
    let made = ConfiguredPsk::generate(hash).map_err(|e| Failure::Local(e.to_string()))?;
    let text = Zeroizing::new(String::from_utf8_lossy(&made.to_interchange()).into_owned());
    change.psk = Some(SecretText::new(text.to_string()));
    Ok((change, Some(text)))
}
