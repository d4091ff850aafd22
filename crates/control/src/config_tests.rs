use super::*;

fn error(text: &str) -> String {
    Config::parse(text, "basalt.toml").unwrap_err().to_string()
}

#[test]
fn the_shortest_file_has_sensible_defaults() {
    let config = Config::parse("data_dir = '/var/lib/basalt'", "x").unwrap();
    assert_eq!(config.api_socket(), Path::new("/var/lib/basalt/api.sock"));
    assert_eq!(config.api.socket_mode, 0o600);
    let addresses: Vec<String> = config.listeners.iter().map(|l| l.address().to_string()).collect();
    assert_eq!(addresses, ["0.0.0.0:4420", "0.0.0.0:8009"]);
    assert_eq!((config.store.destage_low_percent, config.store.destage_high_percent), (30, 70));
}

#[test]
fn the_example_in_packaging_is_valid_and_shows_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/basalt.toml");
    let example = Config::load(&path).unwrap();
    let default = Config::parse(&format!("data_dir = {:?}", example.data_dir), "x").unwrap();
    assert_eq!(example.listeners, default.listeners);
    assert_eq!(example.log, default.log);
    assert_eq!(example.store, default.store);
    assert_eq!((&example.target, &example.referrals), (&default.target, &default.referrals));
    // every commented key is one that is known
    let all: String = std::fs::read_to_string(&path)
        .unwrap()
        .lines()
        .map(|l| l.strip_prefix('#').filter(|rest| rest.contains(" = ") && !rest.starts_with(' ')).unwrap_or(l))
        .fold(String::new(), |text, line| text + line + "\n");
    Config::parse(&all, "basalt.toml with all keys").unwrap();
}

#[test]
fn an_unknown_key_is_reported_with_line_and_column() {
    assert_eq!(
        error("data_dir = '/d'\n[api]\nsocket = '/s'\n  sokcet_mode = '0600'\n"),
        "basalt.toml:4:3: unknown key 'sokcet_mode'; remove it or correct its spelling (known here: 'socket', 'socket_mode', 'listen', \
         'token_file')"
    );
}

#[test]
fn wrong_values_are_reported_where_they_stand() {
    for (text, place, words) in [
        ("data_dir = 7", "1:12", "expected"),
        ("", "1:1", "the key 'data_dir' is missing"),
        ("data_dir = '/d'\ncores.count = 0", "2:15", "1 to 64"),
        ("data_dir = '/d'\ncores.pin = [1, 1]", "2:13", "expected a boolean"),
        ("data_dir = '/d'\n[[listeners]]\naddr = 'somewhere'", "3:8", "not an address"),
        ("data_dir = '/d'\n[[listeners]]\naddr = '::'\nkind = 'iser'", "4:8", "unknown variant"),
        ("data_dir = '/d'\napi.socket_mode = '0777'", "2:19", "0660"),
        ("data_dir = '/d'\nlog.level = 'loud'", "2:13", "not a log level"),
        ("data_dir = '/d'\nstore.destage_low_percent = 100", "2:29", "1 to 99"),
        ("data_dir = '/d'\nhost.name = 'a b'", "2:13", "not a name"),
        ("data_dir = '/d'\ntarget.controller_ids = '7'", "2:25", "no range of controller IDs"),
        ("data_dir = '/d'\ntarget.host_memory_mib = 0", "2:26", "MiB"),
        ("data_dir = '/d'\ntarget.host_connections_max = 1", "2:31", "4 to"),
        ("data_dir = '/d'\n[[referrals]]\naddr = 'there'", "3:8", "not an address"),
        ("data_dir = '/d'\nx = [", "2:6", ""),
    ] {
        let said = error(text);
        assert!(said.starts_with(&format!("basalt.toml:{place}: ")), "{text:?}: {said}");
        assert!(said.contains(words), "{text:?}: {said}");
    }
}

#[test]
fn keys_that_do_not_fit_each_other_are_reported() {
    for (text, words) in [
        ("api.socket = ''", "api.socket: it is empty"),
        ("api.listen = '127.0.0.1:7780'", "api.token_file"),
        ("api.token_file = '/t'", "api.listen"),
        ("store = { destage_low_percent = 70, destage_high_percent = 30 }", "must be below"),
        ("listeners = [{ addr = '[::]:4420' }, { addr = '::' }]", "twice"),
        ("listeners = [{ addr = '::', kind = 'iscsi', security = 'encrypted' }]", "no TLS"),
        ("listeners = [{ addr = '::', kind = 'discovery', security = 'authenticated' }]", "discovery authenticates nobody"),
    ] {
        let said = error(&format!("data_dir = '/d'\n{text}"));
        assert!(said.contains(words), "{text}: {said}");
    }
}

#[test]
fn a_missing_file_and_a_directory_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Config::load(&dir.path().join("none.toml")), Err(ConfigError::Missing { .. })));
    let said = Config::load(dir.path()).unwrap_err().to_string();
    assert!(said.contains("it is a directory"), "{said}");
}

#[test]
fn what_is_set_of_the_target_reaches_it() {
    let text = "data_dir = '/d'\ntarget.controller_ids = '1024-2046'\ntarget.static_controllers = 64\ntarget.host_connections_max = 40\n\
                target.host_memory_mib = 8\ntarget.memory_mib = 16\ntarget.address_handshakes_max = 9\n[[referrals]]\naddr = '192.0.2.9'\n\
                [[referrals]]\naddr = '[2001:db8::1]:4420'\nnqn = 'nqn.2014-08.org.nvmexpress:other'\n";
    let second = NodeSlot::new(1).unwrap();
    let options = Config::parse(text, "x").unwrap().target_options(second);
    let ids = options.controller_ids;
    assert_eq!((ids.first, ids.last, ids.statics, options.slot), (1024, 2046, 64, second));
    assert_eq!((options.host_connections_max, options.address_handshakes_max), (40, 9));
    assert_eq!((options.host_memory_bytes_max, options.memory_bytes_max), (8 << 20, 16 << 20));
    let referrals: Vec<(String, Option<String>)> = options.referrals.iter().map(|r| (r.addr.to_string(), r.nqn.clone())).collect();
    assert_eq!(referrals[0], ("192.0.2.9:8009".to_owned(), None));
    assert_eq!(referrals[1], ("[2001:db8::1]:4420".to_owned(), Some("nqn.2014-08.org.nvmexpress:other".to_owned())));
    for slot in [NodeSlot::FIRST, second] {
        assert_eq!(Config::parse("data_dir = '/d'", "x").unwrap().target_options(slot), TargetOptions::of_slot(slot));
    }
    for wrong in [
        "target.controller_ids = '0-1000'",
        "target.controller_ids = '1-65535'",
        "target.controller_ids = '1-100'",
        "target.controller_ids = '1-200'\ntarget.static_controllers = 101",
    ] {
        assert!(error(&format!("data_dir = '/d'\n{wrong}")).contains("target.controller_ids: they must lie in 1-65519"), "{wrong}");
    }
    assert!(error("data_dir = '/d'\n[[referrals]]\naddr = '::1'\nnqn = 'x'").contains("referrals: an nqn is not a name"));
}

#[test]
fn controller_ids_stay_in_the_slice_of_the_slot_whatever_is_set() {
    let ids = |text: &str, slot: u8| {
        let config = Config::parse(&format!("data_dir = '/d'\n{text}"), "x").unwrap();
        let ids = config.target_options(NodeSlot::new(slot).unwrap()).controller_ids;
        (ids.first, ids.last, ids.statics)
    };
    assert_eq!(ids("target.controller_ids = '100-400'", 0), (100, 400, 128), "a part of it");
    assert_eq!(ids("target.controller_ids = '1-65519'", 2), (2047, 3069, 128), "as far as the slot has them");
    assert_eq!(ids("target.controller_ids = '1024-2046'", 0), (1, 1023, 128), "another slot's");
    assert_eq!(ids("target.controller_ids = '1000-2046'", 0), (1, 1023, 128), "too few of its own");
    assert_eq!(ids("target.controller_ids = '1-65519'\ntarget.static_controllers = 30000", 0), (1, 1023, 511));
    assert_eq!(ids("target.static_controllers = 0", 63), (64_450, 65_472, 0));
    assert!(error("data_dir = '/d'\ntarget.static_controllers = 600").contains("at most half of them may be static"));
}

#[test]
fn what_cannot_be_a_configuration_is_not_called_unreadable_and_no_option_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = |path: &Path| Config::load(path).unwrap_err().to_string();
    let binary = dir.path().join("binary.toml");
    std::fs::write(&binary, [b'a', 0xff, 0xfe]).unwrap();
    for (path, words) in [(dir.path().to_owned(), "directory"), (binary, "UTF-8"), (dir.path().join("none.toml"), "there is no")] {
        let text = error(&path);
        assert!(text.contains(words) && !text.contains("readable") && !text.contains("--config"), "{text}");
    }
}
