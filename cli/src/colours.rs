//! Whether what the command writes has colours: where a terminal is there, unless the user says otherwise
//! (no-color.org, bixense.com/clicolors).

use std::ffi::OsStr;
use std::io::IsTerminal;

use ironverbs_os::environment::harmless;

/// Whether text for this stream has colours.
pub fn are_wanted(stream: &impl IsTerminal) -> bool {
    decide(stream.is_terminal(), |name| match name {
        Variable::NoColor => harmless("NO_COLOR"),
        Variable::CliColor => harmless("CLICOLOR"),
        Variable::Force => harmless("CLICOLOR_FORCE"),
        Variable::Term => harmless("TERM"),
    })
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variable {
    /// Any value that is not empty: none.
    NoColor,
    /// 0: none.
    CliColor,
    /// Neither empty nor 0: also without a terminal.
    Force,
    /// dumb: none.
    Term,
}

fn decide<T: AsRef<OsStr>>(is_terminal: bool, value: impl Fn(Variable) -> Option<T>) -> bool {
    let is = |variable, text: &str| value(variable).is_some_and(|value| value.as_ref() == text);
    let is_set = |variable| value(variable).is_some_and(|value| !value.as_ref().is_empty());
    if is_set(Variable::NoColor) {
        return false;
    }
    if is_set(Variable::Force) && !is(Variable::Force, "0") {
        return true;
    }
    is_terminal && !is(Variable::CliColor, "0") && !is(Variable::Term, "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(is_terminal: bool, set: &[(Variable, &'static str)]) -> bool {
        decide(is_terminal, |asked| set.iter().find(|(name, _)| *name == asked).map(|(_, value)| *value))
    }

    #[test]
    fn the_user_has_the_last_word() {
        use Variable::{CliColor, Force, NoColor, Term};
        assert!(with(true, &[]) && !with(false, &[]));
        assert!(
            !with(true, &[(NoColor, "1")]) && !with(true, &[(NoColor, "0")]) && with(true, &[(NoColor, "")])
        );
        assert!(!with(true, &[(CliColor, "0")]) && with(true, &[(CliColor, "1")]));
        assert!(!with(false, &[(CliColor, "1")]));
        assert!(
            with(false, &[(Force, "1")]) && !with(false, &[(Force, "0")]) && !with(false, &[(Force, "")])
        );
        assert!(
            !with(false, &[(Force, "1"), (NoColor, "1")]) && with(false, &[(Force, "1"), (CliColor, "0")])
        );
        assert!(!with(true, &[(Term, "dumb")]) && with(true, &[(Term, "xterm")]));
    }
}
