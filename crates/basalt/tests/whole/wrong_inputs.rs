//! What no administrator means, over the command line and the API: each answer has its status, says what is wrong, and nothing has changed after all of them.
//!
//! Invariants: each row is refused, or does nothing; the daemon is the same process before and after; no file is made.

use crate::harness::{BASALT, Daemon, Setup, USUAL};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

/// A host's NQN that nobody has named.
const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0042-3510-8054-b2c04f595331";
const KNOWN: &str = "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0042-3510-8054-b2c04f595331";

/// What is typed behind `basalt`, the exit status, and words of the answer. `DIR`: the test's folder; `''`: an empty argument; `LONG`: a name of 5,000
/// characters. Words apart by ` & ` have to be there all.
const TYPED: &[(&str, i32, &str)] = &[
    // No command, or half of one.
    ("", 2, "Usage: basalt"),
    ("bogus", 2, "unrecognized subcommand 'bogus'"),
    ("volumes list", 2, "unrecognized subcommand 'volumes'"),
    ("volume", 2, "Usage: basalt volume"),
    ("volume frobnicate", 2, "unrecognized subcommand 'frobnicate'"),
    ("help bogus", 2, "unrecognized subcommand 'bogus'"),
    ("''", 2, "unrecognized subcommand ''"),
    ("status extra", 2, "unexpected argument 'extra'"),
    ("status --output xml", 2, "invalid value 'xml' & possible values: table, wide, json, yaml"),
    ("status --json -o yaml", 2, "cannot be used with"),
    ("status --timeout 0", 2, "0 is not in 1..=86400"),
    ("status --timeout x", 2, "invalid value 'x' for '--timeout"),
    ("status --bogus", 2, "unexpected argument '--bogus'"),
    ("--api /nowhere status", 3, "there is no socket & --api or BASALT_API"),
    ("--api DIR status", 3, "cannot be reached"),
    ("--api '' status", 3, "cannot be reached"),
    ("--api http://127.0.0.1:1 status", 3, "nobody listens there"),
    ("--api https://127.0.0.1:1 status", 2, "https is not spoken here & to do:"),
    ("--api http:// status", 2, "is no address of an API & write http://HOST:PORT"),
    ("--api http://127.0.0.1 status", 2, "is no address of an API"),
    // Volumes.
    ("volume create", 2, "--size <SIZE> & <NAME>"),
    ("volume create x", 2, "--size <SIZE>"),
    ("volume create --size 1GiB", 2, "<NAME>"),
    ("volume create x y --size 64MiB", 2, "unexpected argument 'y'"),
    ("volume create x --size", 2, "a value is required for '--size"),
    ("volume create x --size 0", 2, "the smallest has 1 MiB"),
    ("volume create x --size -1", 2, "unexpected argument '-1'"),
    ("volume create x --size 1023KiB", 2, "the smallest has 1 MiB"),
    ("volume create x --size 1.5.5GiB", 2, "is not a size: write a number and a unit"),
    ("volume create x --size 1XiB", 2, "unknown unit in '1XiB'"),
    ("volume create x --size 1MiB1", 2, "unknown unit"),
    ("volume create x --size 99999999999999999999", 2, "out of range"),
    ("volume create x --size 4096PiB", 2, "give a size between 1 MiB and 62 TiB"),
    ("volume create v --size 64MiB", 5, "there is a volume 'v' already & choose another name"),
    ("volume create V --size 64MiB", 5, "there is a volume 'v' already"),
    ("volume create x/y --size 64MiB", 2, "'x/y' is not a name: use letters, digits"),
    ("volume create .. --size 64MiB", 2, "'..' is not a name"),
    ("volume create -x --size 64MiB", 2, "unexpected argument '-x'"),
    ("volume create '' --size 64MiB", 2, "a name has 1 to 63"),
    ("volume create ÄÖ --size 64MiB", 2, "is not a name"),
    ("volume create LONG --size 64MiB", 2, "a name has 1 to 63"),
    ("volume create x --size 64MiB --policy none", 4, "there is no policy 'none' & basalt policy list"),
    ("volume create x --size 64MiB --lba 1024", 2, "use 512 or 4096"),
    ("volume create x --size 64MiB --lba x", 2, "invalid value 'x' for '--lba"),
    ("volume create x --size 64MiB --grow-max 1MiB", 2, "cannot be laid out to grow to 1 MiB, which is less"),
    ("volume create x --size 64MiB --grow-max much", 2, "invalid value 'much' for '--grow-max & 'much' is not a size"),
    ("volume create x --size 64MiB --subsystem none", 4, "there is no subsystem 'none'"),
    ("volume create x --size 64MiB --subsystem s --detached", 2, "cannot be used with '--detached'"),
    ("volume create x --size 64MiB --group none", 4, "there is no disk group 'none'"),
    ("volume create x --size 64MiB --fault-domain none", 4, "there is no fault domain 'none'"),
    ("volume create x --size 64MiB --policy two", 5, "to do:"),
    ("volume create x --size 1TiB --policy thick", 5, "to do:"),
    ("volume show", 2, "<VOLUME>"),
    ("volume show none", 4, "there is no volume 'none' & basalt volume list"),
    ("volume show v w", 2, "unexpected argument 'w'"),
    ("volume show /", 4, "there is no volume '/'"),
    ("volume show ..", 4, "there is no volume '..'"),
    ("volume show ''", 4, "there is no"),
    ("volume show %2e%2e", 4, "there is no volume '%2e%2e'"),
    ("volume show v?force=true", 4, "there is no volume 'v?force=true'"),
    ("volume show LONG", 4, "xxx..'"),
    ("volume grow none --size 1GiB", 4, "there is no volume 'none'"),
    ("volume grow v --size 1MiB", 5, "has 64 MiB already, which is more & basalt volume shrink"),
    ("volume grow v --size 62TiB", 5, "can grow in place to"),
    ("volume grow v", 2, "--size <SIZE>"),
    ("volume shrink v --size 1GiB --force", 5, "which is less & basalt volume grow"),
    ("volume shrink v --size 32MiB", 5, "would cut off what lies behind & --force"),
    ("volume shrink v --size 0 --force", 2, "the smallest has 1 MiB"),
    ("volume rename v w", 5, "there is a volume 'w' already"),
    ("volume rename v", 2, "<NEW_NAME>"),
    ("volume rename v ..", 2, "'..' is not a name"),
    ("volume rename none x", 4, "there is no volume 'none'"),
    ("volume set v", 2, "--policy & --owner & --read-only"),
    ("volume set v --policy none", 4, "there is no policy 'none'"),
    ("volume set v --owner none", 4, "there is no node 'none'"),
    ("volume set v --group none", 4, "there is no disk group 'none'"),
    ("volume set v --resync fast", 2, "possible values: paused, low, normal, high"),
    ("volume set v --read-only maybe", 2, "possible values: on, off"),
    ("volume repair none", 4, "there is no volume 'none'"),
    ("volume delete none", 4, "there is no volume 'none'"),
    ("volume delete none --force --yes", 4, "there is no volume 'none'"),
    ("volume clear-reservation none", 4, "there is no volume 'none'"),
    // Policies.
    ("policy create", 2, "<NAME>"),
    ("policy create p", 5, "there is a policy 'p' already"),
    ("policy create ../q", 2, "is not a name"),
    ("policy create q --ftt 4", 2, "failures to tolerate is 4; it can be 0 to 3"),
    ("policy create q --ftt 256", 2, "is not a whole number, or is too large"),
    ("policy create q --stripe-width 0", 2, "it can be 1 to 12"),
    ("policy create q --space-reservation 101", 2, "it can be 0 (thin) to 100 (thick)"),
    ("policy create q --space-reservation 50.5", 2, "write a whole number from 0 to 100"),
    ("policy create q --read-cache-reservation 200", 2, "it can be 0 to 100"),
    ("policy create q --iops-limit 0", 2, "'0' is not a limit; write a number from 1, or none"),
    ("policy create q --iops-limit many", 2, "'many' is not a limit"),
    ("policy create q --bandwidth-limit 0", 2, "write a size, or none"),
    ("policy create q --bandwidth-limit 1", 2, "give at least 1 MiB, or 'none'"),
    ("policy create q --checksum maybe", 2, "possible values: on, off"),
    ("policy create q --repair-after 1", 2, "write 90s, 60m, 2h or 1d, or never"),
    ("policy set p", 2, "--iops-limit"),
    ("policy set none --ftt 0", 4, "there is no policy 'none'"),
    ("policy show none", 4, "there is no policy 'none'"),
    ("policy delete none", 4, "there is no policy 'none'"),
    ("policy delete default", 5, "volume(s) & basalt volume set NAME --policy OTHER"),
    // Subsystems.
    ("subsystem create s", 5, "there is a subsystem 's' already"),
    ("subsystem create t --nqn notannqn", 2, "is not an NQN: write nqn.YYYY-MM"),
    ("subsystem create t --nqn nqn.2026-11.io.basalt:s", 5, "there is a subsystem 'nqn.2026-11.io.basalt:s' already"),
    ("subsystem create t --nqn nqn.2014-08.org.nvmexpress.discovery", 2, "is the discovery service itself"),
    ("subsystem create t --iqn notaniqn", 2, "is not an iSCSI name: write iqn.YYYY-MM"),
    ("subsystem create t --host nobody", 4, "there is no host 'nobody'"),
    ("subsystem show none", 4, "there is no subsystem 'none'"),
    ("subsystem set s", 2, "--security & --no-iscsi"),
    ("subsystem set none --security plain", 4, "there is no subsystem 'none'"),
    ("subsystem set s --security secret", 2, "write plain, authenticated or encrypted"),
    ("subsystem set s --iscsi --no-iscsi", 2, "cannot be used with '--no-iscsi'"),
    ("subsystem set s --manage-namespaces", 2, "--bytes-max <SIZE>"),
    ("subsystem set s --manage-namespaces --bytes-max 0", 2, "a grant of 0 bytes allows nothing"),
    ("subsystem set s --manage-namespaces --bytes-max 1TiB --namespaces-max 0", 2, "use 1 to 1024"),
    ("subsystem set s --manage-namespaces --bytes-max 1TiB --policy none", 4, "there is no policy 'none'"),
    ("subsystem allow s", 2, "<HOST>"),
    ("subsystem allow s nobody", 4, "there is no host 'nobody'"),
    ("subsystem allow s h --any", 2, "cannot be used with '--any'"),
    ("subsystem deny s nobody", 4, "there is no host 'nobody'"),
    ("subsystem deny s OTHER", 4, "subsystem s does not name host"),
    ("subsystem attach s none", 4, "there is no volume 'none'"),
    ("subsystem attach s v --nsid 0", 2, "0 cannot be a namespace id & use 1 to 1024"),
    ("subsystem attach s v --nsid x", 2, "'x' is not a namespace id"),
    ("subsystem attach default v", 5, "is attached to subsystem default already, as namespace 1"),
    ("subsystem attach default w --nsid 1", 5, "namespace 1 of subsystem default is taken & use another id"),
    ("subsystem attach s v --host nobody", 4, "there is no host 'nobody'"),
    ("subsystem detach s v", 4, "volume v is not attached to subsystem s"),
    ("subsystem delete none", 4, "there is no subsystem 'none'"),
    // Hosts.
    ("host add k", 2, "<NQN>"),
    ("host add k x", 2, "'x' is not an NQN & correct the name"),
    ("host add k iqn.x", 2, "is not an iSCSI name"),
    ("host add h OTHER", 5, "there is a host 'h' already"),
    ("host add k KNOWN", 5, "has the name h already & basalt host remove"),
    ("host show none", 4, "there is no host 'none'"),
    ("host remove none", 4, "there is no named host 'none'"),
    ("host set h", 2, "--dhchap-generate"),
    ("host set none --dhchap-generate", 4, "there is no named host 'none'"),
    ("host set h --dhchap-secret-file /nowhere", 1, "/nowhere: No such file"),
    ("host set h --dhchap-secret-file DIR/basalt.toml", 1, "a secret has the form DHHC-1"),
    ("host set h --dhchap-secret-path relative", 2, "is not an absolute path"),
    ("host set h --dhchap-controller-generate", 2, "host h has no secret & --dhchap-generate"),
    ("host set h --dhchap-generate --hash 1024", 2, "possible values: 256, 384, 512"),
    ("host set h --no-dhchap --dhchap-generate", 2, "cannot be used with"),
    ("host set h --tls-psk-file DIR/basalt.toml", 1, "NVMeTLSkey-1"),
    ("host set h --tls-psk-generate --tls-subsystem none", 4, "there is no subsystem 'none'"),
    ("host set h --tls-subsystem s", 2, "--tls-psk-generate"),
    ("host set h --chap-generate", 2, "CHAP is for iSCSI & DH-HMAC-CHAP"),
    ("host check --root /nowhere", 1, "cannot be read"),
    // Disk groups and drives.
    ("group create g2", 2, "--cache <DEVICE> & --capacity <DEVICE>"),
    ("group create g --cache memory:256MiB --capacity memory:512MiB", 5, "there is a disk group 'g' already"),
    ("group create a/b --cache memory:256MiB --capacity memory:512MiB", 2, "is not a name"),
    ("group create g2 --cache memory:lots --capacity memory:512MiB", 2, "invalid value 'memory:lots' & 'lots' is not a size"),
    ("group create g2 --cache memory: --capacity memory:512MiB", 2, "is not a size"),
    ("group create g2 --cache memory:1MiB --capacity memory:512MiB", 2, "needs at least 256 MiB"),
    ("group create g2 --cache /nowhere/x --capacity memory:512MiB", 4, "/nowhere/x is not there & PATH:SIZE"),
    ("group create g2 --cache /nowhere/x:1GiB --capacity memory:512MiB", 2, "the directory /nowhere is not there & make it first"),
    ("group create g2 --cache /dev/null --capacity memory:512MiB", 2, "is neither a block device nor a file"),
    ("group create g2 --cache DIR --capacity memory:512MiB --force", 2, "is neither a block device nor a file"),
    ("group create g2 --cache DIR/basalt.toml --capacity memory:512MiB --force", 2, "needs at least 256 MiB"),
    ("group create g2 --cache DIR/n:256MiB --capacity DIR/n:512MiB", 2, "is named twice"),
    ("group create g2 --cache memory:256MiB --capacity memory:512MiB --shards 3", 2, "'3' is none of 1, 2, 4, 8 and 16"),
    ("group create g2 --cache memory:256MiB --capacity memory:512MiB --shards 300", 2, "is none of 1, 2, 4, 8 and 16"),
    ("group show none", 4, "there is no disk group 'none'"),
    ("group scrub none", 4, "there is no disk group 'none'"),
    ("group remove none", 4, "there is no disk group 'none'"),
    ("group remove g", 5, "disk group g holds data of 2 volume(s): v, w & --force"),
    ("drive show", 2, "<DRIVE>"),
    ("drive show /etc/passwd", 4, "there is no drive '/etc/passwd'"),
    ("drive list --node none", 4, "there is no node 'none'"),
    ("drive show sda --node none", 4, "there is no node 'none'"),
    // Nodes and clusters; this daemon is in none.
    ("node show none", 4, "there is no node 'none'"),
    ("node rename none x", 4, "there is no node 'none'"),
    ("node set none --fault-domain x", 4, "there is no node 'none'"),
    ("node set", 2, "--fault-domain <DOMAIN>"),
    ("node invite", 5, "this node is in no cluster & basalt cluster create"),
    ("node invite --hours 721", 2, "721 is not in 1..=720"),
    ("node remove none", 5, "this node is in no cluster"),
    ("node renew-certificate", 5, "this node is in no cluster"),
    ("cluster backup", 2, "<FILE>"),
    ("cluster backup DIR/b", 5, "this node is in no cluster"),
    ("cluster create", 2, "--address <ADDRESS>"),
    ("cluster create --address nonsense", 2, "'nonsense' is no address & give an IP address"),
    ("cluster create --address 127.0.0.1 --etcd-endpoints x", 2, "is no endpoint of etcd; write https://HOST:PORT"),
    ("cluster create --address 127.0.0.1 --etcd-cert x", 2, "--etcd-key <FILE>"),
    ("cluster create --address 127.0.0.1 --etcd-ca /nowhere", 1, "/nowhere: No such file"),
    ("cluster join", 2, "--address <ADDRESS> & <TOKEN>"),
    ("cluster join token --address 127.0.0.1", 2, "not a join token & basalt node invite"),
    ("cluster join basalt-join-1.AQEAAA --address 127.0.0.1 --destroy", 2, "the join token is damaged"),
    ("witness join token --address 127.0.0.1", 2, "not a join token"),
    ("cluster set", 2, "Usage: basalt cluster set"),
    ("cluster set --etcd-endpoints https://127.0.0.1:1", 5, "this node is in no cluster"),
    ("cluster renew-member", 5, "this node is in no cluster"),
    ("cluster restore", 2, "<FILE>"),
    ("cluster restore /nowhere --own", 2, "cannot be used with '--own"),
    ("cluster restore --own --external", 2, "cannot be used with"),
    ("volume recover nowhere --dry-run", 4, "there is no volume 'nowhere'"),
    ("volume recover nowhere --yes", 4, "there is no volume 'nowhere'"),
    ("cluster restore /nowhere --from 127.0.0.1:1", 2, "cannot be used with '--from"),
    ("cluster restore --from nonsense", 2, "invalid value 'nonsense' for '--from"),
    ("cluster restore /nowhere --config DIR/nowhere.toml", 1, "there is no configuration file"),
    ("cluster restore /nowhere --config DIR/basalt.toml", 1, "in use by another daemon"),
    // What is watched.
    ("iostat disk", 2, "'disk' is no volume, device or host"),
    ("iostat volume 0", 2, "'0' is no number of seconds; write 0.1 to 86400"),
    ("iostat volume x", 2, "'x' is no number of seconds"),
    ("iostat volume 1 0", 2, "'0' is no number of reports; write 1 or more"),
    ("iostat --node none", 4, "there is no node 'none'"),
    ("top volume 0", 2, "is no number of seconds"),
    ("audit --limit x", 2, "'x' is not a number of entries: write 1 to 10000"),
    ("audit --limit 0", 2, "write 1 to 10000"),
    ("audit --limit 99999", 2, "write 1 to 10000"),
    ("audit --since yesterday", 2, "write 30m, 2h or 7d (ago), or seconds since 1970"),
    ("audit --until 2w", 2, "is not a time"),
    ("audit --since 99999999999999999999d", 2, "is not a time"),
    ("audit --node none", 4, "there is no node 'none'"),
    // Files.
    ("config", 2, "Usage: basalt config"),
    ("config check DIR/nowhere.toml", 1, "there is no configuration file"),
    ("config check DIR", 1, "is no configuration file: it is a directory"),
    ("config check DIR/out", 1, "out:1:"),
    ("serve --config DIR/nowhere.toml", 1, "there is no configuration file"),
    ("serve bogus", 2, "unexpected argument 'bogus'"),
    ("completions tcsh", 2, "possible values: bash, elvish, fish, powershell, zsh"),
    ("man DIR/nowhere", 1, "manual pages cannot be written there"),
    // The lab.
    ("lab run", 2, "<PROFILE>"),
    ("lab run none", 2, "there is no such profile, and no such file; profiles are"),
    ("lab run easy-run DIR/nowhere", 5, "there is nothing at this path"),
    ("lab run easy-run nvme-tcp://x", 5, "an address is nvme-tcp://HOST:PORT/NQN?nsid=1"),
    ("lab run easy-run DIR/d:1GiB --time x", 2, "write 90s, 5m or 2h"),
    ("lab sweep easy-run DIR/d:1GiB --over bogus=1", 2, "'bogus' is no parameter"),
    ("lab show DIR/nowhere", 4, "there is no such folder"),
    ("lab report DIR/nowhere", 4, "there is no such folder"),
    ("lab import DIR/nowhere", 2, "cannot be opened"),
    ("lab study none", 2, "there is no such study; there are"),
    ("lab bogus", 2, "unrecognized subcommand 'bogus'"),
];

/// A request: method, path, body, then the status and words of the answer. A body is said to be JSON.
const ASKED: &[(&str, &str, &str, u16, &str)] = &[
    // Paths and methods.
    ("GET", "/", "", 404, "there is no GET / & /api/v1/openapi.json describes what there is"),
    ("GET", "/api/v1", "", 404, "there is no GET /api/v1"),
    ("GET", "/api/v2/status", "", 404, "there is no GET /api/v2/status"),
    ("GET", "/api/v1/status/", "", 404, "there is no GET"),
    ("GET", "/API/V1/STATUS", "", 404, "there is no GET"),
    ("GET", "//api/v1/status", "", 404, "there is no GET"),
    ("GET", "/api/v1/../v1/status", "", 404, "there is no GET"),
    ("GET", "/metrics/", "", 404, "there is no GET"),
    ("GET", "/cluster/v1/drives", "", 404, "there is no GET"),
    ("GET", "/api/v1/volumes/v/w", "", 404, "there is no GET"),
    ("POST", "/api/v1/status", "", 405, "POST cannot be done with /api/v1/status"),
    ("POST", "/metrics", "", 405, "POST cannot be done with /metrics"),
    ("DELETE", "/api/v1/volumes", "", 405, "DELETE cannot be done"),
    ("PUT", "/api/v1/volumes/v", "", 405, "PUT cannot be done"),
    ("BREW", "/api/v1/volumes", "", 405, "BREW cannot be done"),
    ("OPTIONS", "/api/v1/volumes", "", 405, "OPTIONS cannot be done"),
    // Queries.
    ("GET", "/api/v1/volumes?bogus=1", "", 400, "knows no parameter 'bogus' & known here: after, limit"),
    ("GET", "/api/v1/volumes?%6cimit=1", "", 400, "knows no parameter"),
    ("GET", "/api/v1/volumes?limit=0", "", 400, "a part of a list has 1 to 10000 entries"),
    ("GET", "/api/v1/volumes?limit=10001", "", 400, "1 to 10000"),
    ("GET", "/api/v1/volumes?limit=-1", "", 400, "the query is wrong: limit: not a whole number"),
    ("GET", "/api/v1/volumes?limit=x", "", 400, "limit: not a whole number"),
    ("GET", "/api/v1/volumes?limit=", "", 400, "limit: a number is missing"),
    ("GET", "/api/v1/volumes?limit=99999999999999999999999", "", 400, "limit: the number is too large"),
    ("GET", "/api/v1/volumes?limit=1&limit=2", "", 400, "duplicate field `limit`"),
    ("GET", "/api/v1/volumes/v?node=x", "", 400, "knows no parameter 'node' & there is none here"),
    ("GET", "/api/v1/openapi.json?pretty", "", 400, "knows no parameter 'pretty'"),
    ("GET", "/openapi.json?x=1", "", 400, "knows no parameter 'x'"),
    ("GET", "/metrics?x=1", "", 400, "knows no parameter 'x'"),
    ("GET", "/api/v1/statistics?of=disks", "", 400, "write volumes, hosts, devices, groups or machine"),
    ("GET", "/api/v1/statistics?node=none", "", 404, "there is no node 'none'"),
    ("GET", "/api/v1/audit?limit=0", "", 400, "1 to 10000 entries of the audit log"),
    ("GET", "/api/v1/audit?limit=99999", "", 400, "1 to 10000 entries"),
    ("GET", "/api/v1/audit?since_unix_ms=-5", "", 400, "since_unix_ms: not a whole number"),
    ("GET", "/api/v1/audit?node=none", "", 404, "there is no node 'none'"),
    ("GET", "/api/v1/drives?node=none", "", 404, "there is no node 'none'"),
    ("DELETE", "/api/v1/volumes/v?force=maybe", "", 400, "force: write true or false"),
    ("DELETE", "/api/v1/volumes/v?force", "", 400, "force: write true or false"),
    ("DELETE", "/api/v1/volumes/v?froce=true", "", 400, "knows no parameter 'froce' & known here: force"),
    // Names.
    ("GET", "/api/v1/volumes/none", "", 404, "there is no volume 'none'"),
    ("GET", "/api/v1/volumes/%00", "", 404, "there is no volume"),
    ("GET", "/api/v1/volumes/%ff", "", 400, "the path is wrong: Invalid UTF-8"),
    ("GET", "/api/v1/volumes/%zz", "", 404, "there is no volume '%zz'"),
    ("GET", "/api/v1/volumes/LONG", "", 404, "xxx..'"),
    ("GET", "/api/v1/groups/none", "", 404, "there is no disk group 'none'"),
    ("GET", "/api/v1/policies/none", "", 404, "there is no policy 'none'"),
    ("GET", "/api/v1/subsystems/none", "", 404, "there is no subsystem 'none'"),
    ("GET", "/api/v1/hosts/none", "", 404, "there is no host 'none'"),
    ("GET", "/api/v1/nodes/none", "", 404, "there is no node 'none'"),
    ("GET", "/api/v1/drives/none", "", 404, "there is no drive 'none'"),
    // Bodies.
    ("POST", "/api/v1/volumes", "", 400, "the body is not said to be JSON & Content-Type: application/json"),
    ("POST", "/api/v1/volumes", "{", 400, "the body is wrong: it is not JSON"),
    ("POST", "/api/v1/volumes", r#"{"name": "x", "bytes": 2097152} x"#, 400, "it is not JSON: trailing characters"),
    ("POST", "/api/v1/volumes", "[]", 400, "invalid type: sequence, expected an object"),
    ("POST", "/api/v1/volumes", "[\"x\", 2097152, null, null, null, null, false, null, []]", 400, "expected an object"),
    ("POST", "/api/v1/volumes", "null", 400, "expected an object"),
    ("POST", "/api/v1/volumes", "\"x\"", 400, "expected an object"),
    ("POST", "/api/v1/volumes", "{}", 400, "missing field `name`"),
    ("POST", "/api/v1/volumes", r#"{"name": "x"}"#, 400, "missing field `bytes`"),
    (
        "POST",
        "/api/v1/volumes",
        r#"{"name": "x", "bytes": "1GiB"}"#,
        400,
        "bytes: invalid type: string \\\"1GiB\\\", expected a whole number",
    ),
    ("POST", "/api/v1/volumes", r#"{"name": "x", "bytes": -1}"#, 400, "bytes: invalid value: integer `-1`"),
    ("POST", "/api/v1/volumes", r#"{"name": "x", "bytes": 1.5}"#, 400, "bytes: invalid type: floating point"),
    ("POST", "/api/v1/volumes", r#"{"name": "x", "bytes": 1e30}"#, 400, "bytes: invalid type"),
    ("POST", "/api/v1/volumes", r#"{"name": 1, "bytes": 2097152}"#, 400, "name: invalid type: integer `1`, expected a string"),
    (
        "POST",
        "/api/v1/volumes",
        r#"{"name": "x", "bytes": 2097152, "bogus": 1}"#,
        400,
        "unknown field `bogus`, expected one of `name`, `bytes`",
    ),
    ("POST", "/api/v1/volumes", r#"{"name": "x", "name": "y", "bytes": 2097152}"#, 400, "duplicate field `name`"),
    ("POST", "/api/v1/volumes", r#"{"name": "", "bytes": 2097152}"#, 400, "a name has 1 to 63"),
    ("POST", "/api/v1/volumes", r#"{"name": "a\u0000b", "bytes": 2097152}"#, 400, "is not a name"),
    ("POST", "/api/v1/volumes", r#"{"name": "v", "bytes": 2097152}"#, 409, "there is a volume 'v' already"),
    ("POST", "/api/v1/volumes", r#"{"name": "x", "bytes": 0}"#, 400, "the smallest has 1 MiB"),
    ("POST", "/api/v1/volumes", r#"{"name": "x", "bytes": 18446744073709551615}"#, 400, "give a size between 1 MiB and 62 TiB"),
    ("POST", "/api/v1/volumes", r#"{"name": "x", "bytes": 2097152, "lba_bytes": 4095}"#, 400, "use 512 or 4096"),
    ("POST", "/api/v1/volumes", r#"{"name": "x", "bytes": 2097152, "grow_bytes_max": 1048576}"#, 400, "which is less"),
    (
        "POST",
        "/api/v1/volumes",
        r#"{"name": "x", "bytes": 2097152, "subsystem": "s", "detached": true}"#,
        400,
        "attached and detached at once",
    ),
    ("POST", "/api/v1/volumes", r#"{"name": "x", "bytes": 2097152, "fault_domain": "none"}"#, 404, "there is no fault domain 'none'"),
    ("POST", "/api/v1/volumes", r#"{"name": "x", "bytes": 2097152, "groups": ["none"]}"#, 404, "there is no disk group 'none'"),
    ("POST", "/api/v1/volumes", r#"{"name": "x", "bytes": 2097152, "groups": "g"}"#, 400, "expected a list"),
    ("POST", "/api/v1/volumes/v/resize", "{}", 400, "missing field `bytes`"),
    ("POST", "/api/v1/volumes/v/resize", r#"{"bytes": 1048576}"#, 409, "would cut off what lies behind"),
    ("POST", "/api/v1/volumes/none/resize", r#"{"bytes": 2097152}"#, 404, "there is no volume 'none'"),
    ("GET", "/api/v1/volumes/none/recovery", "", 404, "there is no volume 'none'"),
    ("GET", "/api/v1/volumes/none/recovery?frm=a", "", 400, "frm"),
    ("POST", "/api/v1/volumes/none/recovery", "{}", 404, "there is no volume 'none'"),
    ("POST", "/api/v1/volumes/none/repair", "", 404, "there is no volume 'none'"),
    ("DELETE", "/api/v1/volumes/none", "", 404, "there is no volume 'none'"),
    ("DELETE", "/api/v1/volumes/none/reservation", "", 404, "there is no volume 'none'"),
    ("PATCH", "/api/v1/volumes/v", r#"{"size": 5}"#, 400, "unknown field `size`"),
    ("PATCH", "/api/v1/volumes/v", r#"{"resync": "fast"}"#, 400, "unknown variant `fast`, expected one of `paused`"),
    ("PATCH", "/api/v1/volumes/v", r#"{"name": ""}"#, 400, "a name has 1 to 63"),
    ("PATCH", "/api/v1/volumes/v", r#"{"policy": "none"}"#, 404, "there is no policy 'none'"),
    ("POST", "/api/v1/policies", "{}", 400, "a new policy needs a name"),
    ("POST", "/api/v1/policies", r#"{"name": "p"}"#, 409, "there is a policy 'p' already"),
    (
        "POST",
        "/api/v1/policies",
        r#"{"name": "q", "stripe_width": 300}"#,
        400,
        "stripe_width: invalid value: integer `300`, expected a whole number",
    ),
    ("POST", "/api/v1/policies", r#"{"name": "q", "failures_to_tolerate": 9}"#, 400, "it can be 0 to 3"),
    ("POST", "/api/v1/policies", r#"{"name": "q", "checksum": "off"}"#, 400, "expected a boolean"),
    ("PATCH", "/api/v1/policies/p", r#"{"name": "r"}"#, 400, "a policy keeps its name"),
    ("PATCH", "/api/v1/policies/none", "{}", 404, "there is no policy 'none'"),
    ("DELETE", "/api/v1/policies/default", "", 409, "volume(s)"),
    ("POST", "/api/v1/groups", "{}", 400, "missing field `name`"),
    (
        "POST",
        "/api/v1/groups",
        r#"{"name": "g2", "cache": "memory:1GiB", "capacity": []}"#,
        400,
        "cache: invalid type: string & expected an object",
    ),
    (
        "POST",
        "/api/v1/groups",
        r#"{"name": "g2", "cache": {"path": "memory:256MiB"}, "capacity": []}"#,
        400,
        "one to 7 capacity devices, not 0",
    ),
    (
        "POST",
        "/api/v1/groups",
        r#"{"name": "g2", "cache": {"path": "c"}, "capacity": [{"path": "memory:512MiB"}]}"#,
        400,
        "'c' is not an absolute path",
    ),
    (
        "POST",
        "/api/v1/groups",
        r#"{"name": "g2", "node": "none", "cache": {"path": "memory:256MiB"}, "capacity": [{"path": "memory:512MiB"}]}"#,
        404,
        "there is no node 'none'",
    ),
    ("DELETE", "/api/v1/groups/g", "", 409, "holds data of 2 volume(s)"),
    ("POST", "/api/v1/groups/none/scrub", "", 404, "there is no disk group 'none'"),
    ("POST", "/api/v1/subsystems", r#"{"name": "s"}"#, 409, "there is a subsystem 's' already"),
    ("POST", "/api/v1/subsystems", r#"{"name": "t", "hosts": ["nobody"]}"#, 404, "there is no host 'nobody'"),
    ("POST", "/api/v1/subsystems", r#"{"name": "t", "hosts": "h"}"#, 400, "hosts: invalid type: string & expected a list"),
    ("PATCH", "/api/v1/subsystems/s", r#"{"security": "none"}"#, 400, "expected one of `plain`, `authenticated`, `encrypted`"),
    ("PATCH", "/api/v1/subsystems/s", r#"{"iscsi": false, "iqn": "iqn.2026-11.io.basalt:x"}"#, 400, "leave one of them out"),
    ("PUT", "/api/v1/subsystems/s/hosts/nobody", "", 404, "there is no host 'nobody'"),
    ("PUT", "/api/v1/subsystems/s/volumes/none", "{}", 404, "there is no volume 'none'"),
    ("PUT", "/api/v1/subsystems/s/volumes/w", r#"{"nsid": 0}"#, 400, "use 1 to 1024"),
    ("DELETE", "/api/v1/subsystems/s/volumes/w", "", 404, "is not attached to subsystem s"),
    ("DELETE", "/api/v1/subsystems/none?force=true", "", 404, "there is no subsystem 'none'"),
    ("POST", "/api/v1/hosts", r#"{"nqn": "x", "name": "k"}"#, 400, "'x' is not an NQN"),
    ("POST", "/api/v1/hosts", r#"{"nqn": "nqn.2026-11.io.basalt:k"}"#, 400, "missing field `name`"),
    ("PUT", "/api/v1/hosts/h/dhchap", "{}", 400, "host h has no secret"),
    ("PUT", "/api/v1/hosts/h/dhchap", r#"{"secret": "x"}"#, 400, "a secret has the form DHHC-1"),
    ("PUT", "/api/v1/hosts/h/tls-psk", "{}", 400, "no key is given"),
    ("PUT", "/api/v1/hosts/h/chap", r#"{"secret": "x"}"#, 400, "CHAP is for iSCSI"),
    ("DELETE", "/api/v1/hosts/none", "", 404, "there is no named host 'none'"),
    ("POST", "/api/v1/cluster", r#"{"address": "x"}"#, 400, "'x' is no address"),
    ("POST", "/api/v1/cluster/join", r#"{"token": "x", "address": "127.0.0.1"}"#, 400, "not a join token"),
    ("POST", "/api/v1/cluster/invites", "{}", 409, "this node is in no cluster"),
    ("POST", "/api/v1/cluster/backup", r#"{"path": "relative"}"#, 409, "this node is in no cluster"),
    ("POST", "/api/v1/cluster/member", "", 409, "this node is in no cluster"),
    ("DELETE", "/api/v1/nodes/none", "", 409, "this node is in no cluster"),
    ("PATCH", "/api/v1/nodes/none", r#"{"name": "x"}"#, 404, "there is no node 'none'"),
];

const JSON: &str = "Content-Type: application/json\r\n";

fn furnished() -> Daemon {
    let daemon = Daemon::started(&Setup { cores: 1, ..USUAL });
    daemon.ok("group create g --cache memory:256MiB --capacity memory:512MiB");
    daemon.ok("policy create p");
    daemon.ok("policy create two --ftt 1");
    daemon.ok("policy create thick --space-reservation 100");
    daemon.ok("volume create v --size 64MiB");
    daemon.ok("volume create w --size 64MiB --detached");
    daemon.ok(&format!("host add h {KNOWN}"));
    daemon.ok("subsystem create s --host h");
    daemon
}

/// All that must not change.
fn everything(daemon: &Daemon) -> (Vec<Value>, BTreeSet<String>) {
    let lists = ["group list", "policy list", "volume list", "subsystem list", "host list", "node list", "drive list", "cluster status"];
    let shown = |line: &&str| {
        let mut list = daemon.json(line);
        // How long it is up, and what it did meanwhile.
        for one in list.as_array_mut().into_iter().flatten() {
            ["up_s", "buffer_used_bytes"].iter().for_each(|member| drop(one.as_object_mut().and_then(|one| one.remove(*member))));
        }
        list
    };
    let files = fs::read_dir(daemon.path("")).expect("its folder").map(|f| f.expect("a file").file_name().to_string_lossy().into_owned());
    (lists.iter().map(shown).collect(), files.collect())
}

fn filled_in(text: &str, daemon: &Daemon) -> String {
    let dir = daemon.at("");
    let text = text.replace("DIR", dir.trim_end_matches('/')).replace("LONG", &"x".repeat(5000));
    text.replace("OTHER", OTHER).replace("KNOWN", KNOWN)
}

fn typed(daemon: &Daemon, line: &str) -> Output {
    let line = filled_in(line, daemon);
    let words = line.split(' ').filter(|word| !word.is_empty()).map(|word| if word == "''" { "" } else { word });
    let mut command = Command::new(BASALT);
    // It must not find anything of this machine's, and no terminal.
    command.env("BASALT_API", daemon.path("data/api.sock")).current_dir(daemon.path("")).env_remove("BASALT_TOKEN");
    command.args(words).stdin(Stdio::null()).output().expect("it runs")
}

/// What is wrong with the answer to a row, if anything.
fn judged(what: &str, (wanted, words): (i32, &str), (got, said): (i32, &str)) -> Option<String> {
    let missing: Vec<&str> = words.split(" & ").filter(|words| !said.contains(words)).collect();
    let shown: String = said.chars().take(600).collect();
    (got != wanted || !missing.is_empty()).then(|| format!("{what}: {got}, not {wanted}; without {missing:?}: {shown}"))
}

fn wrong_in_line((line, code, words): &(&str, i32, &str), daemon: &Daemon) -> Option<String> {
    let output = typed(daemon, line);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // What the daemon refuses comes with what to do; what the command line refuses, with its usage or the help.
    let advice =
        ["to do: ", "Usage: ", "--help"].iter().any(|words| said.contains(words)) || !matches!(code, 2..=5) || line.starts_with("lab");
    let odd = (!advice || !output.stdout.is_empty() || said.contains("panicked"))
        .then(|| format!("basalt {line}: no advice, or more: {output:?}"));
    judged(&format!("basalt {line}"), (*code, words), (output.status.code().unwrap_or(-1), &said)).or(odd)
}

fn wrong_in_request((method, path, body, status, words): &(&str, &str, &str, u16, &str), daemon: &Daemon) -> Option<String> {
    let what = format!("{method} {path} {body}");
    let head = if body.is_empty() { "" } else { JSON };
    let (got, answer) = daemon.asked(method, &filled_in(path, daemon), head, body.as_bytes());
    let (_, said) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let problem: Value = serde_json::from_str(said).unwrap_or_default();
    let whole = ["code", "message", "action"].iter().all(|member| problem[member].as_str().is_some_and(|text| !text.is_empty()));
    let odd =
        (!whole || said.contains("struct ") || said.contains("target type")).then(|| format!("{what}: no problem, or one of Rust: {said}"));
    judged(&what, ((*status).into(), words), (got.into(), said)).or(odd)
}

#[test]
fn whatever_is_typed_or_asked_wrongly_is_refused_in_words_and_changes_nothing() {
    assert!(TYPED.len() + ASKED.len() >= 300, "{} and {}", TYPED.len(), ASKED.len());
    let daemon = furnished();
    let (before, process) = (everything(&daemon), daemon.id());
    // Most of the time goes into starting processes: two at a time.
    let next = AtomicUsize::new(0);
    let work = || {
        let rows = std::iter::from_fn(|| TYPED.get(next.fetch_add(1, Ordering::Relaxed)));
        rows.filter_map(|row| wrong_in_line(row, &daemon)).collect::<Vec<_>>()
    };
    let mut wrong: Vec<String> = thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().flat_map(|worker| worker.join().expect("it ends")).collect()
    });
    wrong.extend(ASKED.iter().filter_map(|row| wrong_in_request(row, &daemon)));
    // What a table of text cannot say.
    for (what, head, body, status) in [
        ("a body of 1 MiB and more", JSON, vec![b' '; (1 << 20) + 1], 413),
        ("a deep body", JSON, vec![b'['; 100_000], 400),
        ("a body that is no text", JSON, vec![0xFF, 0xFE], 400),
        ("a body of another kind", "Content-Type: text/plain\r\n", b"{}".to_vec(), 400),
        ("a key that is none", "Content-Type: application/json\r\nIdempotency-Key: nonsense\r\n", br#"{"name": "x"}"#.to_vec(), 400),
    ] {
        let (got, answer) = daemon.asked("POST", "/api/v1/volumes", head, &body);
        wrong.extend((got != status || !answer.contains("\"action\":\"")).then(|| format!("{what}: {answer}")));
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), TYPED.len() + ASKED.len(), wrong.join("\n"));
    assert_eq!(daemon.id(), process);
    assert_eq!(everything(&daemon), before);
    assert!(!daemon.log().contains("panicked") && !daemon.log().contains("ERROR"), "{}", daemon.log_tail());
}
