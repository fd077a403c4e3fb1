//! Who answers a verb, from the Rust sources: which operations of the traits of objects an entry point leads
//! to, and which of them each provider implements.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};

use super::read;

/// How a device of some provider answers a verb.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The library does, without asking.
    Library,
    /// The provider does, by itself or by what native providers share.
    Provider,
    /// Of several operations the provider has some.
    Part,
    /// The device lacks the feature.
    Refused,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Library => "library",
            Self::Provider => "yes",
            Self::Part => "in part",
            Self::Refused => "—",
        })
    }
}

/// What a function calls, as methods and as paths (the last two names).
#[derive(Default)]
struct Function {
    methods: BTreeSet<String>,
    paths: BTreeSet<(String, String)>,
}

/// What a provider implements.
#[derive(Default)]
struct Implementation {
    methods: BTreeSet<String>,
    /// Functions of the data path that only refuse.
    refused: BTreeSet<String>,
    /// Fields that the provider's files assign: functions of queues and queue pairs.
    assigned: BTreeSet<String>,
    /// Files of `src/provider` whose macro [`ASSIGNS`] its files use, to assign more of them.
    assigns_by: BTreeSet<String>,
}

/// What the sources say.
#[derive(Default)]
pub struct Source {
    /// Operations of the traits of objects, and who answers where a provider leaves the default.
    operations: BTreeMap<String, Answer>,
    /// By folder of `src/provider`.
    implementations: BTreeMap<String, Implementation>,
    /// By file and name.
    functions: BTreeMap<(String, String), Function>,
    /// Exported names and versions, with file and name of the function; variables and C functions have none.
    exports: BTreeMap<String, Option<(String, String)>>,
    /// Slots of the tables in a context, and the functions in them (last two names of the path).
    slots: BTreeMap<String, (String, String)>,
    data_path: BTreeSet<String>,
    /// The fields that the macro [`ASSIGNS`] of a file of `src/provider` assigns.
    shared: BTreeMap<String, BTreeSet<String>>,
    headers: String,
}

const TABLE: &str = "src/api/table.rs";
/// The macro there that names those which inline functions alone call.
const SLOTS: &str = "inline_slots";
const TRAITS: &str = "src/provider/verbs/";
const DATA_PATH: &str = "src/provider/data_path.rs";
const API: &str = "src/api/";
const PROVIDERS: &str = "src/provider/";
/// The folder of what serves all plugins.
const PLUGINS: &str = "plugin";
/// The macro by which providers that have the same functions assign them.
const ASSIGNS: &str = "set_functions";
/// Refuses, in a slot of the data path.
const REFUSES: &str = "no_srq_ops";

impl Source {
    /// Reads all of `src`, and the headers' inline functions.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut source = Self::default();
        let mut files = Vec::new();
        collect(&root.join("src"), &mut files)?;
        files.sort();
        for path in files {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
            if name.ends_with(".c") {
                source.read_c(&text);
            } else if name.ends_with(".rs") && !name.contains("test") {
                let file = syn::parse_file(&text).map_err(|error| format!("{name}: {error}"))?;
                FileReader { source: &mut source, name: name.clone(), current: None }.visit_file(&file);
            }
        }
        // Methods of other traits are no operations, and other folders hold what providers share.
        for implementation in source.implementations.values_mut() {
            implementation.methods.retain(|method| source.operations.contains_key(method));
            for file in &implementation.assigns_by {
                let fields = source.shared.get(file).ok_or_else(|| format!("no macro {file}::{ASSIGNS}"))?;
                implementation.assigned.extend(fields.iter().cloned());
            }
        }
        source.implementations.retain(|_, implementation| !implementation.methods.is_empty());
        for header in ["verbs.h", "verbs_inline.h", "verbs_api.h"] {
            source.headers.push_str(&read(root, &format!("include/infiniband/{header}"))?);
        }
        for (what, found) in [
            (TRAITS, !source.operations.is_empty()),
            (DATA_PATH, !source.data_path.is_empty()),
            (PROVIDERS, !source.implementations.is_empty()),
            (TABLE, !source.slots.is_empty()),
            (API, !source.exports.is_empty()),
        ] {
            if !found {
                return Err(format!("{what} was not understood"));
            }
        }
        Ok(source)
    }

    /// Functions of C files: names that begin a line of their own after a type.
    fn read_c(&mut self, text: &str) {
        for line in text
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()) && !line.ends_with(';'))
        {
            if let Some((before, _)) = line.split_once('(') {
                let name = before
                    .rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                    .next()
                    .unwrap_or_default();
                self.exports.insert(name.to_owned(), None);
            }
        }
    }

    /// The folders of providers, in the order of their names with the plugins at the end.
    pub fn contexts(&self) -> Vec<String> {
        let (mut natives, plugins): (Vec<_>, Vec<_>) =
            self.implementations.keys().cloned().partition(|folder| folder != PLUGINS);
        natives.extend(plugins);
        natives
    }

    /// How a device of the provider answers an exported symbol.
    pub fn answer_of_symbol(&self, name: &str, node: &str, context: &str) -> Result<Answer, String> {
        let exported = [format!("{name}@@{node}"), format!("{name}@{node}"), name.to_owned()];
        let function = exported
            .iter()
            .find_map(|export| self.exports.get(export))
            .ok_or_else(|| format!("no source defines {name}@{node}"))?;
        let Some(function) = function else { return Ok(Answer::Library) };
        Ok(self.answer_through(core::slice::from_ref(function), context))
    }

    /// How a device of the provider answers an inline function of the headers.
    pub fn answer_of_inline(&self, name: &str, context: &str) -> Result<Answer, String> {
        let body = self.inline_body(name).ok_or_else(|| format!("the headers do not define {name}"))?;
        let implementation = &self.implementations[context];
        let has = |yes: bool| if yes { Answer::Provider } else { Answer::Refused };
        let mut answers = Vec::new();
        let mut at = 0;
        while at < body.len() {
            let word = identifier(&body[at..]);
            if word.is_empty() {
                at += body[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            let (before, after) = (&body[..at], &body[at + word.len()..]);
            at += word.len();
            if let Some(function) = self.slots.get(word) {
                answers.push(self.answer_through(&self.resolve(TABLE, function), context));
            } else if before.ends_with('.') && self.data_path.contains(word) {
                answers.push(has(!implementation.refused.contains(word)));
            } else if before.ends_with("->") && after.starts_with('(') {
                // A function of an object, which its provider sets when it makes the object.
                answers.push(has(context == PLUGINS || implementation.assigned.contains(word)));
            } else if after.starts_with('(')
                && let Some(exported) = self.exports.keys().find(|name| name.split('@').next() == Some(word))
                && let Some(function) = &self.exports[exported]
            {
                answers.push(self.answer_through(core::slice::from_ref(function), context));
            }
        }
        Ok(combine(&answers))
    }

    /// How a device of the provider answers functions of `src/api`.
    fn answer_through(&self, functions: &[(String, String)], context: &str) -> Answer {
        let mut operations = BTreeSet::new();
        for function in functions {
            self.follow(function, &mut operations, &mut BTreeSet::new());
        }
        self.answer(&operations, context)
    }

    fn inline_body(&self, name: &str) -> Option<&str> {
        let mut rest = self.headers.as_str();
        while let Some(at) = rest.find("static inline ") {
            rest = &rest[at + "static inline ".len()..];
            let head = rest.split('(').next()?;
            if head.ends_with(name)
                && !head[..head.len() - name.len()].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            {
                let end = rest.find("\n}")?;
                let start = rest.find('{')?;
                return rest.get(start..end);
            }
        }
        None
    }

    fn answer(&self, operations: &BTreeSet<String>, context: &str) -> Answer {
        let implementation = &self.implementations[context];
        let answers: Vec<_> = operations
            .iter()
            .map(|operation| match implementation.methods.contains(operation) {
                true => Answer::Provider,
                false => self.operations[operation],
            })
            .collect();
        combine(&answers)
    }

    /// Adds the operations that a function of `src/api` leads to.
    fn follow(
        &self,
        function: &(String, String),
        operations: &mut BTreeSet<String>,
        seen: &mut BTreeSet<(String, String)>,
    ) {
        if !seen.insert(function.clone()) {
            return;
        }
        let Some(body) = self.functions.get(function) else { return };
        // Other methods are no operations of a device.
        let operation = |name: &&String| self.operations.contains_key(*name);
        operations.extend(body.methods.iter().filter(operation).cloned());
        for path in &body.paths {
            for next in self.resolve(&function.0, path) {
                self.follow(&next, operations, seen);
            }
        }
    }

    /// The functions of `src/api` that a path can mean, seen from a file.
    fn resolve(&self, from: &str, (module, name): &(String, String)) -> Vec<(String, String)> {
        let here = (from.to_owned(), name.clone());
        if module.is_empty() || module == "self" || module == "Self" {
            return Vec::from_iter(self.functions.contains_key(&here).then_some(here));
        }
        let file = format!("{API}{module}.rs");
        let there = (file, name.clone());
        Vec::from_iter(self.functions.contains_key(&there).then_some(there))
    }
}

fn combine(answers: &[Answer]) -> Answer {
    let some = |answer: Answer| answers.contains(&answer);
    match (some(Answer::Provider), some(Answer::Refused)) {
        (true, true) => Answer::Part,
        (true, false) => Answer::Provider,
        (false, true) => Answer::Refused,
        (false, false) => Answer::Library,
    }
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|kind| kind == "c" || kind == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads one file into a [`Source`].
struct FileReader<'a> {
    source: &'a mut Source,
    name: String,
    current: Option<String>,
}

impl FileReader<'_> {
    fn provider(&self) -> Option<String> {
        let (folder, _) = self.name.strip_prefix(PROVIDERS)?.split_once('/')?;
        Some(folder.to_owned())
    }

    fn function(&mut self, name: String) -> &mut Function {
        self.source.functions.entry((self.name.clone(), name)).or_default()
    }
}

/// The name under which an item is exported.
fn exported(attributes: &[syn::Attribute], name: &syn::Ident) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return None };
        let text = list.tokens.to_string();
        if let Some((_, rest)) = text.split_once("export_name") {
            return rest.split('"').nth(1).map(str::to_owned);
        }
        (list.path.is_ident("unsafe") && text.contains("no_mangle")).then(|| name.to_string())
    })
}

fn path_of(path: &syn::Path) -> (String, String) {
    let mut names = path.segments.iter().rev().map(|segment| segment.ident.to_string());
    let name = names.next().unwrap_or_default();
    (names.next().unwrap_or_default(), name)
}

/// Who answers by a method's default body: one that ends with an error refuses, one that calls something does
/// the work.
fn default_of(block: &syn::Block) -> Answer {
    match block.stmts.last() {
        Some(syn::Stmt::Expr(syn::Expr::Call(call), None)) => match &*call.func {
            syn::Expr::Path(path) if path.path.is_ident("Err") => Answer::Refused,
            _ => Answer::Provider,
        },
        _ => Answer::Library,
    }
}

impl<'ast> Visit<'ast> for FileReader<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let name = item.sig.ident.to_string();
        if let Some(export) = exported(&item.attrs, &item.sig.ident) {
            self.source.exports.insert(export, Some((self.name.clone(), name.clone())));
        }
        self.function(name.clone());
        let outer = self.current.replace(name);
        visit::visit_item_fn(self, item);
        self.current = outer;
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        if let Some(name) = exported(&item.attrs, &item.ident) {
            self.source.exports.insert(name, None);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if self.name.starts_with(TRAITS) {
            for method in &item.items {
                if let syn::TraitItem::Fn(syn::TraitItemFn { sig, default: Some(block), .. }) = method {
                    self.source.operations.insert(sig.ident.to_string(), default_of(block));
                }
            }
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if self.name == DATA_PATH && item.ident == "DataPath" {
            let names = item.fields.iter().filter_map(|field| field.ident.as_ref());
            self.source.data_path.extend(names.map(ToString::to_string));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let (Some(_), Some(folder)) = (&item.trait_, self.provider()) {
            let implementation = self.source.implementations.entry(folder).or_default();
            for method in &item.items {
                if let syn::ImplItem::Fn(method) = method {
                    implementation.methods.insert(method.sig.ident.to_string());
                }
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_expr_struct(&mut self, item: &'ast syn::ExprStruct) {
        if let (true, Some(folder)) = (item.path.is_ident("DataPath"), self.provider()) {
            let refused = item.fields.iter().filter_map(|field| match (&field.member, &field.expr) {
                (syn::Member::Named(name), syn::Expr::Path(path)) if path_of(&path.path).1 == REFUSES => {
                    Some(name.to_string())
                }
                _ => None,
            });
            let refused: Vec<_> = refused.collect();
            self.source.implementations.entry(folder).or_default().refused.extend(refused);
        }
        visit::visit_expr_struct(self, item);
    }

    fn visit_expr_assign(&mut self, item: &'ast syn::ExprAssign) {
        if let syn::Expr::Field(syn::ExprField { member: syn::Member::Named(slot), .. }) = &*item.left {
            let slot = slot.to_string();
            if self.name == TABLE {
                // Some(module::function)
                if let syn::Expr::Call(call) = &*item.right
                    && let Some(syn::Expr::Path(path)) = call.args.first()
                {
                    self.source.slots.insert(slot, path_of(&path.path));
                }
            } else if let Some(folder) = self.provider() {
                self.source.implementations.entry(folder).or_default().assigned.insert(slot);
            }
        }
        visit::visit_expr_assign(self, item);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        let (outer, last) = path_of(&item.mac.path);
        let text = item.mac.tokens.to_string();
        if self.name == TABLE && last == SLOTS {
            // slot = module::function;
            let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
            let path = |text: &str| syn::parse_str(text).ok().map(|path| path_of(&path));
            let slots = pairs.filter_map(|(slot, function)| Some((slot.trim().to_owned(), path(function)?)));
            self.source.slots.extend(slots);
        } else if item.ident.as_ref().is_some_and(|name| name == ASSIGNS) {
            // public.FIELD = …
            let fields = text.split("public .").skip(1).map(|rest| identifier(rest.trim_start()).to_owned());
            let file = self.name.trim_start_matches(PROVIDERS).trim_end_matches(".rs").to_owned();
            self.source.shared.entry(file).or_default().extend(fields.filter(|field| !field.is_empty()));
        } else if let (ASSIGNS, Some(folder)) = (last.as_str(), self.provider()) {
            let implementation = self.source.implementations.entry(folder).or_default();
            implementation.assigned.extend(text.split(',').map(|field| field.trim().to_owned()));
            implementation.assigns_by.insert(outer);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if let Some(current) = self.current.clone() {
            self.function(current).methods.insert(call.method.to_string());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let (Some(current), syn::Expr::Path(path)) = (self.current.clone(), &*call.func) {
            self.function(current).paths.insert(path_of(&path.path));
        }
        visit::visit_expr_call(self, call);
    }
}
