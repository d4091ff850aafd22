//! Drives by name, each figure with its source.
//!
//! Invariants: a figure that nobody published is called an assumption; MB are 10^6 bytes, MiB 2^20.
//! Never: adjusts a figure so that a study comes out right.

use rt::sim::{DriveSpeed, MixedSpeed};

const MB: f64 = 1e6;
const MIB: f64 = 1_048_576.0;

/// A drive that can be named in a cluster file.
#[derive(Clone, Debug)]
pub struct DriveModel {
    /// As in cluster files.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
    /// Bytes that it offers.
    pub bytes: u64,
    /// Drive writes a day over five years that its maker promises.
    pub writes_a_day: f64,
    /// Its figures.
    pub speed: DriveSpeed,
    /// (figure, value, source).
    pub sources: &'static [(&'static str, &'static str, &'static str)],
}

const STUDY: &str = "the published cache-tier study: what the device did in its cluster";
const ASSUMED: &str = "assumption";
const FITTED: &str = "fitted: sequential over random writes gives the spare flash";

/// What most enterprise drives have alike.
fn flash() -> DriveSpeed {
    DriveSpeed {
        read_ns: (80_000, 110_000),
        write_ns: (15_000, 25_000),
        flush_ns: (5_000, 15_000),
        read_iops: 1e6,
        read_bytes_per_s: 1e9,
        write_iops: 1e6,
        write_bytes_per_s: 1e9,
        spare: f64::INFINITY,
        used: 1.0,
        mixed: None,
        buffer_bytes: 8e6,
        collision_ns: (100_000, 800_000),
        fast: None,
        link_bytes_per_s: 1e9,
        tail_one_in: 1000,
        tail_times: 4,
    }
}

/// All of them.
pub fn all() -> Vec<DriveModel> {
    vec![sas_nand(), sas_capacity(), optane_study(), optane(), cm6(), micron_9300(), sata()]
}

/// One by its name.
pub fn find(name: &str) -> Option<DriveModel> {
    all().into_iter().find(|d| d.name == name)
}

fn sas_nand() -> DriveModel {
    DriveModel {
        name: "sas-nand-800",
        description: "800 GB SAS 12 Gb/s NAND cache drive, 3 drive writes a day",
        bytes: 800_000_000_000,
        writes_a_day: 3.0,
        speed: DriveSpeed {
            read_iops: 200_000.0,
            read_bytes_per_s: 1_100.0 * MB,
            write_iops: 190_000.0,
            write_bytes_per_s: 750.0 * MIB,
            mixed: Some(MixedSpeed { read_bytes_per_s: 368.0 * MIB, write_bytes_per_s: 439.0 * MIB }),
            link_bytes_per_s: 1_200.0 * MB,
            ..flash()
        },
        sources: &[
            ("sustained writes", "750 MiB/s", STUDY),
            ("half reads, half writes", "368 MiB/s + 439 MiB/s", STUDY),
            ("reads alone", "1,100 MB/s", "assumption: what a 12 Gb/s SAS link carries"),
            ("write amplification", "in the sustained figure", STUDY),
            ("latencies, buffer, collisions", "80 to 110 µs, 15 to 25 µs, 8 MB, 0.1 to 0.8 ms", ASSUMED),
        ],
    }
}

fn sas_capacity() -> DriveModel {
    DriveModel {
        name: "sas-nand-3840",
        description: "3.84 TB SAS 12 Gb/s NAND capacity drive, 1 drive write a day",
        bytes: 3_840_000_000_000,
        writes_a_day: 1.0,
        speed: DriveSpeed {
            read_iops: 200_000.0,
            read_bytes_per_s: 1_100.0 * MB,
            write_iops: 190_000.0,
            write_bytes_per_s: 1_000.0 * MB,
            spare: DriveSpeed::spare_for(1_000.0 * MB, 300.0 * MB),
            link_bytes_per_s: 1_200.0 * MB,
            ..flash()
        },
        sources: &[(
            "all figures",
            "1,100 / 1,000 MB/s, 300 MB/s of random writes",
            "assumption: the study does not say what its capacity drives were",
        )],
    }
}

fn optane_study() -> DriveModel {
    DriveModel {
        name: "optane-p5800x-400-study",
        description: "400 GB Optane P5800X as it did in the published cache-tier study, where something else than the drive held it at 1,100 MiB/s",
        speed: DriveSpeed {
            write_bytes_per_s: 1_100.0 * MIB,
            mixed: Some(MixedSpeed { read_bytes_per_s: 965.0 * MIB, write_bytes_per_s: 1_019.0 * MIB }),
            ..optane().speed
        },
        sources: &[
            ("sustained writes", "1,100 MiB/s", STUDY),
            ("half reads, half writes", "965 MiB/s + 1,019 MiB/s", STUDY),
            ("everything else", "as optane-p5800x-400", "see there"),
        ],
        ..optane()
    }
}

fn optane() -> DriveModel {
    const BRIEF: &str = "Intel product brief of the P5800X (2020), as commonly quoted; not looked up again";
    DriveModel {
        name: "optane-p5800x-400",
        description: "400 GB Optane P5800X by its data sheet, 100 drive writes a day",
        bytes: 400_000_000_000,
        writes_a_day: 100.0,
        speed: DriveSpeed {
            read_ns: (5_000, 6_000),
            write_ns: (5_000, 7_000),
            flush_ns: (2_000, 4_000),
            read_iops: 1_500_000.0,
            read_bytes_per_s: 7_200.0 * MB,
            write_iops: 1_150_000.0,
            write_bytes_per_s: 4_800.0 * MB,
            buffer_bytes: 1e6,
            collision_ns: (0, 0),
            link_bytes_per_s: 7_880.0 * MB,
            tail_one_in: 10_000,
            tail_times: 3,
            ..flash()
        },
        sources: &[
            ("reads", "1.5 M IOPS, 7,200 MB/s, about 5 µs", BRIEF),
            ("writes", "1.15 M IOPS, 4,800 MB/s, about 5 µs; in place, no amplification", BRIEF),
            ("link", "PCIe 4 x4: 7.88 GB/s", "PCI Express 4.0"),
            ("tail, buffer", "1 in 10,000 three times as long, 1 MB", ASSUMED),
        ],
    }
}

fn cm6() -> DriveModel {
    const NEWS: &str = "heise online, Feb. 2020, of the maker's figures for the CM6 series";
    DriveModel {
        name: "kioxia-cm6-7680",
        description: "KIOXIA CM6-R 7.68 TB, PCIe 4, 1 drive write a day",
        bytes: 7_680_000_000_000,
        writes_a_day: 1.0,
        speed: DriveSpeed {
            read_iops: 1_400_000.0,
            read_bytes_per_s: 6_900.0 * MB,
            write_iops: 1_000_000.0,
            write_bytes_per_s: 4_200.0 * MB,
            spare: DriveSpeed::spare_for(4_200.0 * MB, 170_000.0 * 4096.0),
            buffer_bytes: 32e6,
            link_bytes_per_s: 7_880.0 * MB,
            ..flash()
        },
        sources: &[
            ("reads", "1.4 M IOPS, 6.9 GB/s", NEWS),
            ("writes", "4.2 GB/s in order, 170,000 IOPS at random", NEWS),
            ("spare flash", "9 %", FITTED),
            ("latencies", "80 to 110 µs, 15 to 25 µs", "assumption, near Micron's data sheet of the 9200 (92 µs, 21 µs)"),
            ("buffer, collisions", "32 MB, 0.1 to 0.8 ms", ASSUMED),
        ],
    }
}

fn micron_9300() -> DriveModel {
    DriveModel {
        name: "micron-9300-15360",
        description: "Micron 9300, 15.36 TB, PCIe 3 (the study calls it MAX; a MAX has 12.8 TB, 15.36 TB is the PRO)",
        bytes: 15_360_000_000_000,
        writes_a_day: 1.0,
        speed: DriveSpeed {
            read_ns: (84_000, 100_000),
            write_ns: (15_000, 25_000),
            read_iops: 850_000.0,
            read_bytes_per_s: 3_500.0 * MB,
            write_iops: 850_000.0,
            write_bytes_per_s: 3_500.0 * MB,
            spare: DriveSpeed::spare_for(3_500.0 * MB, 150_000.0 * 4096.0),
            buffer_bytes: 32e6,
            link_bytes_per_s: 3_940.0 * MB,
            ..flash()
        },
        sources: &[
            ("reads", "850 k IOPS, 3.5 GB/s", "the published study of one drive as 24 devices"),
            ("writes in order", "3.5 GB/s", "Micron's data sheet of the 9200, its predecessor"),
            ("writes at random", "150,000 IOPS", "product brief of the 9300 PRO, as commonly quoted; not looked up again"),
            ("latencies", "92 µs, 21 µs at depth 1", "Micron's data sheet of the 9200"),
            ("buffer, collisions", "32 MB, 0.1 to 0.8 ms", ASSUMED),
        ],
    }
}

fn sata() -> DriveModel {
    const SPEC: &str = "Intel product specification, SSD DC S4500 and S4600 series";
    DriveModel {
        name: "intel-s4600-960",
        description: "Intel S4600 960 GB, SATA 6 Gb/s",
        bytes: 960_197_124_096,
        writes_a_day: 3.0,
        speed: DriveSpeed {
            read_ns: (90_000, 116_000),
            write_ns: (40_000, 50_000),
            flush_ns: (50_000, 100_000),
            read_iops: 72_000.0,
            read_bytes_per_s: 500.0 * MB,
            write_iops: 120_000.0,
            write_bytes_per_s: 490.0 * MB,
            spare: DriveSpeed::spare_for(490.0 * MB, 65_000.0 * 4096.0),
            buffer_bytes: 8e6,
            link_bytes_per_s: 560.0 * MB,
            ..flash()
        },
        sources: &[
            ("reads", "72,000 IOPS, 500 MB/s, 110 µs", SPEC),
            ("writes", "65,000 IOPS at random, 490 MB/s, 52 µs", SPEC),
            ("spare flash", "37 %", FITTED),
            ("link", "560 MB/s", "SATA 6 Gb/s less its framing"),
            ("buffer, collisions, flush", "8 MB, 0.1 to 0.8 ms, 50 to 100 µs", ASSUMED),
        ],
    }
}

#[cfg(test)]
#[path = "drives_tests.rs"]
mod tests;
