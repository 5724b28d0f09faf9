//! Keys for a trial: an authority and a certificate for each name. Organizations bring
//! their own.

use rankfold::{Error, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest name.
const LONGEST: usize = 63;

/// An error where this cannot be the name of an agent: names stand in certificates as names
/// of hosts do.
pub fn check_name(name: &str) -> Result<()> {
    let sound = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let fits = name.len() <= LONGEST
        && name.chars().all(sound)
        && ends(name.chars().next())
        && ends(name.chars().next_back())
        && !name.contains("..");
    // A number would be taken for an address.
    match fits && name.parse::<std::net::IpAddr>().is_err() {
        true => Ok(()),
        false => Err(Error::input(format!(
            "`{name}` is no name of an agent: expected up to {LONGEST} letters, digits, `-`, `_` \
             and `.`, with a letter or digit at both ends"
        ))),
    }
}

/// The files that belong to a name.
pub fn files(folder: &Path, name: &str) -> [PathBuf; 2] {
    [
        folder.join(format!("{name}.pem")),
        folder.join(format!("{name}.key")),
    ]
}

/// Makes an authority in a folder, unless it is there, and a certificate and a key for each
/// name. The certificates hold for so many days.
pub fn make(folder: &Path, names: &[String], days: u32) -> Result<Vec<PathBuf>> {
    let mut distinct: Vec<String> = names.iter().map(|n| n.to_ascii_lowercase()).collect();
    distinct.sort();
    if let Some(twice) = distinct.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::input(format!(
            "the name `{}` is given twice",
            twice[0]
        )));
    }
    for name in names {
        check_name(name)?;
        if name.eq_ignore_ascii_case("authority") {
            return Err(Error::input(
                "`authority` is the name of the authority itself",
            ));
        }
        if let Some(there) = files(folder, name).iter().find(|path| path.exists()) {
            let message = "is there already, and keys are not replaced";
            return Err(Error::input(message).in_file(there));
        }
    }
    fs::create_dir_all(folder).map_err(|e| Error::writing(folder, &e))?;
    let mut written = Vec::new();
    let [certificate, key] = files(folder, "authority");
    let authority = match (certificate.exists(), key.exists()) {
        (true, true) => {
            let text = fs::read_to_string(&key).map_err(|e| Error::reading(&key, &e))?;
            KeyPair::from_pem(&text).map_err(|e| failed(&e).in_file(&key))?
        }
        (false, false) => {
            let pair = KeyPair::generate().map_err(|e| failed(&e))?;
            let signed = authority_params(days).self_signed(&pair);
            let signed = signed.map_err(|e| failed(&e))?;
            write(&certificate, &signed.pem(), false)?;
            write(&key, &pair.serialize_pem(), true)?;
            written.extend([certificate, key]);
            pair
        }
        _ => {
            let message = "an authority needs both `authority.pem` and `authority.key`";
            return Err(Error::input(message).in_file(folder));
        }
    };
    let params = authority_params(days);
    let issuer = Issuer::from_params(&params, &authority);
    for name in names {
        let pair = KeyPair::generate().map_err(|e| failed(&e))?;
        let params = params_of(name, days).map_err(|e| failed(&e))?;
        let signed = params.signed_by(&pair, &issuer).map_err(|e| failed(&e))?;
        let [certificate, key] = files(folder, name);
        write(&certificate, &signed.pem(), false)?;
        write(&key, &pair.serialize_pem(), true)?;
        written.extend([certificate, key]);
    }
    Ok(written)
}

fn failed(error: &rcgen::Error) -> Error {
    Error::failure(format!("no certificate was made: {error}"))
}

fn authority_params(days: u32) -> CertificateParams {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "rankfold trial authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    hold(&mut params, days);
    params
}

fn params_of(name: &str, days: u32) -> std::result::Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // An agent asks and answers.
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.use_authority_key_identifier_extension = true;
    hold(&mut params, days);
    Ok(params)
}

/// Lets certificates hold from yesterday, because clocks differ, for so many days.
fn hold(params: &mut CertificateParams, days: u32) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let today = now.map_or(0, |now| (now.as_secs() / 86_400) as i64);
    let at = |day: i64| {
        let (year, month, day) = civil(day);
        date_time_ymd(year, month, day)
    };
    params.not_before = at(today - 1);
    params.not_after = at(today + i64::from(days) + 1);
}

/// Year, month and day of a day since 1970 [Hinnant 2013].
fn civil(day: i64) -> (i32, u8, u8) {
    let z = day + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let d = doy - (153 * mp + 2) / 5 + 1;
    let m = if mp < 10 { mp + 3 } else { mp - 9 };
    let y = yoe + era * 400 + i64::from(m <= 2);
    (y as i32, m as u8, d as u8)
}

/// A certificate that held in 2020, signed by the authority of a folder.
#[cfg(test)]
pub(crate) fn make_expired(folder: &Path, file: &str) -> Result<()> {
    let [_, key] = files(folder, "authority");
    let text = fs::read_to_string(&key).map_err(|e| Error::reading(&key, &e))?;
    let authority = KeyPair::from_pem(&text).map_err(|e| failed(&e))?;
    let params = authority_params(10);
    let issuer = Issuer::from_params(&params, &authority);
    let pair = KeyPair::generate().map_err(|e| failed(&e))?;
    let mut own = params_of("b", 1).map_err(|e| failed(&e))?;
    own.not_before = date_time_ymd(2020, 1, 1);
    own.not_after = date_time_ymd(2020, 12, 31);
    let signed = own.signed_by(&pair, &issuer).map_err(|e| failed(&e))?;
    let [certificate, key] = files(folder, file);
    write(&certificate, &signed.pem(), false)?;
    write(&key, &pair.serialize_pem(), true)
}

/// Writes a file that was not there; a secret one for its owner only.
fn write(path: &Path, text: &str, secret: bool) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(if secret { 0o600 } else { 0o644 });
    }
    #[cfg(not(unix))]
    let _ = secret;
    let file = options.open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| Error::writing(path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_775), (2026, 11, 18));
    }

    #[test]
    fn names_are_those_of_hosts() {
        for name in ["a", "ward-3", "Clinic_B.example.org", "7"] {
            check_name(name).unwrap();
        }
        for name in [
            "",
            "-a",
            "a b",
            "a/b",
            "a..b",
            "ü",
            "10.0.0.1",
            "a.",
            &"a".repeat(64),
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
