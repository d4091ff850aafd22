//! The commands of `basalt` that a page of the documentation shows, in its order.
//!
//! Owns: reading Markdown and shell as far as the pages use them: blocks, code within a line, comments, continued lines, `&&`, pipes.
//! Never: runs anything. The unit tests of the command line and the tests of the daemon both read pages by it.

/// A command as a page shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The line of the page, from 1.
    pub line: usize,
    /// It stands in a block, to be typed as it is; else within a line, where it may be no more than a name.
    pub block: bool,
    /// From `basalt` on, without comments and redirections.
    pub words: Vec<String>,
}

impl Shown {
    /// As one types it.
    pub fn text(&self) -> String {
        self.words.join(" ")
    }
}

/// All commands of a page.
pub fn commands(page: &str) -> Vec<Shown> {
    let mut shown = Vec::new();
    let (mut fenced, mut was_block, mut blank) = (None, false, true);
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let number = number + 1;
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fenced = if fenced.is_some() { None } else { Some(language.trim()) };
            continue;
        }
        let block = match fenced {
            Some(language) => language.is_empty() || language == "sh",
            // In a list, a block is indented by what the text is indented by, and four.
            None => line.starts_with("    ") && (blank || was_block),
        };
        blank = line.trim().is_empty();
        was_block = block || (was_block && blank);
        if block {
            let mut whole = line.trim().to_owned();
            while let Some(part) = whole.strip_suffix('\\') {
                let next = lines.next().map_or("", |(_, next)| next.trim());
                whole = format!("{part} {next}");
            }
            shown.extend(shell(&whole).into_iter().map(|words| Shown { line: number, block: true, words }));
        } else if fenced.is_none() {
            let code = line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("basalt "));
            shown.extend(code.flat_map(shell).map(|words| Shown { line: number, block: false, words }));
        }
    }
    shown
}

/// The commands of `basalt` on a line of shell.
fn shell(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word, mut quote) = (Vec::new(), Vec::new(), String::new(), None);
    for letter in line.chars() {
        match (letter, quote) {
            (_, Some(end)) if letter == end => quote = None,
            (_, Some(_)) => word.push(letter),
            ('\'' | '"', None) => quote = Some(letter),
            (' ' | '&' | '|' | ';' | '>' | '#', None) => {
                if letter == '#' && !word.is_empty() {
                    word.push('#');
                    continue;
                }
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                match letter {
                    '#' => break,
                    '>' => words.push(">".into()),
                    '&' | '|' | ';' => all.push(std::mem::take(&mut words)),
                    _ => {}
                }
            }
            _ => word.push(letter),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    all.push(words);
    let ours = all.into_iter().filter(|words| words.first().is_some_and(|first| first == "basalt"));
    ours.map(|words| words.into_iter().take_while(|word| word != ">").collect()).collect()
}
