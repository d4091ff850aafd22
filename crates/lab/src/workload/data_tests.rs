use super::*;
use std::collections::HashMap;

fn blocks(data: Data, n: usize) -> Vec<Vec<u8>> {
    let mut f = Filler::new(data, 5, 1);
    let mut buffer = vec![0; 4 * BLOCK_BYTES];
    f.first(&mut buffer);
    let mut all = Vec::new();
    while all.len() < n {
        f.again(&mut buffer);
        all.extend(buffer.chunks(BLOCK_BYTES).map(<[u8]>::to_vec));
    }
    all
}

fn equal_share(all: &[Vec<u8>]) -> f64 {
    let mut counts: HashMap<&[u8], u32> = HashMap::new();
    all.iter().for_each(|b| *counts.entry(b).or_default() += 1);
    f64::from(counts.values().filter(|&&c| c > 1).sum::<u32>()) / all.len() as f64
}

#[test]
fn blocks_differ_unless_they_are_meant_to_be_equal() {
    assert_eq!(equal_share(&blocks(Data::default(), 4000)), 0.0);
    let share = equal_share(&blocks(Data { compressible: 0.0, duplicates: 0.3 }, 8000));
    assert!((share - 0.3).abs() < 0.03, "{share}");
}

#[test]
fn threads_write_different_blocks() {
    let block = |thread| {
        let mut b = vec![0; BLOCK_BYTES];
        Filler::new(Data::default(), 5, thread).first(&mut b);
        b
    };
    assert_ne!(block(1), block(2));
    assert_eq!(block(1), block(1));
}

#[test]
fn the_share_that_a_compressor_takes_away_is_zeroes() {
    for compressible in [0.0, 0.25, 0.75] {
        let all = blocks(Data { compressible, duplicates: 0.1 }, 100);
        let zeroes = all.iter().flatten().filter(|&&b| b == 0).count() as f64 / (100 * BLOCK_BYTES) as f64;
        assert!((zeroes - compressible).abs() < 0.01, "{zeroes} for {compressible}");
    }
}
