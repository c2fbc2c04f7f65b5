//! Writes the manual page and the shells' completions into a folder, from the command line's own
//! definition: `cargo run --example manual -- FOLDER`.
//!
//! An example and no verb of the program: what only packaging needs is then no part of the program,
//! and its crates are only the tests'.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use clap_complete::{Shell, generate_to};
use clap_mangen::Man;

const NAME: &str = "gguf-fs";

/// What the definition does not say.
const SECTIONS: &str = include_str!("sections.roff");

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::args_os().nth(1).ok_or("usage: manual FOLDER")?);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("gguf-fs.1"), page()?)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut gguf_fs::cli::command(), NAME, &folder)?;
    }
    Ok(())
}

fn page() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut command = gguf_fs::cli::command();
    command.build();
    let man = Man::new(command.clone());
    let version = command.get_version().unwrap_or_default();
    let title = format!(".TH GGUF-FS 1 \"\" \"gguf-fs {version}\" \"User Commands\"\n");
    let mut page = title.into_bytes();
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    for verb in command.get_subcommands() {
        page.extend(self::verb(verb)?.bytes());
    }
    page.extend(SECTIONS.bytes());
    Ok(page)
}

/// A verb's usage, description and options as one section.
fn verb(verb: &clap::Command) -> Result<String, Box<dyn Error>> {
    let man = Man::new(verb.clone());
    let mut parts = format!(".SH \"THE VERB {}\"\n", verb.get_name().to_uppercase()).into_bytes();
    man.render_synopsis_section(&mut parts)?;
    man.render_description_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    let parts = String::from_utf8(parts)?;
    let heading =
        |line: &&str| !["SYNOPSIS", "OPTIONS"].iter().any(|h| *line == format!(".SH {h}"));
    let lines = parts.lines().filter(heading);
    Ok(lines
        .map(|line| if line == ".SH DESCRIPTION" { ".PP" } else { line }.to_owned() + "\n")
        .collect())
}
