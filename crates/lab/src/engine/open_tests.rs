use super::*;

#[test]
fn a_size_behind_a_path_makes_a_file() {
    assert_eq!(path_and_size("disk.img:10GiB"), ("disk.img".into(), Some(10 << 30)));
    assert_eq!(path_and_size("/dev/disk/by-path/pci-0000:00:04.0"), ("/dev/disk/by-path/pci-0000:00:04.0".into(), None));
    assert_eq!(path_and_size("/dev/nvme0n1"), ("/dev/nvme0n1".into(), None));
}

#[test]
fn a_system_without_disks_is_refused() {
    let e = System::of(Vec::new()).open(false, 1, &Ledgers::default(), &NoModels).err().unwrap().to_string();
    assert!(e.contains("1 to 256 disks"), "{e}");
    let e = System { workers: 0, ..System::of(vec!["x".into()]) }.open(false, 1, &Ledgers::default(), &NoModels).err().unwrap().to_string();
    assert!(e.contains("workers"), "{e}");
}

/// Remembers what it was asked to open.
struct Seen(std::cell::RefCell<Vec<(String, String, u64)>>);

impl Models for Seen {
    fn open(&self, name: &str, model: &toml::Table, seed: u64) -> Result<Box<dyn Engine>, LabError> {
        self.0.borrow_mut().push((name.into(), model.to_string(), seed));
        Err(LabError::Stopped)
    }
}

#[test]
fn a_model_is_opened_by_who_brings_models_and_has_no_disks() {
    let model: toml::Table = toml::from_str("name = \"one\"\ncores = 2\n").unwrap();
    let system = System { simulate: Some(model), ..System::of(Vec::new()) };
    let seen = Seen(Default::default());
    assert!(matches!(system.open(false, 7, &Ledgers::default(), &seen), Err(LabError::Stopped)));
    assert_eq!(seen.0.borrow()[..], [("A".to_owned(), "name = \"one\"\ncores = 2\n".to_owned(), 7)]);
    let e = system.open(false, 7, &Ledgers::default(), &NoModels).err().unwrap().to_string();
    assert!(e.contains("no models"), "{e}");
    let e = System { disks: vec!["x".into()], ..system }.check().unwrap_err().to_string();
    assert!(e.contains("name none"), "{e}");
}

#[test]
fn a_model_keeps_its_form_in_the_configuration_of_a_run() {
    let text = "name = \"A\"\n\n[simulate]\nzone = \"b\"\nname = \"one\"\n\n[simulate.scale]\nsize = 4\nrate = 2\n";
    let system: System = toml::from_str(text).unwrap();
    let kept = toml::to_string(&system).unwrap();
    assert!(kept.contains(&text[text.find("[simulate]").unwrap()..]), "{kept}");
    assert_eq!(toml::from_str::<System>(&kept).unwrap(), system);
}

#[test]
fn addresses_of_this_machine_are_here_and_others_are_not() {
    for disk in
        ["nvme-tcp://127.0.0.1:4420/nqn.x?nsid=1", "nvme-tcp://localhost/nqn.x", "iscsi://[::1]:3260/iqn.x/1", "iscsi://127.5.5.5/iqn.x/1"]
    {
        assert!(is_here(disk) && is_networked(disk), "{disk}");
    }
    // Addresses of documentation (RFC 5737, RFC 3849) are nobody's.
    for disk in ["nvme-tcp://192.0.2.1:4420/nqn.x?nsid=1", "iscsi://[2001:db8::1]:3260/iqn.x/1", "nvme-tcp://2001:db8::1/nqn.x"] {
        assert!(!is_here(disk) && is_networked(disk), "{disk}");
    }
    for disk in ["disk.img", "/dev/null", "/nowhere/disk"] {
        assert!(!is_here(disk) && !is_networked(disk), "{disk}");
    }
    // The address that this machine would use itself, where it has one.
    let own = UdpSocket::bind("0.0.0.0:0").and_then(|s| s.connect("192.0.2.1:9").and_then(|()| s.local_addr()));
    if let Ok(own) = own {
        assert!(is_here(&format!("nvme-tcp://{}:4420/nqn.x", own.ip())), "{own}");
    }
}
