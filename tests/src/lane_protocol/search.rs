//! Breadth first search through all states, and the walk back from those where all is delivered.

use std::{collections::HashMap, fmt, rc::Rc};

use super::world::{Scenario, Step, World};

/// What a search without a finding has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// Steps between them.
    pub steps: usize,
}

/// What must not be, and one of the shortest ways there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub what: &'static str,
    /// The steps from the start.
    pub trace: Vec<Step>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {:?}", self.what, self.trace)
    }
}

/// Visits every state of a scenario.
///
/// # Errors
/// The first [`Finding`]: something that must not be in a state or by a step, or a state from which ordinary steps alone
/// lead nowhere where all is delivered.
pub fn explore(scenario: &Scenario) -> Result<Explored, Finding> {
    let start = Rc::new(World::new(scenario));
    let mut numbers = HashMap::from([(Rc::clone(&start), 0)]);
    let mut states = vec![start];
    // How each state was reached first, and from where ordinary steps lead to it.
    let mut reached: Vec<Option<(usize, Step)>> = vec![None];
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let (mut at, mut steps) = (0, 0);
    while let Some(state) = states.get(at).map(Rc::clone) {
        for step in state.steps(scenario) {
            steps += 1;
            let next = state.after(scenario, step).map_err(|what| {
                let mut trace = trace(&reached, at);
                trace.push(step);
                Finding { what, trace }
            })?;
            let next = Rc::new(next);
            let number = *numbers.entry(Rc::clone(&next)).or_insert_with(|| {
                states.push(next);
                reached.push(Some((at, step)));
                before.push(Vec::new());
                states.len() - 1
            });
            if state.is_ordinary(step) && number != at {
                before[number].push(at);
            }
        }
        at += 1;
    }
    match stuck(&states, &before) {
        None => Ok(Explored { states: states.len(), steps }),
        Some(state) => Err(Finding { what: "nothing leads on to delivery", trace: trace(&reached, state) }),
    }
}

fn trace(reached: &[Option<(usize, Step)>], mut state: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some((from, step)) = reached[state] {
        steps.push(step);
        state = from;
    }
    steps.reverse();
    steps
}

/// The first state from which no ordinary steps lead to one where all is delivered.
fn stuck(states: &[Rc<World>], before: &[Vec<usize>]) -> Option<usize> {
    let mut good: Vec<bool> = states.iter().map(|state| state.is_done()).collect();
    let mut open: Vec<usize> = (0..states.len()).filter(|state| good[*state]).collect();
    while let Some(state) = open.pop() {
        for from in &before[state] {
            if !good[*from] {
                good[*from] = true;
                open.push(*from);
            }
        }
    }
    good.iter().position(|good| !good)
}
