//! The manifests of the crates: which dependencies each one has. Never resolves versions or features.

use toml::{Table, Value};

use super::tree::Tree;

/// A crate of this workspace and what it depends on.
pub(super) struct Manifest {
    pub(super) path: String,
    pub(super) name: String,
    /// Names of all dependencies but those for development, as the packages are called.
    pub(super) dependencies: Vec<String>,
}

/// The manifests of all crates, or the path of one that cannot be read and what is wrong with it.
pub(super) fn all(tree: &Tree) -> Vec<Result<Manifest, (String, String)>> {
    let manifests = tree.files().filter(|(path, _)| {
        *path == "xtask/Cargo.toml" || path.starts_with("crates/") && path.ends_with("/Cargo.toml")
    });
    manifests
        .map(|(path, text)| parse(path, text).map_err(|what| (path.to_owned(), what)))
        .collect()
}

fn parse(path: &str, text: &str) -> Result<Manifest, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let name = table.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
    let name = name.ok_or("it has no package name")?.to_owned();
    let mut dependencies = Vec::new();
    collect(&table, &mut dependencies);
    for target in table.get("target").and_then(Value::as_table).into_iter().flatten() {
        if let Some(table) = target.1.as_table() {
            collect(table, &mut dependencies);
        }
    }
    Ok(Manifest { path: path.to_owned(), name, dependencies })
}

fn collect(table: &Table, dependencies: &mut Vec<String>) {
    for section in ["dependencies", "build-dependencies"] {
        for (key, value) in table.get(section).and_then(Value::as_table).into_iter().flatten() {
            let renamed = value.get("package").and_then(Value::as_str);
            dependencies.push(renamed.unwrap_or(key).to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_dependency_counts_but_those_for_development() {
        let text = "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\n\
                    c = { package = \"real-c\", version = \"1\" }\n[build-dependencies]\nd = \"1\"\n\
                    [dev-dependencies]\ne = \"1\"\n[target.'cfg(unix)'.dependencies]\nf = \"1\"\n";
        let tree = Tree::of(&[("crates/a/Cargo.toml", text), ("Cargo.toml", "")]);
        let manifests = all(&tree);
        let [Ok(manifest)] = manifests.as_slice() else { panic!("one manifest") };
        assert_eq!(manifest.name, "a");
        assert_eq!(manifest.dependencies, ["b", "real-c", "d", "f"]);
    }

    #[test]
    fn a_manifest_that_cannot_be_read_is_reported() {
        let tree = Tree::of(&[("crates/a/Cargo.toml", "["), ("xtask/Cargo.toml", "[package]")]);
        assert!(all(&tree).iter().all(Result::is_err));
    }
}
