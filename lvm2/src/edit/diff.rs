//! What a change does to the text.

use std::fmt::Write as _;

use crate::model::Vg;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Above this many differing lines the shortest diff is not looked for.
const MAX_CHANGES: usize = 1000;

/// A unified diff of the texts of two VGs, empty if they are the same.
#[must_use]
pub fn diff(old: &Vg, new: &Vg) -> String {
    diff_texts(&old.print(), &new.print())
}

/// A unified diff of two texts, for a VG that comes or goes.
#[must_use]
pub fn diff_texts(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    unified(&old, &new, &script(&old, &new))
}

/// What becomes of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Keep,
    Remove,
    Add,
}

/// The steps from one text to the other.
fn script(old: &[&str], new: &[&str]) -> Vec<Step> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(new).take_while(same).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(same)
        .count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let middle = shortest(old, new).unwrap_or_else(|| {
        let mut all = vec![Step::Remove; old.len()];
        all.extend(std::iter::repeat_n(Step::Add, new.len()));
        all
    });
    let mut steps = vec![Step::Keep; head];
    steps.extend(middle);
    steps.extend(std::iter::repeat_n(Step::Keep, tail));
    steps
}

/// The shortest script, by Myers's greedy search for the furthest reach on
/// each diagonal; `None` if it has too many changes.
fn shortest(old: &[&str], new: &[&str]) -> Option<Vec<Step>> {
    let limit = (old.len() + new.len()).min(MAX_CHANGES);
    // `reach[k + limit + 1]` is how far into `old` diagonal k gets.
    let mut reach = vec![0usize; 2 * limit + 3];
    let mut history = Vec::new();
    for changes in 0..=limit {
        history.push(reach.clone());
        for at in (limit + 1 - changes..=limit + 1 + changes).step_by(2) {
            let down = goes_down(&reach, at, changes, limit);
            let mut x = if down {
                reach[at + 1]
            } else {
                reach[at - 1] + 1
            };
            let mut y = x + limit + 1 - at;
            while x < old.len() && y < new.len() && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            reach[at] = x;
            if x >= old.len() && y >= new.len() {
                return Some(walk_back(&history, old.len(), new.len(), limit));
            }
        }
    }
    None
}

/// Whether the best way to a diagonal is to add a line, not to remove one.
fn goes_down(reach: &[usize], at: usize, changes: usize, limit: usize) -> bool {
    at == limit + 1 - changes || (at != limit + 1 + changes && reach[at - 1] < reach[at + 1])
}

fn walk_back(history: &[Vec<usize>], mut x: usize, mut y: usize, limit: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for (changes, reach) in history.iter().enumerate().rev() {
        let at = x + limit + 1 - y;
        let down = goes_down(reach, at, changes, limit);
        let (before_x, before_y) = if changes == 0 {
            (0, 0)
        } else if down {
            (reach[at + 1], reach[at + 1] + limit - at)
        } else {
            (reach[at - 1], reach[at - 1] + limit + 2 - at)
        };
        while x > before_x && y > before_y {
            steps.push(Step::Keep);
            (x, y) = (x - 1, y - 1);
        }
        if changes > 0 {
            steps.push(if down { Step::Add } else { Step::Remove });
        }
        (x, y) = (before_x, before_y);
    }
    steps.reverse();
    steps
}

/// Prints the steps with context, in hunks.
fn unified(old: &[&str], new: &[&str], steps: &[Step]) -> String {
    let changed: Vec<usize> = steps
        .iter()
        .enumerate()
        .filter(|(_, s)| **s != Step::Keep)
        .map(|(i, _)| i)
        .collect();
    let mut out = String::new();
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for at in changed {
        let (from, to) = (
            at.saturating_sub(CONTEXT),
            (at + CONTEXT + 1).min(steps.len()),
        );
        match hunks.last_mut() {
            Some(last) if from <= last.1 => last.1 = to,
            _ => hunks.push((from, to)),
        }
    }
    let (mut at, mut in_old, mut in_new) = (0, 0, 0);
    for (from, to) in hunks {
        // Between hunks every line is kept.
        (in_old, in_new) = (in_old + from - at, in_new + from - at);
        let count = |skip: Step| steps[from..to].iter().filter(|step| **step != skip).count();
        let (olds, news) = (count(Step::Add), count(Step::Remove));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "@@ -{},{olds} +{},{news} @@", in_old + 1, in_new + 1);
        for step in &steps[from..to] {
            let (mark, line) = match step {
                Step::Keep => (' ', old[in_old]),
                Step::Remove => ('-', old[in_old]),
                Step::Add => ('+', new[in_new]),
            };
            let _ = writeln!(out, "{mark}{line}");
            in_old += usize::from(*step != Step::Add);
            in_new += usize::from(*step != Step::Remove);
        }
        at = to;
    }
    out
}
