//! Where a file can be changed so that its tests should notice.
//!
//! Found by the syntax alone: what does not compile is found out by compiling it. Nothing is looked
//! for where no switch can be asked at run time (constants, patterns, types), in macros, whose
//! insides are no syntax yet, in tests, and in what only writes text for people.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, ReturnType, Stmt, Type};

/// What is changed at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A condition is true where it was false, and the other way round.
    Negate,
    /// A part of `&&` counts as true.
    DropAnd,
    /// A part of `||` counts as false.
    DropOr,
    /// A comparison by another operator.
    Compare {
        /// The left operand's place.
        left: Range<usize>,
        /// The right operand's place.
        right: Range<usize>,
        /// The operator in place of the one there.
        operator: &'static str,
    },
    /// A statement is left out.
    Delete,
    /// A function returns this at once.
    Return(&'static str),
}

/// One possible change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The bytes that it concerns.
    pub place: Range<usize>,
    /// The line that they begin on, from 1.
    pub line: usize,
    /// What is changed.
    pub change: Change,
    /// The change in words, with the source text.
    pub words: String,
}

/// All of a file, in the order of their places.
///
/// # Errors
/// The text is not Rust.
pub fn candidates(text: &str) -> syn::Result<Vec<Candidate>> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder {
        text,
        found: Vec::new(),
    };
    finder.visit_file(&file);
    let mut found = finder.found;
    found.sort_by_key(|candidate| (candidate.place.start, candidate.place.end));
    Ok(found)
}

struct Finder<'a> {
    text: &'a str,
    found: Vec<Candidate>,
}

/// How much of a source line a description shows.
const SHOWN_MAX: usize = 60;

impl Finder<'_> {
    fn add(&mut self, place: Range<usize>, change: Change, words: &str) {
        let before = &self.text[..place.start];
        let shown = self.shown(&place);
        self.found.push(Candidate {
            line: before.matches('\n').count() + 1,
            place,
            change,
            words: words.replace("{}", &shown),
        });
    }

    /// Source text on one line, shortened.
    fn shown(&self, place: &Range<usize>) -> String {
        let text = self.text[place.clone()]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        match text.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }

    /// A condition: as a whole, or its parts where one of them is a `let`.
    fn condition(&mut self, condition: &Expr) {
        match condition {
            Expr::Let(_) => {}
            Expr::Binary(chain) if is_and(&chain.op) && has_let(condition) => {
                self.condition(&chain.left);
                self.condition(&chain.right);
            }
            other => self.add(place(other), Change::Negate, "`{}` negated"),
        }
    }

    fn binary(&mut self, expression: &syn::ExprBinary) {
        let parts = [&expression.left, &expression.right];
        let dropped = match expression.op {
            BinOp::And(_) => Some((Change::DropAnd, "without `{}` (and)")),
            BinOp::Or(_) => Some((Change::DropOr, "without `{}` (or)")),
            _ => None,
        };
        if let Some((change, words)) = dropped {
            // A chain `a && b && c` leans to the left: each clause once.
            let clauses = parts
                .into_iter()
                .filter(|part| !has_let(part) && !is_same_chain(part, &expression.op));
            for clause in clauses {
                self.add(place(clause), change.clone(), words);
            }
        }
        for &operator in others(&expression.op) {
            let change = Change::Compare {
                left: place(&expression.left),
                right: place(&expression.right),
                operator,
            };
            let words = format!("`{{}}` with `{operator}`");
            self.add(place(expression), change, &words);
        }
    }

    /// A function's body: results that it could return at once, then what is in it.
    fn function(
        &mut self,
        signature: &syn::Signature,
        attributes: &[syn::Attribute],
        body: &Block,
    ) {
        if signature.constness.is_some() || is_test(attributes) {
            return;
        }
        let start = body.brace_token.span.open().byte_range().end;
        for value in constants(&signature.output) {
            let words = format!("`{}` returns {value}", signature.ident);
            self.add(start..start, Change::Return(value), &words);
        }
        self.visit_block(body);
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = item
            .trait_
            .as_ref()
            .and_then(|(_, path, _)| path.segments.last());
        let is_text = name.is_some_and(|name| name.ident == "Debug" || name.ident == "Display");
        if !is_text && !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.attrs, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.attrs, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, &item.attrs, body);
        }
    }

    // No switch can be asked in these.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, node: &'ast syn::ExprRepeat) {
        self.visit_expr(&node.expr);
    }
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_expr_if(&mut self, node: &'ast syn::ExprIf) {
        self.condition(&node.cond);
        visit::visit_expr_if(self, node);
    }

    fn visit_expr_while(&mut self, node: &'ast syn::ExprWhile) {
        self.condition(&node.cond);
        visit::visit_expr_while(self, node);
    }

    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        if let Some((_, guard)) = &node.guard {
            self.condition(guard);
        }
        visit::visit_arm(self, node);
    }

    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        self.binary(node);
        visit::visit_expr_binary(self, node);
    }

    fn visit_stmt(&mut self, node: &'ast Stmt) {
        if let Stmt::Expr(expression, Some(semicolon)) = node
            && is_deletable(expression)
        {
            let place = place(expression).start..semicolon.span.byte_range().end;
            self.add(place, Change::Delete, "without `{}`");
        }
        visit::visit_stmt(self, node);
    }
}

fn place(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

fn is_and(operator: &BinOp) -> bool {
    matches!(operator, BinOp::And(_))
}

/// Whether an expression is itself a chain by the same operator.
fn is_same_chain(expression: &Expr, operator: &BinOp) -> bool {
    matches!(expression, Expr::Binary(inner)
        if std::mem::discriminant(&inner.op) == std::mem::discriminant(operator))
}

/// Whether there is a `let` among the clauses of a chain.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(chain) if is_and(&chain.op) => has_let(&chain.left) || has_let(&chain.right),
        _ => false,
    }
}

/// The operators to put in a comparison's place: the boundary moved, and the contrary.
fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        _ => &[],
    }
}

/// Statements that can be left out: calls, assignments, early ends.
fn is_deletable(expression: &Expr) -> bool {
    match expression {
        Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) => true,
        Expr::Continue(_) | Expr::Break(_) | Expr::Return(_) => true,
        Expr::Binary(binary) => matches!(
            binary.op,
            BinOp::AddAssign(_)
                | BinOp::SubAssign(_)
                | BinOp::MulAssign(_)
                | BinOp::BitOrAssign(_)
                | BinOp::BitAndAssign(_)
                | BinOp::BitXorAssign(_)
        ),
        Expr::Try(inner) => is_deletable(&inner.expr),
        _ => false,
    }
}

/// Results that a function of this type can give without its arguments.
fn constants(output: &ReturnType) -> &'static [&'static str] {
    let ReturnType::Type(_, kind) = output else {
        return &[];
    };
    let Type::Path(path) = &**kind else {
        return &[];
    };
    let Some(last) = path.path.segments.last() else {
        return &[];
    };
    match last.ident.to_string().as_str() {
        "bool" => &["true", "false"],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i32" | "i64" => &["0"],
        "Option" => &["None"],
        "Vec" => &["Vec::new()"],
        "Result" if is_unit_result(last) => &["Ok(())"],
        _ => &[],
    }
}

fn is_unit_result(segment: &syn::PathSegment) -> bool {
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return false;
    };
    matches!(arguments.args.first(),
        Some(syn::GenericArgument::Type(Type::Tuple(tuple))) if tuple.elems.is_empty())
}

/// Whether something is compiled for tests only, or is a test.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test"
                || condition.starts_with("any (test")
                || condition.starts_with("all (test")
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let found = candidates(text).expect("it is Rust");
        found
            .into_iter()
            .map(|candidate| format!("{}: {}", candidate.line, candidate.words))
            .collect()
    }

    #[test]
    fn each_kind_of_change_is_found() {
        let text = "fn small(a: u64, b: bool) -> bool {\n    if b || a < 3 {\n        log(a);\n    }\n    b\n}\n";
        assert_eq!(
            words(text),
            [
                "1: `small` returns true",
                "1: `small` returns false",
                "2: without `b` (or)",
                "2: `b || a < 3` negated",
                "2: without `a < 3` (or)",
                "2: `a < 3` with `<=`",
                "2: `a < 3` with `>=`",
                "3: without `log(a);`",
            ]
        );
    }

    #[test]
    fn chains_with_let_keep_their_let() {
        let text = "fn f(a: Option<u64>) {\n    if let Some(b) = a && b == 1 && c {\n    }\n}\n";
        assert_eq!(
            words(text),
            [
                "2: `b == 1` negated",
                "2: without `b == 1` (and)",
                "2: `b == 1` with `!=`",
                "2: `c` negated",
                "2: without `c` (and)",
            ]
        );
    }

    #[test]
    fn what_no_switch_can_change_is_left_alone() {
        let text = "const A: bool = 1 < 2;\nconst fn f() -> bool { A && true }\n\
                    impl Display for X { fn fmt(&self) -> bool { a && b } }\n\
                    fn g(x: [u8; 1 + 1]) { assert!(x < y); match x { y if z => {} } }\n\
                    #[cfg(test)]\nmod tests { fn h() -> bool { true } }\n";
        assert_eq!(words(text), ["4: `z` negated"]);
    }
}
