use super::*;

#[test]
fn every_profile_that_is_built_in_is_sound_and_says_what_it_is() {
    for name in names() {
        let p = find(name).unwrap();
        assert_eq!(p.name, name);
        assert!(p.description.len() > 40, "{name}");
        for w in &p.workloads {
            assert!(!w.description.is_empty(), "{name}: {}", w.name);
            let again: Workload = toml::from_str(&toml::to_string(w).unwrap()).unwrap();
            assert_eq!(&again, w);
        }
    }
    assert_eq!(find("easy-run").unwrap().workloads.len(), 4);
    assert_eq!(find("kioxia").unwrap().workloads.len(), 4);
}

#[test]
fn the_oltp_mix_with_a_log_has_nine_reads_in_ten() {
    let p = find("oltp-90-10").unwrap();
    let w = &p.workloads[1];
    let all: f64 = w.streams.iter().map(|s| s.share).sum();
    let reads: f64 = w.streams.iter().map(|s| s.share * s.reads).sum::<f64>() / all;
    assert!((reads - 0.9).abs() < 0.001, "{reads}");
}

#[test]
fn one_workload_alone_is_a_profile() {
    let text = "name = 'mine'\n[[streams]]\nsizes = [{ bytes = 4096 }]\nreads = 1.0\naccess = { pattern = 'random' }\n";
    let p = parse(text, "mine.toml").unwrap();
    assert_eq!((p.name.as_str(), p.workloads.len(), p.workloads[0].depth), ("mine", 1, 1));
}

#[test]
fn errors_name_file_and_line_or_key() {
    let says = |text: &str, parts: &[&str]| {
        let e = parse(text, "mine.toml").unwrap_err().to_string();
        parts.iter().for_each(|p| assert!(e.contains(p), "{e}"));
    };
    says("name = 'a'\nworkloads = 3", &["mine.toml: line 2"]);
    says(
        "name = 'a'\ndepht = 3\n[[streams]]\nsizes = []\nreads = 1.0\naccess = { pattern = 'random' }",
        &["mine.toml: line 2", "depht", "`depth`"],
    );
    says("name = 'a'\ndepht = 3", &["mine.toml: line 2", "depht", "`depth`"]);
    let odd = "name = 'a'\n[[streams]]\nsizes = [{ bytes = 1000 }]\nreads = 1.0\naccess = { pattern = 'random' }";
    says(odd, &["mine.toml", "streams[0].sizes", "multiple of 512"]);
    let e = find("no-such").unwrap_err().to_string();
    assert!(e.contains("easy-run"), "{e}");
    let e = find("./no-such.toml").unwrap_err().to_string();
    assert!(e.contains("cannot be read"), "{e}");
}

#[test]
fn a_bound_on_p99_is_kept_only_where_p99_is_known() {
    let search = |mean, p99| Search { iops_unit: 10.0, mean_ms_max: mean, p99_ms_max: p99 };
    let latency = |fast: u64, slow: u64| {
        let mut l = Latency::default();
        l.record_n(1_000_000, fast);
        l.record_n(9_000_000, slow);
        l
    };
    let p99 = search(None, Some(5.0));
    assert_eq!(p99.judge(&latency(1000, 0)), Bounds::Kept);
    assert_eq!(p99.judge(&latency(991, 10)), Bounds::Kept);
    assert_eq!(p99.judge(&latency(970, 30)), Bounds::Broken);
    assert_eq!(p99.judge(&latency(999, 0)), Bounds::Unknown, "fewer than ten operations lie beyond p99");
    assert_eq!(p99.judge(&latency(500, 9)), Bounds::Unknown);
    assert_eq!(p99.judge(&latency(500, 10)), Bounds::Broken, "ten operations are enough to know that it is not kept");
    assert_eq!(p99.judge(&Latency::default()), Bounds::Unknown);
    let mean = search(Some(2.0), None);
    assert_eq!(
        [mean.judge(&latency(10, 0)), mean.judge(&latency(1, 1)), mean.judge(&Latency::default())],
        [Bounds::Kept, Bounds::Broken, Bounds::Unknown]
    );
    let both = search(Some(2.0), Some(5.0));
    assert_eq!(both.judge(&latency(10, 0)), Bounds::Unknown);
    assert_eq!(both.judge(&latency(1, 1)), Bounds::Broken, "a mean that is too long is known");
}
