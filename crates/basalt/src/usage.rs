//! Errors of the command line, as clap finds them, in words that help.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Without clap's advice to pass an option that there is not as a value behind `--`: no name and no size here begins with a dash.
pub fn without_odd_tips(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested)
    {
        tips.retain(|tip| !tip.to_string().contains("as a value, use"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;

    fn said(line: &str) -> String {
        without_odd_tips(Cli::try_parse_from(line.split_whitespace()).unwrap_err()).to_string()
    }

    #[test]
    fn an_option_that_there_is_not_is_not_called_a_value() {
        let text = said("basalt volume create v1 --size 1GiB --block-size 512");
        assert!(text.contains("unexpected argument '--block-size' found") && !text.contains("as a value"), "{text}");
        let text = said("basalt volume create v1 --siz 1GiB");
        assert!(text.contains("a similar argument exists: '--size'"), "{text}");
    }
}
