//! What was measured, for people, for programs, and against the budgets.

use std::time::Duration;

use lvcsi_kit::{paint, stats};
use serde_json::{Value, json};

use crate::strace::Count;

/// One create is at most that many floors.
const FLOORS: f64 = 3.0;
/// lvcreate takes at least that many of our creates.
const LVCREATE: f64 = 20.0;
/// System calls per create.
const SYSCALLS: f64 = 80.0;

/// Latency of one operation by one program.
pub(crate) struct Row {
    op: &'static str,
    who: &'static str,
    lvs: usize,
    rounds: usize,
    p50: Duration,
    p99: Duration,
}

impl Row {
    pub(crate) fn new(op: &'static str, who: &'static str, lvs: usize, all: &[Duration]) -> Self {
        let (p50, p99) = (stats::percentile(all, 50), stats::percentile(all, 99));
        Self {
            op,
            who,
            lvs,
            rounds: all.len(),
            p50,
            p99,
        }
    }

    fn json(&self) -> Value {
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        json!({
            "op": self.op, "who": self.who, "lvs": self.lvs, "rounds": self.rounds,
            "p50_us": micros(self.p50), "p99_us": micros(self.p99),
        })
    }
}

#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    counts: Vec<(usize, Count)>,
}

impl Report {
    /// Takes and prints the results for a VG with `lvs` LVs.
    pub(crate) fn add(&mut self, lvs: usize, rows: Vec<Row>, count: Count) {
        self.rows.extend(rows);
        println!("\n{}", paint::bold(&format!("{lvs} LVs in the VG")));
        println!(
            "{:<18} {:<6} {:>7} {:>10} {:>10}  ratio",
            "", "who", "rounds", "p50", "p99"
        );
        for op in ["create", "create after lvm2", "extend", "remove"] {
            let ours = self.p50(op, "lvcsi", lvs);
            for row in self
                .rows
                .iter()
                .filter(|row| row.op == op && row.lvs == lvs)
            {
                let (p50, p99) = (stats::human(row.p50), stats::human(row.p99));
                let ratio = match (ours, row.who) {
                    (Some(ours), "lvm2") => format!("{:.0} × ours", row.p50.as_secs_f64() / ours),
                    (Some(ours), "floor") => {
                        format!("ours is {:.2} × this", ours / row.p50.as_secs_f64())
                    }
                    _ => String::new(),
                };
                let line = format!(
                    "{:<18} {:<6} {:>7} {p50:>10} {p99:>10}",
                    op, row.who, row.rounds
                );
                println!("{line}  {}", paint::cyan(&ratio));
            }
        }
        let calls: Vec<String> = count
            .per_create
            .iter()
            .map(|(name, n)| format!("{name} {n:.1}"))
            .collect();
        println!(
            "system calls per create: {}, not counting the clock (execve: {})",
            paint::cyan(&format!("{:.1}", count.total())),
            count.execve
        );
        println!("  {}", paint::dim(&calls.join(", ")));
        self.counts.push((lvs, count));
    }

    fn p50(&self, op: &str, who: &str, lvs: usize) -> Option<f64> {
        let row = self
            .rows
            .iter()
            .find(|row| (row.op, row.who, row.lvs) == (op, who, lvs))?;
        Some(row.p50.as_secs_f64())
    }

    pub(crate) fn write_json(&self, path: &str) {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        let text = serde_json::to_string_pretty(&rows).expect("JSON");
        std::fs::write(path, text + "\n").unwrap_or_else(|e| panic!("{path}: {e}"));
    }

    /// A sentence for each budget that is exceeded.
    pub(crate) fn broken_budgets(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (lvs, count) in &self.counts {
            let p50 = |who| self.p50("create", who, *lvs).expect("create was measured");
            let (ours, floor, lvm2) = (p50("lvcsi"), p50("floor"), p50("lvm2"));
            if ours > FLOORS * floor {
                broken.push(format!(
                    "{lvs} LVs: create is {:.2} × the floor",
                    ours / floor
                ));
            }
            if ours * LVCREATE > lvm2 {
                broken.push(format!(
                    "{lvs} LVs: lvcreate is only {:.1} × create",
                    lvm2 / ours
                ));
            }
            if count.total() > SYSCALLS {
                broken.push(format!(
                    "{lvs} LVs: {:.1} system calls per create",
                    count.total()
                ));
            }
            if count.execve > 0 {
                broken.push(format!("{lvs} LVs: {} programs were started", count.execve));
            }
        }
        broken
    }
}
