use super::*;
use crate::workload::profiles;
use serde_json::json;

fn job(profile: &str, case: usize) -> Job {
    let workload = profiles::find(profile).unwrap().workloads[case].clone();
    Job { workload, warm_up: Duration::from_millis(500), measure: Duration::from_secs(2), seed: 7 }
}

#[test]
fn a_job_file_says_what_the_workload_says() {
    let disks = [(PathBuf::from("/tmp/a:b"), 1 << 30), (PathBuf::from("/tmp/c"), 1 << 30)];
    let text = job_file(&job("easy-run", 0), &disks).unwrap();
    for line in [
        "rw=randrw",
        "rwmixread=70",
        "bs=4096",
        "iodepth=4",
        "runtime=2000ms",
        "ramp_time=500ms",
        "randrepeat=0",
        "randseed=7",
        "filename=/tmp/a\\:b",
        "size=1073741824",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
    }
    let mut j = job("easy-run", 3);
    j.workload.arrivals = Arrivals::Open { iops: 1000.0, spacing: Spacing::Poisson };
    j.workload.working_set = 0.5;
    let text = job_file(&j, &disks).unwrap();
    for line in ["rw=write", "bs=262144", "rate_iops=500", "rate_process=poisson", "size=536870912"] {
        assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
    }
}

#[test]
fn what_fio_cannot_do_is_refused() {
    let e = job_file(&job("spc1-like", 0), &[]).unwrap_err().to_string();
    assert!(e.contains("one stream"), "{e}");
    let mut j = job("easy-run", 0);
    j.workload.streams[0].trims = 0.1;
    assert!(job_file(&j, &[]).unwrap_err().to_string().contains("trims"));
}

#[test]
fn histograms_of_several_jobs_are_merged() {
    let side = |n: u64, bins: Value| json!({"total_ios": n, "io_bytes": n * 4096, "lat_ns": {"bins": bins}});
    let answer = json!({"jobs": [{"read": side(3, json!({"1000": 2, "5000": 1}))}, {"read": side(1, json!({"9000": 1}))}]});
    let f = figures(&answer, "read").unwrap();
    assert_eq!((f.operations, f.bytes, f.latency.count()), (4, 16384, 4));
    assert_eq!((f.latency.percentile_ns(50.0) / 100, f.latency.max_ns() / 100), (10, 90));
    assert!(figures(&answer, "write").unwrap_err().to_string().contains("write.total_ios"));
}
