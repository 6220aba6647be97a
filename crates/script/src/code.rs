//! The safe evaluator behind `%{ … }%`: assertions and prints over names and numbers in Python's notation.
//!
//! It knows literals, names, arithmetic, comparisons (chained as in Python), `and`, `or`, `not`, `abs`, `min`, `max`,
//! `'…' % (…)`, the statements `assert` and `print`, and `NAME = …` with its relatives (`+=`). There is nothing else: no
//! attribute, index, import or call.

mod error;
mod format;
mod parser;
mod token;
mod value;

use std::collections::BTreeMap;

pub use error::CodeError;
pub(crate) use error::EvalError;
use parser::Parser;
use value::{Binary, Comparison, Function, Unary, Value, binary, call, compare, unary};

/// Assertions and prints, checked when the script is read.
#[derive(Clone, Debug)]
pub struct Code {
    statements: Vec<Statement>,
}

/// Names that a script's code has given values, from one piece of code to the next.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<String, Value>);

#[derive(Clone, Debug)]
enum Statement {
    Assign(String, Node),
    Assert { text: String, test: Node, message: Option<Node> },
    Print(Vec<Node>),
}

#[derive(Clone, Debug)]
enum Node {
    Value(Value),
    Name(String),
    Unary(Unary, Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    /// `a < b <= c`
    Compare(Box<Node>, Vec<(Comparison, Node)>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
    /// `(a, b)`
    Tuple(Vec<Node>),
}

impl Code {
    /// Reads statements separated by line ends or semicolons.
    ///
    /// # Errors
    /// What is not understood or not allowed.
    pub fn parse(text: &str) -> Result<Code, CodeError> {
        Ok(Code { statements: Parser::new(text)?.statements()? })
    }

    /// Evaluates every statement over the names that `lookup` knows; prints go to `print`.
    ///
    /// # Errors
    /// The assertion that failed, with what it was about, or what could not be evaluated.
    pub fn run(
        &self,
        lookup: &dyn Fn(&str) -> Option<i64>,
        names: &mut Names,
        print: &mut dyn FnMut(String),
    ) -> Result<(), EvalError> {
        for statement in &self.statements {
            let own = |name: &str| {
                let given = names.0.get(name).cloned();
                given.or_else(|| lookup(name).map(|value| Value::Int(i128::from(value))))
            };
            let lookup: Lookup<'_> = &own;
            match statement {
                Statement::Assign(name, node) => {
                    let value = node.eval(lookup)?;
                    names.0.insert(name.clone(), value);
                }
                Statement::Print(values) => {
                    let words: Result<Vec<String>, EvalError> =
                        values.iter().map(|value| Ok(value.eval(lookup)?.to_string())).collect();
                    print(words?.join(" "));
                }
                Statement::Assert { text, test, message } => {
                    if !test.eval(lookup)?.truth() {
                        let message = match message {
                            Some(node) => format!(": {}", node.eval(lookup)?),
                            None => String::new(),
                        };
                        let (text, names) = (text.clone(), test.names_with_values(lookup));
                        return Err(EvalError::Assertion { text, message, names });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Lookup of a name's value.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<Value>;

impl Node {
    fn eval(&self, lookup: Lookup<'_>) -> Result<Value, EvalError> {
        Ok(match self {
            Node::Value(value) => value.clone(),
            Node::Name(name) => match lookup(name) {
                Some(value) => value,
                None => return Err(EvalError::UnknownName(name.clone())),
            },
            Node::Unary(op, node) => unary(*op, node.eval(lookup)?)?,
            Node::Binary(op, a, b) => match (op, a.eval(lookup)?, b.eval(lookup)?) {
                (Binary::Remainder, Value::Text(pattern), values) => {
                    Value::Text(format::formatted(&pattern, values)?)
                }
                (op, a, b) => binary(*op, a, b)?,
            },
            Node::And(a, b) => {
                let a = a.eval(lookup)?;
                if a.truth() { b.eval(lookup)? } else { a }
            }
            Node::Or(a, b) => {
                let a = a.eval(lookup)?;
                if a.truth() { a } else { b.eval(lookup)? }
            }
            Node::Compare(first, rest) => {
                let mut left = first.eval(lookup)?;
                for (op, node) in rest {
                    let right = node.eval(lookup)?;
                    if !compare(*op, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Value::Bool(true)
            }
            Node::Call(function, arguments) => {
                let values: Result<Vec<Value>, EvalError> =
                    arguments.iter().map(|argument| argument.eval(lookup)).collect();
                call(*function, values?)?
            }
            Node::Tuple(members) => {
                let values: Result<Vec<Value>, EvalError> =
                    members.iter().map(|member| member.eval(lookup)).collect();
                Value::Tuple(values?)
            }
        })
    }

    /// ` (name = value, …)` of the names in it, for the message of a failed assertion.
    fn names_with_values(&self, lookup: Lookup<'_>) -> String {
        let mut names = Vec::new();
        self.collect(&mut names);
        names.dedup();
        let known: Vec<String> =
            names.iter().filter_map(|name| lookup(name).map(|value| format!("{name} = {value}"))).collect();
        if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
    }

    fn collect<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Node::Value(_) => {}
            Node::Name(name) => names.push(name),
            Node::Unary(_, node) => node.collect(names),
            Node::Binary(_, a, b) | Node::And(a, b) | Node::Or(a, b) => {
                a.collect(names);
                b.collect(names);
            }
            Node::Compare(first, rest) => {
                first.collect(names);
                rest.iter().for_each(|(_, node)| node.collect(names));
            }
            Node::Call(_, nodes) | Node::Tuple(nodes) => nodes.iter().for_each(|node| node.collect(names)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<i64> {
        match name {
            "tcpi_snd_cwnd" => Some(10),
            "tcpi_unacked" => Some(3),
            _ => None,
        }
    }

    fn run(text: &str) -> Result<Vec<String>, String> {
        let mut printed = Vec::new();
        let code = Code::parse(text).map_err(|error| error.to_string())?;
        let ran = code.run(&lookup, &mut Names::default(), &mut |line| printed.push(line));
        ran.map(|()| printed).map_err(|error| error.to_string())
    }

    #[test]
    fn python_expressions_mean_what_they_mean_in_python() {
        let truths = [
            "tcpi_snd_cwnd == 10",
            "1 < 2 < 3 and not 3 < 2 < 4",
            "tcpi_snd_cwnd - tcpi_unacked * 2 == 4",
            "-7 // 2 == -4 and -7 % 2 == 1 and 7 // -2 == -4 and 7 % -2 == -1 and -7 // -2 == 3",
            "7 / 2 == 3.5 and 7 // 2 == 3",
            "2 + 3 << 1 == 10 and 6 & 3 | 8 == 10 and 6 ^ 3 == 5 and ~0 == -1",
            "0 or 5 == 5",
            "abs(-3) == 3 and max(1, 9, 4) == 9 and min(2, 1) == 1",
            "0x10 == 16 and True == 1",
            "not not 5",
            "'a' + 'b' == 'ab'",
        ];
        for truth in truths {
            assert_eq!(run(&format!("assert {truth}")), Ok(vec![]), "{truth}");
            assert!(run(&format!("assert not ({truth})")).is_err(), "{truth}");
        }
    }

    #[test]
    fn several_statements_and_prints() {
        let text = "assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd  # why\nprint(tcpi_unacked, 'packets'); print tcpi_snd_cwnd";
        assert_eq!(run(text), Ok(vec!["3 packets".into(), "10".into()]));
    }

    #[test]
    fn texts_are_formatted_as_python_does() {
        let text = "print('cwnd %d of %5.2f%% (%x), %s' % (tcpi_snd_cwnd, 7 / 2, 255, (1, 'a')))\nprint '%d' % tcpi_unacked";
        assert_eq!(run(text), Ok(vec!["cwnd 10 of  3.50% (ff), (1, 'a')".into(), "3".into()]));
        assert!(run("print '%d %d' % 1").unwrap_err().contains("format"));
        assert!(run("print '%d' % (1, 2)").unwrap_err().contains("format"));
        assert!(run("print '%y' % 1").unwrap_err().contains("format"));
        assert!(run("print '%999999999d' % 1").unwrap_err().contains("longer than"));
    }

    #[test]
    fn a_name_may_be_added_to() {
        assert_eq!(run("a = 1; a += 2; a *= 5; a -= 1; a //= 3; print(a, a)"), Ok(vec!["4 4".into()]));
        assert!(run("b += 1").unwrap_err().contains("not known"));
    }

    #[test]
    fn a_name_keeps_its_value() {
        assert_eq!(
            run("LIMIT = 2 * tcpi_unacked; assert LIMIT == 6\nLIMIT = LIMIT + 1; print(LIMIT)"),
            Ok(vec!["7".into()])
        );
    }

    #[test]
    fn a_failed_assertion_says_what_was_found() {
        let error = run("assert tcpi_snd_cwnd == 11, 'grown'").unwrap_err();
        assert_eq!(error, "assertion failed: tcpi_snd_cwnd == 11: grown (tcpi_snd_cwnd = 10)");
    }

    #[test]
    fn nothing_else_is_possible() {
        let refused = [
            "import os",
            "x.y = 1",
            "x[0] = 1",
            "x = lambda: 1",
            "tcpi_snd_cwnd == 1",
            "open('/etc/passwd')",
            "assert __import__('os')",
            "assert tcpi_snd_cwnd.real",
            "assert [1]",
            "assert 2 ** 10",
            "assert (lambda: 1)()",
            "assert 1 if 2 else 3",
            "exec('1')",
            "assert 1 2",
        ];
        for text in refused {
            assert!(Code::parse(text).is_err(), "{text}");
        }
        assert!(run("assert nobody_knows").unwrap_err().contains("not known"));
        assert!(run("assert 1 / 0").unwrap_err().contains("division by zero"));
        assert!(run("assert (1 << 63) * (1 << 63) * 4").unwrap_err().contains("too large"));
        assert!(Code::parse(&format!("assert {}1", "(".repeat(100_000))).is_err());
        assert!(Code::parse(&format!("assert {}1", "not ".repeat(100_000))).is_ok());
        assert!(Code::parse(&format!("assert {}1", "-".repeat(100_000))).is_err());
        for operator in ["+", " and ", " or ", "*"] {
            assert!(Code::parse(&format!("assert 1{}", format!("{operator}1").repeat(100_000))).is_err());
            assert_eq!(run(&format!("assert 1{}", format!("{operator}1").repeat(200))), Ok(vec![]));
        }
        assert!(run(&format!("a = 'ab'{}", "\na = a + a".repeat(40))).unwrap_err().contains("longer than"));
        assert!(Code::parse(&format!("print '{}'", "a".repeat(100_000))).is_err());
    }
}
