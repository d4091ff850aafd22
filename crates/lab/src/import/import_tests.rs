use super::*;
use crate::workload::profiles::parse;
use crate::workload::{Access, Arrivals, Data, Hot, Size, Skew, Spacing, Workload};
use proptest::prelude::*;

const VDBENCH: &str = "\
* A database, after the tool's guide
compratio=2
hd=localhost
sd=default,openflags=o_direct,threads=16
sd=sd1,lun=/dev/nvme1n1
sd=sd2,lun=/tmp/disk2,size=4g this is a remark

wd=default,sd=sd*
wd=data,xfersize=(4k,25,8k,75),rdpct=70,skew=80,
   seekpct=random
wd=log,xf=64k,rdpct=0,seekpct=seq,stride=(1m,2m)
# the runs
rd=default,elapsed=5m,interval=5,warmup=30
rd=peak,wd=(data,log),iorate=max
rd=paced,wd=data,iorate=(1000,2000),distribution=deterministic
rd=points,wd=data,iorate=curve,curve=(20,60,100)
rd=loops,wd=log,iorate=max,forxfersize=(4k,8k),forthreads=(1,32)
eof
rd=never,wd=nothing,iorate=max
";

fn by_name<'a>(i: &'a Imported, name: &str) -> &'a Workload {
    i.profile.workloads.iter().find(|w| w.name == name).unwrap_or_else(|| panic!("no workload {name}: {:?}", i.profile.workloads))
}

#[test]
fn a_vdbench_file_becomes_workloads() {
    let i = import(VDBENCH, "db.vdb", "db").unwrap();
    let peak = by_name(&i, "peak");
    assert_eq!((peak.depth, peak.streams.len(), peak.arrivals), (16, 2, Arrivals::Closed));
    assert_eq!(peak.data.compressible, 0.5);
    let data = &peak.streams[0];
    assert_eq!(data.sizes, [Size { bytes: 4096, weight: 0.25 }, Size { bytes: 8192, weight: 0.75 }]);
    assert_eq!((data.reads, data.share, &data.access), (0.7, 0.8, &Access::Random { skew: Skew::Uniform }));
    let log = &peak.streams[1];
    assert!((log.share - 0.2).abs() < 1e-9, "the rest of the skew");
    assert_eq!((log.sizes[0].bytes, log.reads, &log.access), (65_536, 0.0, &Access::Sequential { shared: false }));
    assert_eq!(by_name(&i, "paced iorate=2000").arrivals, Arrivals::Open { iops: 2000.0, spacing: Spacing::Fixed });
    let last = by_name(&i, "loops xfersize=8k threads=32");
    assert_eq!((last.depth, last.streams[0].sizes[0].bytes), (32, 8192));
    assert_eq!(i.profile.workloads.len(), 1 + 2 + 1 + 4);
    assert_eq!(i.disks, ["/dev/nvme1n1", "/tmp/disk2:4294967296"]);
    let points = i.plans.iter().find(|p| p.name == "points").unwrap();
    assert_eq!((points.curve.as_slice(), points.warm_up_s, points.measure_s), (&[20.0, 60.0, 100.0][..], 30.0, 300.0));
    // What has no counterpart is named with its line, and nothing else is.
    assert_eq!(i.remark_lines().len(), 1, "{:?}", i.remark_lines());
    assert!(i.remark_lines()[0].starts_with("line 11: `stride=(1m,2m)`"), "{:?}", i.remark_lines());
}

#[test]
fn hits_and_ranges_become_hot_ranges_and_areas() {
    let text = "sd=s,lun=/x,size=1g,hitarea=256m\nwd=w,sd=s,rhpct=40,whpct=40,range=(10,60)\nrd=r,wd=w,iorate=max";
    let stream = &import(text, "f", "f").unwrap().profile.workloads[0].streams[0];
    assert_eq!(stream.access, Access::Random { skew: Skew::Hot { ranges: vec![Hot { space: 0.25, operations: 0.4 }] } });
    assert_eq!(stream.area, (0.1, 0.6));
    let i = import("sd=s,lun=/x\nwd=w,sd=s,rhpct=40\nrd=r,wd=w,iorate=max", "f", "f").unwrap();
    assert!(i.remark_lines()[0].contains("line 2: `rhpct=40`"), "{:?}", i.remark_lines());
}

#[test]
fn what_vdbench_has_and_we_have_not_is_said() {
    let text = "hd=far,system=10.0.0.1\nfsd=a,anchor=/x\nsd=s,lun=/x\nwd=w,sd=s,hotband=(1,5),seekpct=eof,iorate=50\nrd=r,wd=w,maxdata=1g\nrd=f,fwd=x";
    let i = import(text, "f", "f").unwrap();
    let said = i.remark_lines().join("\n");
    for part in
        ["line 1: `hd=far`", "line 2: `fsd=a`", "`hotband=(1,5)`", "seekpct=eof", "`iorate=50`", "`maxdata=1g`", "no iorate=", "rd=f"]
    {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    assert_eq!(i.profile.workloads[0].depth, 8, "vdbench's own default");
}

const FIO: &str = "\
; mixed
[global]
ioengine=libaio
direct=1
runtime=10m
ramp_time=30s
time_based
group_reporting=1

[db]
filename=/dev/nvme0n1
rw=randrw
rwmixread=70
bssplit=4k/30:64k/30:32k/
iodepth=8
numjobs=4
percentage_random=80

[second]
stonewall
filename=/dev/nvme0n1
rw=randrw:16
bs=4k,8k
random_distribution=zoned:50/5:30/15:20/
rate_iops=3000
rate_process=poisson
buffer_compress_percentage=40
dedupe_percentage=10

[tail]
filename=/dev/nvme0n1
rw=randread
bsrange=4k-16k
random_distribution=pareto:0.9
verify=crc32c
size=50%
offset=1g
loops=3
colour=blue
";

#[test]
fn a_fio_file_becomes_workloads() {
    let i = import(FIO, "mix.fio", "mix").unwrap();
    assert_eq!(i.profile.workloads.len(), 3);
    let db = by_name(&i, "db");
    assert_eq!((db.depth, db.streams[0].reads, &db.streams[0].access), (32, 0.7, &Access::Seek { seeks: 0.8 }));
    let weights: Vec<(u32, f64)> = db.streams[0].sizes.iter().map(|s| (s.bytes, (s.weight * 100.0).round())).collect();
    assert_eq!(weights, [(4096, 30.0), (65_536, 30.0), (32_768, 40.0)]);
    let second = by_name(&i, "second");
    assert_eq!(second.arrivals, Arrivals::Open { iops: 3000.0, spacing: Spacing::Poisson });
    assert_eq!((second.data.compressible, second.data.duplicates), (0.4, 0.1));
    assert_eq!(second.streams.len(), 2, "reads and writes differ in size");
    assert_eq!((second.streams[0].sizes[0].bytes, second.streams[1].sizes[0].bytes, second.streams[1].share), (4096, 8192, 0.5));
    let hot = vec![Hot { space: 0.05, operations: 0.5 }, Hot { space: 0.15, operations: 0.3 }];
    assert_eq!(second.streams[0].access, Access::Random { skew: Skew::Hot { ranges: hot } });
    let tail = by_name(&i, "tail");
    assert_eq!((tail.working_set, tail.verify, tail.depth), (0.5, true, 1));
    assert_eq!(tail.streams[0].sizes.iter().map(|s| s.bytes).collect::<Vec<_>>(), [4096, 8192, 16_384]);
    assert_eq!((i.plans[0].measure_s, i.plans[0].warm_up_s), (600.0, 30.0));
    let said = i.remark_lines().join("\n");
    for part in [
        "line 16: `numjobs=4`",
        "`rw=randrw:16`",
        "pareto",
        "`verify=crc32c`",
        "`offset=1g`",
        "line 38: `loops=3`",
        "line 39: `colour=blue`",
        "[tail]",
    ] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    assert_eq!(i.remarks.len(), 9, "{said}");
}

#[test]
fn the_size_of_a_fio_job_is_taken_over_in_bytes() {
    let of = |disk: &str, size: &str| {
        let i = import(&format!("[j]\nfilename={disk}\nrw=randread\nsize={size}\n"), "f", "f").unwrap();
        let w = by_name(&i, "j");
        (w.working_set, w.working_set_bytes, i.remark_lines().iter().filter(|l| l.contains("size=")).cloned().collect::<Vec<_>>())
    };
    assert_eq!(of("/dev/sda", "4g"), (1.0, Some(4 << 30), Vec::new()));
    assert_eq!(of("/dev/sda", "50%"), (0.5, None, Vec::new()));
    let (part, bytes, said) = of("/dev/sda", "10000");
    assert_eq!((part, bytes), (1.0, Some(8192)));
    assert!(said[0].contains("taken over as 8192 bytes"), "{said:?}");
    for (disk, size, says) in
        [("/dev/sda", "512", "not taken over"), ("/dev/sda", "much", "not taken over"), ("/tmp/f", "4g", "size of the file")]
    {
        let (part, bytes, said) = of(disk, size);
        assert_eq!((part, bytes), (1.0, None), "{size}");
        assert!(said[0].contains(says), "{said:?}");
    }
}

#[test]
fn a_fio_job_that_flushes_keeps_its_flushes() {
    let of = |line: &str| {
        let i = import(&format!("[a]\nrw=randwrite\n{line}\n"), "f", "f").unwrap();
        (i.profile.workloads[0].streams[0].flush_every, i.remark_lines().join("\n"))
    };
    assert_eq!(of("fsync=32").0, 32);
    let (every, said) = of("fdatasync=1");
    assert!(every == 1 && !said.contains("fdatasync"), "{said}");
    assert!(of("fsync=often").1.contains("a number of writes is expected"));
    assert_eq!(import("[a]\nrw=randread\nfsync=1\n", "f", "f").unwrap().profile.workloads[0].streams[0].flush_every, 0);
}

#[test]
fn equal_fio_jobs_on_several_devices_are_one_load_on_several_disks() {
    let text = "[global]\nrw=randrw\nrwmixread=70\nioengine=libaio\niodepth=9\n[job0]\nfilename=/dev/sda\n[job1]\nfilename=/dev/sdb\n";
    let i = import(text, "f", "f").unwrap();
    assert_eq!((i.profile.workloads.len(), i.disks.len()), (1, 2));
    assert!(i.remark_lines()[0].contains("another disk"));
}

#[test]
fn a_synchronous_engine_has_depth_one() {
    let i = import("[a]\nioengine=psync\niodepth=32\nrw=read\n", "f", "f").unwrap();
    assert_eq!(i.profile.workloads[0].depth, 1);
    assert!(i.remark_lines()[0].contains("line 3: `iodepth=32`"));
}

#[test]
fn nonsense_is_an_error_with_file_and_line() {
    for (text, place) in [
        ("sd=s,lun=/x\nwd=w,xfersize=4q\nrd=r,wd=w,iorate=max", "f:2: xfersize=4q"),
        ("sd=s,lun=/x\nwd=w,rdpct=120\nrd=r,wd=w,iorate=max", "f:2: rdpct=120"),
        ("sd=s,lun=/x\nwd=w\nrd=r,wd=other,iorate=max", "f:3: rd=r: there is no wd=other"),
        ("sd=s,lun=/x\nwd=w\nrd=r,wd=w,iorate=fast", "f:3: "),
        ("sd=s,lun=/x\nwd=w\nrd=r,wd=w,iorate=max,elapsed=soon", "f:3: "),
        ("sd=s,lun=/x\nwd=w\nrd=r,wd=w,iorate=max,forthreads=(1,9999)", "f:3: threads=9999"),
        ("sd=s,lun=/x\nwd=w\nrd=r,wd=w,iorate=max,nonsense", "f:3: 'nonsense' is no parameter"),
        ("[a]\nrw=sideways", "f:2: rw=sideways"),
        ("[a]\nbs=5", "f:2: "),
        ("[a]\niodepth=100000", "f:2: "),
        ("[a]\niodepth=1024\nioengine=libaio\nnumjobs=2", "f:1: "),
        ("[a\nrw=read", "f:1: "),
        ("hello", "f: is neither"),
        ("", "f: is neither"),
        ("sd=s,lun=/x\nwd=w", "f: holds no load"),
        ("[global]\nrw=read", "f: holds no load"),
    ] {
        let e = import(text, "f", "f").unwrap_err().to_string();
        assert!(e.starts_with(place), "{text:?}: {e}");
    }
}

#[test]
fn loops_that_make_too_many_workloads_are_refused() {
    let text = "sd=s,lun=/x\nwd=w,sd=s\nrd=r,wd=w,iorate=max,forxfersize=(4k,8k,16k,32k,64k),forthreads=(1,2,4,8,16),forrdpct=(0,50,100)";
    let e = import(text, "f", "f").unwrap_err().to_string();
    assert!(e.starts_with("f:3: its loops make more than 64 workloads"), "{e}");
}

#[test]
fn our_toml_is_read_back_as_the_same_workloads() {
    for (text, name) in [(VDBENCH, "db"), (FIO, "mix")] {
        let i = import(text, "f", name).unwrap();
        let toml = i.to_toml().unwrap();
        assert_eq!(parse(&toml, "f").unwrap(), i.profile, "{toml}");
        assert!(toml.contains("# Not taken over: line "), "{toml}");
    }
}

#[test]
fn a_hostile_name_cannot_leave_its_comment() {
    let i = import("[a\u{b}evil = 1]\nrw=read\ncol\u{85}our=\u{2028}x\n", "f", "f").unwrap();
    let toml = i.to_toml().unwrap();
    assert_eq!(parse(&toml, "f").unwrap(), i.profile);
}

/// Files like real ones, with mistakes.
fn damaged(base: &'static str) -> impl Strategy<Value = String> {
    let edit = (0..base.len(), 0..40usize, "[a-z0-9=(),:/%\\[\\]\n.*-]{0,12}");
    proptest::collection::vec(edit, 1..6).prop_map(move |edits| {
        let mut bytes = base.as_bytes().to_vec();
        for (at, cut, put) in edits {
            let at = at.min(bytes.len());
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, put.into_bytes());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn no_input_makes_it_panic_and_what_comes_out_is_sound(text in prop_oneof![damaged(VDBENCH), damaged(FIO), "(?s).{0,300}", "[a-z=,()0-9%/:\n\\[\\]. ]{0,300}"]) {
        if let Ok(i) = import(&text, "f", "f") {
            prop_assert!(!i.profile.workloads.is_empty() && i.profile.workloads.len() <= WORKLOADS_MAX);
            for w in &i.profile.workloads {
                prop_assert!(w.check("f").is_ok());
            }
            let toml = i.to_toml().unwrap();
            prop_assert_eq!(parse(&toml, "f").unwrap(), i.profile);
        }
    }
}

#[test]
fn what_cannot_be_verified_is_said_and_the_rest_is_taken_over() {
    let fio = |more: &str| {
        let i = import(&format!("[a]\nrw=randrw\niodepth=4\nverify=crc32c\n{more}\n"), "f", "f").unwrap();
        let said = i.remark_lines().join("\n");
        (i.profile.workloads[0].clone(), said)
    };
    let (w, _) = fio("bs=8k");
    assert!(w.verify);
    let (w, said) = fio("bs=8k\nbuffer_compress_percentage=50");
    assert!(
        w.verify && w.data == Data::default() && said.contains("line 4: `verify=crc32c`") && said.contains("shares are left out"),
        "{said}"
    );
    let (w, said) = fio("bs=512");
    assert!(!w.verify && said.contains("it is not verified"), "{said}");
    let vdbench = "compratio=2\nvalidate=yes\nsd=sd1,lun=/dev/x\nwd=w,sd=sd1,xfersize=4k,rdpct=50\nrd=r,wd=w,iorate=max,elapsed=5\n";
    let i = import(vdbench, "v", "v").unwrap();
    let said = i.remark_lines().join("\n");
    assert!(i.profile.workloads[0].verify && said.contains("`validate=yes`") && said.contains("shares are left out"), "{said}");
}
