//! How fast one thread decodes each type, at every level of this CPU.
//!
//! `cargo bench --bench decode` prints a tree of timings; `cargo bench --bench decode -- --table`
//! prints lines of `type isa melem_per_s` for a program to read.

use std::fmt;
use std::time::{Duration, Instant};

use divan::counter::ItemsCount;
use gguf_fs::ggml::isa::Isa;
use gguf_fs::ggml::{TABLE, Type};

/// Elements decoded in one go: 256 KiB of `f32`, which an L2 cache holds with its source.
const LEN: usize = 1 << 16;

struct Case {
    of: &'static Type,
    isa: Isa,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.of.name, self.isa.name())
    }
}

fn cases() -> impl Iterator<Item = Case> {
    TABLE.iter().flat_map(|of| {
        let isas = Isa::ALL.into_iter().filter(|&isa| isa <= Isa::best());
        isas.map(move |isa| Case { of, isa })
    })
}

/// A case's source and destination, both at the start of a cache line.
struct Buffers {
    src: Vec<u8>,
    dst: Vec<f32>,
}

impl Buffers {
    fn new(case: &Case) -> Self {
        let bytes = LEN / case.of.block_len as usize * case.of.block_bytes as usize;
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        Self { src: noise.take(bytes + 64).collect(), dst: vec![0.0; LEN + 16] }
    }

    fn decode(&mut self, case: &Case) {
        let (src, dst) = (self.src.as_ptr().align_offset(64), self.dst.as_ptr().align_offset(64));
        let bytes = self.src.len() - 64;
        let dst = &mut self.dst[dst..][..LEN];
        case.of.decode_with(case.isa, &self.src[src..][..bytes], dst);
        divan::black_box(dst);
    }
}

#[divan::bench(args = cases())]
fn decode(bencher: divan::Bencher, case: &Case) {
    let mut buffers = Buffers::new(case);
    bencher.counter(ItemsCount::new(LEN)).bench_local(|| buffers.decode(case));
}

/// The best of many runs: what the machine can do when nobody disturbs it.
fn print_table() {
    println!("type isa melem_per_s");
    for case in cases() {
        let mut buffers = Buffers::new(&case);
        let mut best = Duration::MAX;
        let end = Instant::now() + Duration::from_millis(50);
        while Instant::now() < end {
            let start = Instant::now();
            buffers.decode(&case);
            best = best.min(start.elapsed());
        }
        println!("{case} {:.0}", LEN as f64 / best.as_secs_f64() / 1e6);
    }
}

fn main() {
    if std::env::args().any(|arg| arg == "--table") { print_table() } else { divan::main() }
}
