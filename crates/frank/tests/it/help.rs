//! The help of the program and of every subcommand, which also lists what there is.

use crate::program::frank;

/// The subcommands that `frank --help` lists.
fn subcommands() -> Vec<String> {
    let help = frank(["--help"]).ended(0).stdout;
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let names = list.lines().take_while(|line| !line.is_empty()).filter_map(|line| {
        // A description that needs a second line is indented further.
        let line = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
        line.split_whitespace().next().map(str::to_owned)
    });
    names.collect()
}

#[test]
fn the_program_says_what_it_can_do() {
    insta::assert_snapshot!("frank", frank(["--help"]).ended(0).stdout);
}

#[test]
fn every_subcommand_explains_itself() {
    let names = subcommands();
    assert!(
        names.contains(&"fit".to_owned()) && names.contains(&"inspect".to_owned()),
        "{names:?}"
    );
    for name in names {
        let run = frank([&name, "--help"]).ended(0);
        assert_eq!(run.stderr, "");
        insta::assert_snapshot!(name, run.stdout);
    }
}

#[test]
fn the_version_is_one_line() {
    let run = frank(["--version"]).ended(0);
    assert_eq!(run.stdout, format!("frank {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn without_a_subcommand_the_help_goes_to_stderr() {
    let run = frank([""; 0]).ended(2);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("Commands:"), "{run:?}");
}
