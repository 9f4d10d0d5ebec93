//! The modules of a crate and which of them name things of which others: import cycles.
//!
//! A module is a file here; modules inside a file are part of it. A file has an arrow to another
//! one where its code names something that is defined there, by whatever way it came to the name:
//! a `use`, a glob, a re-export of a third file. A re-export alone makes no arrow; neither does
//! `mod`. Tests are left out.
//!
//! What this cannot see: methods. `self.publish()` names no file, so a type whose `impl` blocks lie
//! in several files shows only the arrows from those blocks to the type.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// How many re-exports and globs a name is followed through.
const FOLLOWED_MAX: u32 = 16;

/// Where a module stands in [`Sources::modules`].
type ModuleAt = usize;
/// Where a file stands in [`Sources::files`].
type FileAt = usize;

/// The files of a crate with the modules in them.
#[derive(Default)]
pub struct Sources {
    /// The files' paths below the crate's `src`.
    pub files: Vec<String>,
    modules: Vec<Module>,
}

#[derive(Default)]
struct Module {
    file: FileAt,
    parent: Option<ModuleAt>,
    children: BTreeMap<String, ModuleAt>,
    defined: BTreeSet<String>,
    imports: BTreeMap<String, Import>,
    globs: Vec<Vec<String>>,
    /// Paths that the module's code names.
    named: BTreeSet<Vec<String>>,
}

/// A file that is to be read.
struct Waiting {
    path: PathBuf,
    /// Where the files of its modules lie.
    children: PathBuf,
    parent: Option<ModuleAt>,
    /// The module's name.
    name: String,
}

/// Where a module stands.
struct Place {
    file: FileAt,
    parent: Option<ModuleAt>,
    name: String,
    /// Where the files of its modules lie.
    folder: PathBuf,
}

/// What a `use` brings.
struct Import {
    path: Vec<String>,
    is_public: bool,
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Module(ModuleAt),
    Item(FileAt),
}

/// From file to file, with the names that make the arrow.
pub type Arrows = BTreeMap<FileAt, BTreeMap<FileAt, BTreeSet<String>>>;

impl Sources {
    /// Reads a crate from its root file.
    pub fn read(root: &Path) -> Result<Self> {
        let mut load = |path: &Path| {
            fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
        };
        Self::read_with(root, &mut load, &|path| path.exists())
    }

    fn read_with(
        root: &Path,
        load: &mut dyn FnMut(&Path) -> Result<String>,
        exists: &dyn Fn(&Path) -> bool,
    ) -> Result<Self> {
        let folder = root.parent().context("a root file without a folder")?;
        let mut sources = Self::default();
        let mut waiting = vec![Waiting {
            path: root.to_owned(),
            children: folder.to_owned(),
            parent: None,
            name: String::new(),
        }];
        while let Some(next) = waiting.pop() {
            let path = next.path;
            let text = load(&path)?;
            let parsed =
                syn::parse_file(&text).with_context(|| format!("parse {}", path.display()))?;
            let shown = path.strip_prefix(folder).unwrap_or(&path);
            sources.files.push(shown.display().to_string());
            let file = sources.files.len() - 1;
            let place = Place {
                file,
                parent: next.parent,
                name: next.name,
                folder: next.children,
            };
            let mut outside = Vec::new();
            sources.add(place, &parsed.items, &mut outside);
            for (parent, name, folder) in outside {
                let flat = folder.join(format!("{name}.rs"));
                let path = match exists(&flat) {
                    true => flat,
                    false => folder.join(&name).join("mod.rs"),
                };
                waiting.push(Waiting {
                    path,
                    children: folder.join(&name),
                    parent: Some(parent),
                    name,
                });
            }
        }
        Ok(sources)
    }

    /// Adds a module; what it declares and lies in files of its own is in `outside`.
    fn add(
        &mut self,
        place: Place,
        items: &[syn::Item],
        outside: &mut Vec<(ModuleAt, String, PathBuf)>,
    ) {
        let Place {
            file,
            parent,
            name,
            folder,
        } = place;
        let at = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            ..Module::default()
        });
        if let Some(parent) = parent {
            self.modules[parent].children.insert(name, at);
        }
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                syn::Item::Mod(module) => {
                    let name = module.ident.to_string();
                    match &module.content {
                        Some((_, items)) => {
                            let inner = Place {
                                file,
                                parent: Some(at),
                                folder: folder.join(&name),
                                name,
                            };
                            self.add(inner, items, outside);
                        }
                        // A file of another crate, which is looked at there.
                        None if module.attrs.iter().any(|one| one.path().is_ident("path")) => {}
                        None => outside.push((at, name, folder.clone())),
                    }
                }
                syn::Item::Use(used) => {
                    let is_public = !matches!(used.vis, syn::Visibility::Inherited);
                    self.modules[at].import(&used.tree, &mut Vec::new(), is_public);
                }
                other => self.modules[at].define(other),
            }
        }
    }

    /// Which file names things of which other.
    pub fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (at, module) in self.modules.iter().enumerate() {
            let private = module.imports.values().filter(|import| !import.is_public);
            let paths = private.map(|import| &import.path).chain(&module.named);
            for path in paths {
                let file = match self.find(at, path, 0) {
                    Some(Found::Item(file)) => file,
                    // A module is no value: a variable has its name.
                    Some(Found::Module(_)) if path.len() == 1 => continue,
                    Some(Found::Module(found)) => self.modules[found].file,
                    None => continue,
                };
                if file != module.file {
                    let named = arrows.entry(module.file).or_default().entry(file);
                    named.or_default().insert(path.join("::"));
                }
            }
        }
        arrows
    }

    /// What a path leads to, from a module; nothing if that is outside the crate.
    fn find(&self, from: ModuleAt, path: &[String], followed: u32) -> Option<Found> {
        let (first, mut rest) = path.split_first()?;
        let mut found = match first.as_str() {
            "crate" => Found::Module(0),
            "self" => Found::Module(from),
            "super" => Found::Module(self.modules[from].parent?),
            name => self.look_up(from, name, followed)?,
        };
        while let (Found::Module(module), Some((name, behind))) = (found, rest.split_first()) {
            found = match name.as_str() {
                "super" => Found::Module(self.modules[module].parent?),
                "self" => found,
                // The module is there and the name is not: a macro made it.
                name => self
                    .look_up(module, name, followed)
                    .unwrap_or(Found::Item(self.modules[module].file)),
            };
            rest = behind;
        }
        Some(found)
    }

    fn look_up(&self, at: ModuleAt, name: &str, followed: u32) -> Option<Found> {
        let module = &self.modules[at];
        if module.defined.contains(name) {
            return Some(Found::Item(module.file));
        }
        if let Some(child) = module.children.get(name) {
            return Some(Found::Module(*child));
        }
        if followed == FOLLOWED_MAX {
            return None;
        }
        if let Some(import) = module.imports.get(name) {
            // `use bytes::Bytes` beside a module `bytes`: a name does not stand for itself.
            let is_itself = import.path.first().is_some_and(|first| first == name);
            return match is_itself {
                true => None,
                false => self.find(at, &import.path, followed + 1),
            };
        }
        module
            .globs
            .iter()
            .find_map(|glob| match self.find(at, glob, followed + 1)? {
                Found::Module(from) if from != at => self.look_up(from, name, followed + 1),
                _ => None,
            })
    }
}

impl Module {
    fn import(&mut self, tree: &syn::UseTree, before: &mut Vec<String>, is_public: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before, is_public);
                before.pop();
            }
            syn::UseTree::Name(name) => {
                let mut path = before.clone();
                let name = name.ident.to_string();
                if name != "self" {
                    path.push(name);
                }
                let last = path.last().cloned().unwrap_or_default();
                self.imports.insert(last, Import { path, is_public });
            }
            syn::UseTree::Rename(renamed) => {
                let mut path = before.clone();
                path.push(renamed.ident.to_string());
                let mut name = renamed.rename.to_string();
                if name == "_" {
                    name = format!("_ {}", path.join("::"));
                }
                self.imports.insert(name, Import { path, is_public });
            }
            syn::UseTree::Glob(_) => self.globs.push(before.clone()),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, is_public);
                }
            }
        }
    }

    fn define(&mut self, item: &syn::Item) {
        let name = match item {
            syn::Item::Const(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Fn(item) => Some(&item.sig.ident),
            syn::Item::Macro(item) => item.ident.as_ref(),
            syn::Item::Static(item) => Some(&item.ident),
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            _ => None,
        };
        if let Some(name) = name {
            self.defined.insert(name.to_string());
        }
        Names(self).visit_item(item);
    }

    fn name(&mut self, path: Vec<String>) {
        self.named.insert(path);
    }

    /// What a macro is given is not parsed: paths are picked out of it.
    fn name_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons < 2 && !path.is_empty() {
                        self.name(std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    if let TokenTree::Group(group) = other {
                        self.name_tokens(group.stream());
                    }
                    if !path.is_empty() {
                        self.name(std::mem::take(&mut path));
                    }
                    colons = 0;
                }
            }
        }
        if !path.is_empty() {
            self.name(path);
        }
    }
}

/// Gathers the paths that code names.
struct Names<'a>(&'a mut Module);

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        let words: Vec<String> = segments.map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_none() {
            self.0.name(words);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.0.name_tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }

    fn visit_item_use(&mut self, used: &'ast syn::ItemUse) {
        self.0.import(&used.tree, &mut Vec::new(), false);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// Whether attributes say that something is there for tests alone.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let words = list.tokens.to_string();
            words == "test" || words.starts_with("all (test") || words.starts_with("all(test")
        }
        _ => false,
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Files that lead to each other, as sets of more than one; the greatest first.
pub fn cycles(arrows: &Arrows) -> Vec<BTreeSet<FileAt>> {
    let reached: BTreeMap<FileAt, BTreeSet<FileAt>> = arrows
        .keys()
        .map(|&from| (from, reach(arrows, from)))
        .collect();
    let mut cycles: Vec<BTreeSet<FileAt>> = Vec::new();
    for (&from, reach) in &reached {
        if !reach.contains(&from) || cycles.iter().any(|cycle| cycle.contains(&from)) {
            continue;
        }
        let both = reach
            .iter()
            .filter(|&to| reached.get(to).is_some_and(|back| back.contains(&from)));
        cycles.push(both.copied().collect());
    }
    cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
    cycles
}

fn reach(arrows: &Arrows, from: FileAt) -> BTreeSet<FileAt> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(at) = waiting.pop() {
        for &to in arrows.get(&at).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(to) {
                waiting.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arrows and the cycles of a crate of these files, as text.
    fn check(files: &[(&str, &str)]) -> (Vec<String>, Vec<Vec<String>>) {
        let files: BTreeMap<PathBuf, &str> = files
            .iter()
            .map(|(path, text)| (Path::new("src").join(path), *text))
            .collect();
        let mut load = |path: &Path| {
            let text = files.get(path).context(path.display().to_string())?;
            Ok((*text).to_owned())
        };
        let exists = |path: &Path| files.contains_key(path);
        let root = Path::new("src/lib.rs");
        let sources = Sources::read_with(root, &mut load, &exists).unwrap();
        let name = |file: FileAt| sources.files[file].clone();
        let arrows = sources.arrows();
        let mut shown: Vec<String> = arrows
            .iter()
            .flat_map(|(from, to)| to.keys().map(|to| (*from, *to)))
            .map(|(from, to)| format!("{} -> {}", name(from), name(to)))
            .collect();
        shown.sort();
        let cycles = cycles(&arrows).into_iter().map(|cycle| {
            let mut names: Vec<String> = cycle.into_iter().map(name).collect();
            names.sort();
            names
        });
        (shown, cycles.collect())
    }

    #[test]
    fn finds_two_files_that_use_each_other() {
        let (arrows, cycles) = check(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            ("b.rs", "pub struct B; fn f(_: crate::a::A) {}"),
            ("c.rs", "use super::a::A; fn f(_: A) {}"),
        ]);
        assert_eq!(arrows, ["a.rs -> b.rs", "b.rs -> a.rs", "c.rs -> a.rs"]);
        assert_eq!(cycles, [["a.rs", "b.rs"]]);
    }

    #[test]
    fn follows_a_reexport_to_the_definition() {
        let (arrows, cycles) = check(&[
            ("lib.rs", "mod a; mod b; pub use a::inner::Deep;"),
            ("a.rs", "pub mod inner; pub struct A;"),
            ("a/inner.rs", "pub struct Deep(super::A);"),
            ("b.rs", "use crate::Deep as D; fn f(_: D) {}"),
        ]);
        assert_eq!(arrows, ["a/inner.rs -> a.rs", "b.rs -> a/inner.rs"]);
        assert_eq!(cycles, [[""; 0]; 0]);
    }

    #[test]
    fn sees_names_behind_globs_and_in_macros() {
        let (arrows, _) = check(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a/mod.rs", "pub struct A; pub fn made() {}"),
            ("b.rs", "use super::a::*; fn f() { let _ = A; }"),
            ("c.rs", "fn f() { assert_eq!(1, crate::a::made()); }"),
        ]);
        assert_eq!(arrows, ["b.rs -> a/mod.rs", "c.rs -> a/mod.rs"]);
    }

    #[test]
    fn leaves_tests_and_inner_modules_out() {
        let (arrows, cycles) = check(&[
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
            ),
            (
                "b.rs",
                "pub struct B(inner::C); mod inner { pub struct C(super::super::a::A); }",
            ),
        ]);
        assert_eq!(arrows, ["b.rs -> a.rs"]);
        assert_eq!(cycles, [[""; 0]; 0]);
    }

    #[test]
    fn takes_a_variable_for_no_module() {
        let (arrows, _) = check(&[
            (
                "lib.rs",
                "mod a; fn f() { let a = 1; assert_eq!(a, 1 + a); }",
            ),
            ("a.rs", "pub struct A;"),
        ]);
        assert_eq!(arrows, [""; 0]);
    }

    #[test]
    fn takes_other_crates_for_what_they_are() {
        let (arrows, _) = check(&[
            ("lib.rs", "mod bytes; mod a;"),
            ("bytes.rs", "pub struct B;"),
            (
                "a.rs",
                "use bytes::Bytes; use std::fmt; fn f(_: Bytes) -> fmt::Result { Ok(()) }",
            ),
        ]);
        assert_eq!(arrows, [""; 0]);
    }
}
