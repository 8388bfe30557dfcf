//! Which programs of a node use its processors.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Node;

/// Processes as the kernel tells of them, and the driver's by what they are.
const LOOK: &str = "getconf CLK_TCK; cat /proc/[0-9]*/stat 2>/dev/null; for p in $(pgrep -x lvcsi); do \
                    printf 'role %s %s\\n' $p $(tr '\\0' ' ' </proc/$p/cmdline | cut -d' ' -f2); done; :";

/// CPU time by program since the node's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes(BTreeMap<String, Duration>);

impl CpuTimes {
    /// What was used until now. What a program started and has waited for is
    /// its own.
    #[must_use]
    pub fn of(node: Node) -> Self {
        Self::read(&node.run(LOOK))
    }

    fn read(text: &str) -> Self {
        let mut lines = text.lines();
        let ticks: f64 = lines
            .next()
            .and_then(|line| line.trim().parse().ok())
            .expect("ticks a second");
        let roles: BTreeMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("role ")?.split_once(' '))
            .collect();
        let mut times = BTreeMap::new();
        for line in lines {
            let Some((pid, name, used)) = process(line) else {
                continue;
            };
            let name = match roles.get(pid) {
                Some(role) => format!("{name} {role}"),
                None => name.to_owned(),
            };
            let time: &mut Duration = times.entry(name).or_default();
            *time += Duration::from_secs_f64(used / ticks);
        }
        Self(times)
    }

    /// What was used since `earlier`, most first.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Vec<(String, Duration)> {
        let used = |(name, now): (&String, &Duration)| {
            let before = earlier.0.get(name).copied().unwrap_or_default();
            (name.clone(), now.saturating_sub(before))
        };
        let mut all: Vec<_> = self.0.iter().map(used).collect();
        all.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        all
    }
}

/// Process id, name, and ticks used, of a line of `/proc/PID/stat` (proc(5)): the
/// name is in parentheses, and fields 14 to 17 are its own time and that of its
/// children, each in user space and in the kernel.
fn process(line: &str) -> Option<(&str, &str, f64)> {
    let (pid, rest) = line.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let used = rest.split(' ').skip(11).take(4);
    let used: Option<Vec<f64>> = used.map(|field| field.parse().ok()).collect();
    Some((pid, name, used?.iter().sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pid: u32, name: &str, used: [u32; 4]) -> String {
        let [a, b, c, d] = used;
        format!("{pid} ({name}) S 1 1 1 0 -1 4194560 10 20 0 0 {a} {b} {c} {d} 20 0 1 0")
    }

    #[test]
    fn programs_with_their_children_and_the_driver_by_what_it_is() {
        let before = CpuTimes::read(&format!("100\n{}\n", line(7, "kubelet", [10, 0, 0, 0])));
        let after = [
            "100".to_owned(),
            line(7, "kubelet", [50, 10, 0, 0]),
            line(8, "(udev) worker", [100, 0, 200, 50]),
            line(9, "lvcsi", [25, 0, 0, 0]),
            "role 9 agent".to_owned(),
        ];
        let used = CpuTimes::read(&after.join("\n")).since(&before);
        let seconds: Vec<_> = used
            .iter()
            .map(|(name, time)| (name.as_str(), time.as_secs_f64()))
            .collect();
        assert_eq!(
            seconds,
            [
                ("(udev) worker", 3.5),
                ("kubelet", 0.5),
                ("lvcsi agent", 0.25)
            ]
        );
    }
}
