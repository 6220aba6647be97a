//! The safe evaluator behind `%{ … }%`: assertions and prints over names and numbers in Python's notation.
//!
//! It knows literals, names, arithmetic, comparisons (chained as in Python), `and`, `or`, `not`, `abs`, `min`, `max`,
//! the statements `assert` and `print`, and `NAME = …`. There is nothing else: no attribute, index, import or call.

use std::collections::BTreeMap;
use std::fmt;

/// How deep expressions may nest.
const MAX_DEPTH: u32 = 64;
/// Operators of one statement. Each may make the tree that is evaluated one level deeper: `1 + 1 + 1 …`.
const MAX_OPERATORS: u32 = 256;
/// Bytes of a text, written or put together: one that doubles in every statement would take all memory.
const MAX_TEXT: usize = 1024;

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
}

#[derive(Clone, Copy, Debug)]
enum Unary {
    Minus,
    Plus,
    Invert,
    Not,
}

#[derive(Clone, Copy, Debug)]
enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Clone, Copy, Debug)]
enum Function {
    Abs,
    Min,
    Max,
}

/// A number, truth value or text.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Int(i128),
    Float(f64),
    Bool(bool),
    Text(String),
}

impl Code {
    /// Reads statements separated by line ends or semicolons.
    ///
    /// # Errors
    /// One line: what is not understood or not allowed.
    pub fn parse(text: &str) -> Result<Code, String> {
        let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, operators: 0 };
        let mut statements = Vec::new();
        loop {
            while parser.take("\n") || parser.take(";") {}
            if parser.at == parser.tokens.len() {
                return Ok(Code { statements });
            }
            parser.operators = 0;
            statements.push(parser.statement()?);
            if parser.at < parser.tokens.len() && !parser.sees("\n") && !parser.sees(";") {
                return Err(format!("found `{}` where the statement should end", parser.shown()));
            }
        }
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
    ) -> Result<(), String> {
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
                    let words: Result<Vec<String>, String> =
                        values.iter().map(|value| Ok(value.eval(lookup)?.to_string())).collect();
                    print(words?.join(" "));
                }
                Statement::Assert { text, test, message } => {
                    if !test.eval(lookup)?.truth() {
                        let found = test.names_with_values(lookup);
                        let message = match message {
                            Some(node) => format!(": {}", node.eval(lookup)?),
                            None => String::new(),
                        };
                        return Err(format!("assertion failed: {text}{message}{found}"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// What names mean.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<Value>;

impl Node {
    fn eval(&self, lookup: Lookup<'_>) -> Result<Value, String> {
        Ok(match self {
            Node::Value(value) => value.clone(),
            Node::Name(name) => match lookup(name) {
                Some(value) => value,
                None => return Err(format!("name '{name}' is not known here")),
            },
            Node::Unary(op, node) => unary(*op, node.eval(lookup)?)?,
            Node::Binary(op, a, b) => binary(*op, a.eval(lookup)?, b.eval(lookup)?)?,
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
                let values: Result<Vec<Value>, String> =
                    arguments.iter().map(|argument| argument.eval(lookup)).collect();
                call(*function, values?)?
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
            Node::Call(_, arguments) => arguments.iter().for_each(|node| node.collect(names)),
        }
    }
}

impl Value {
    fn truth(&self) -> bool {
        match self {
            Value::Int(value) => *value != 0,
            Value::Float(value) => *value != 0.0,
            Value::Bool(value) => *value,
            Value::Text(text) => !text.is_empty(),
        }
    }

    /// As an integer, if it is one (Python's truth values are).
    fn int(&self) -> Option<i128> {
        match self {
            Value::Int(value) => Some(*value),
            Value::Bool(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    fn number(&self) -> Result<f64, String> {
        match self {
            Value::Float(value) => Ok(*value),
            Value::Text(text) => Err(format!("'{text}' is not a number")),
            other => Ok(other.int().unwrap_or(0) as f64),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Bool(true) => f.write_str("True"),
            Value::Bool(false) => f.write_str("False"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

fn unary(op: Unary, value: Value) -> Result<Value, String> {
    let too_large = || "a number became too large".to_string();
    Ok(match (op, value.int()) {
        (Unary::Not, _) => Value::Bool(!value.truth()),
        (Unary::Minus, Some(int)) => Value::Int(int.checked_neg().ok_or_else(too_large)?),
        (Unary::Plus, Some(int)) => Value::Int(int),
        (Unary::Invert, Some(int)) => Value::Int(!int),
        (Unary::Minus, None) => Value::Float(-value.number()?),
        (Unary::Plus, None) => Value::Float(value.number()?),
        (Unary::Invert, None) => return Err("~ needs an integer".into()),
    })
}

fn binary(op: Binary, a: Value, b: Value) -> Result<Value, String> {
    if let (Some(x), Some(y)) = (a.int(), b.int()) {
        return integers(op, x, y);
    }
    if let (Value::Text(x), Value::Text(y), Binary::Add) = (&a, &b, op) {
        if x.len() + y.len() > MAX_TEXT {
            return Err(too_long());
        }
        return Ok(Value::Text(format!("{x}{y}")));
    }
    let (x, y) = (a.number()?, b.number()?);
    if y == 0.0 && matches!(op, Binary::Divide | Binary::FloorDivide | Binary::Remainder) {
        return Err("division by zero".into());
    }
    Ok(Value::Float(match op {
        Binary::Add => x + y,
        Binary::Subtract => x - y,
        Binary::Multiply => x * y,
        Binary::Divide => x / y,
        Binary::FloorDivide => libm::floor(x / y),
        Binary::Remainder => x - y * libm::floor(x / y),
        _ => return Err("bit operations need integers".into()),
    }))
}

fn too_long() -> String {
    format!("a text is longer than {MAX_TEXT} bytes")
}

fn integers(op: Binary, x: i128, y: i128) -> Result<Value, String> {
    if y == 0 && matches!(op, Binary::Divide | Binary::FloorDivide | Binary::Remainder) {
        return Err("division by zero".into());
    }
    let shift = u32::try_from(y).ok().filter(|&bits| bits < 64);
    let result = match op {
        Binary::Add => x.checked_add(y),
        Binary::Subtract => x.checked_sub(y),
        Binary::Multiply => x.checked_mul(y),
        Binary::Divide => return Ok(Value::Float(x as f64 / y as f64)),
        // Python rounds down, also below zero.
        Binary::FloorDivide => x.checked_div_euclid(y).map(|q| if y < 0 && x % y != 0 { q - 1 } else { q }),
        Binary::Remainder => x.checked_rem(y).map(|r| if r != 0 && (r < 0) != (y < 0) { r + y } else { r }),
        Binary::ShiftLeft => shift.and_then(|bits| x.checked_mul(1 << bits)),
        Binary::ShiftRight => shift.map(|bits| x >> bits),
        Binary::And => Some(x & y),
        Binary::Or => Some(x | y),
        Binary::Xor => Some(x ^ y),
    };
    result.map(Value::Int).ok_or_else(|| "a number became too large".into())
}

fn compare(op: Comparison, a: &Value, b: &Value) -> Result<bool, String> {
    let order = match (a, b) {
        (Value::Text(x), Value::Text(y)) => Some(x.cmp(y)),
        (Value::Text(_), _) | (_, Value::Text(_)) => match op {
            Comparison::Equal => return Ok(false),
            Comparison::NotEqual => return Ok(true),
            _ => return Err("a text and a number cannot be ordered".into()),
        },
        _ => match (a.int(), b.int()) {
            (Some(x), Some(y)) => Some(x.cmp(&y)),
            _ => a.number()?.partial_cmp(&b.number()?),
        },
    };
    let Some(order) = order else { return Ok(matches!(op, Comparison::NotEqual)) };
    Ok(match op {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterEqual => order.is_ge(),
    })
}

fn call(function: Function, mut values: Vec<Value>) -> Result<Value, String> {
    let better = match function {
        Function::Abs => {
            return match (values.len(), values.pop()) {
                (1, Some(value)) if compare(Comparison::Less, &value, &Value::Int(0))? => {
                    unary(Unary::Minus, value)
                }
                (1, Some(value)) => Ok(value),
                _ => Err("abs takes one number".into()),
            };
        }
        Function::Min => Comparison::Less,
        Function::Max => Comparison::Greater,
    };
    let mut values = values.into_iter();
    let mut best = values.next().ok_or("min and max take numbers")?;
    for value in values {
        if compare(better, &value, &best)? {
            best = value;
        }
    }
    Ok(best)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(Value),
    Text(String),
    Name(String),
    Sign(&'static str),
}

/// Longest first.
const SIGNS: &[&str] = &[
    "//", "<<", ">>", "<=", ">=", "==", "!=", "**", "(", ")", ",", ";", "+", "-", "*", "/", "%", "<", ">",
    "&", "|", "^", "~", "=", "[", "]", ".", ":", "{", "}", "@", "!",
];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    // Inside parentheses a line end separates nothing.
    let mut open = 0i32;
    while let Some(first) = rest.chars().next() {
        if first == '#' {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if first == '\n' {
            if open <= 0 {
                tokens.push(Token::Sign("\n"));
            }
            rest = &rest[1..];
        } else if first.is_whitespace() || (first == '\\' && rest[1..].starts_with('\n')) {
            rest = &rest[if first == '\\' { 2 } else { first.len_utf8() }..];
        } else if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'))
                .unwrap_or(rest.len());
            tokens.push(Token::Number(number(&rest[..end])?));
            rest = &rest[end..];
        } else if first == '"' || first == '\'' {
            let end = rest[1..].find(first).ok_or("a text has no end")?;
            if end > MAX_TEXT {
                return Err(too_long());
            }
            tokens.push(Token::Text(rest[1..=end].to_string()));
            rest = &rest[end + 2..];
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            tokens.push(Token::Name(rest[..end].to_string()));
            rest = &rest[end..];
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            open += i32::from(*sign == "(") - i32::from(*sign == ")");
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            return Err(format!("`{first}` has no meaning here"));
        }
    }
    Ok(tokens)
}

fn number(word: &str) -> Result<Value, String> {
    let plain = word.replace('_', "");
    let int = match plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => plain.parse().ok(),
    };
    match int {
        Some(int) if int <= i128::from(u64::MAX) => Ok(Value::Int(int)),
        Some(_) => Err(format!("the number {word} is too large")),
        None => plain.parse().map(Value::Float).map_err(|_| format!("`{word}` is no number")),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
    /// Of the statement at hand, so far.
    operators: u32,
}

impl Parser {
    fn statement(&mut self) -> Result<Statement, String> {
        let start = self.at;
        if self.take_name("assert") {
            let test = self.or()?;
            let text = shown(&self.tokens[start + 1..self.at]);
            let message = if self.take(",") { Some(self.or()?) } else { None };
            return Ok(Statement::Assert { text, test, message });
        }
        if self.take_name("print") {
            let bare = !self.sees("(");
            let mut values = Vec::new();
            if bare {
                while self.at < self.tokens.len() && !self.sees("\n") && !self.sees(";") {
                    values.push(self.or()?);
                    if !self.take(",") {
                        break;
                    }
                }
            } else {
                self.at += 1;
                while !self.take(")") {
                    values.push(self.or()?);
                    if !self.take(",") {
                        self.need(")")?;
                        break;
                    }
                }
            }
            return Ok(Statement::Print(values));
        }
        if let (Some(Token::Name(name)), Some(Token::Sign("="))) =
            (self.tokens.get(self.at).cloned(), self.tokens.get(self.at + 1))
        {
            self.at += 2;
            return Ok(Statement::Assign(name, self.or()?));
        }
        Err(format!("found `{}`; only `assert`, `print` and NAME = … are allowed", self.shown()))
    }

    fn or(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("an expression is nested too deeply".into());
        }
        let mut node = self.and()?;
        while self.take_name("or") {
            self.count_operator()?;
            node = Node::Or(Box::new(node), Box::new(self.and()?));
        }
        self.depth -= 1;
        Ok(node)
    }

    fn and(&mut self) -> Result<Node, String> {
        let mut node = self.not()?;
        while self.take_name("and") {
            self.count_operator()?;
            node = Node::And(Box::new(node), Box::new(self.not()?));
        }
        Ok(node)
    }

    fn not(&mut self) -> Result<Node, String> {
        let mut negate = false;
        let mut any = false;
        while self.take_name("not") {
            (negate, any) = (!negate, true);
        }
        let node = self.comparison()?;
        Ok(match (any, negate) {
            (false, _) => node,
            (true, true) => Node::Unary(Unary::Not, Box::new(node)),
            (true, false) => Node::Unary(Unary::Not, Box::new(Node::Unary(Unary::Not, Box::new(node)))),
        })
    }

    fn comparison(&mut self) -> Result<Node, String> {
        const OPERATORS: &[(&str, Comparison)] = &[
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<", Comparison::Less),
            ("<=", Comparison::LessEqual),
            (">", Comparison::Greater),
            (">=", Comparison::GreaterEqual),
        ];
        let first = self.operators(0)?;
        let mut rest = Vec::new();
        while let Some(&(_, op)) = OPERATORS.iter().find(|(sign, _)| self.sees(sign)) {
            self.at += 1;
            rest.push((op, self.operators(0)?));
        }
        Ok(if rest.is_empty() { first } else { Node::Compare(Box::new(first), rest) })
    }

    /// Left-associative operators, loosest level first.
    fn operators(&mut self, level: usize) -> Result<Node, String> {
        const LEVELS: &[&[(&str, Binary)]] = &[
            &[("|", Binary::Or)],
            &[("^", Binary::Xor)],
            &[("&", Binary::And)],
            &[("<<", Binary::ShiftLeft), (">>", Binary::ShiftRight)],
            &[("+", Binary::Add), ("-", Binary::Subtract)],
            &[
                ("*", Binary::Multiply),
                ("/", Binary::Divide),
                ("//", Binary::FloorDivide),
                ("%", Binary::Remainder),
            ],
        ];
        let Some(signs) = LEVELS.get(level) else { return self.factor() };
        let mut node = self.operators(level + 1)?;
        while let Some(&(_, op)) = signs.iter().find(|(sign, _)| self.sees(sign)) {
            self.at += 1;
            self.count_operator()?;
            node = Node::Binary(op, Box::new(node), Box::new(self.operators(level + 1)?));
        }
        Ok(node)
    }

    fn count_operator(&mut self) -> Result<(), String> {
        self.operators += 1;
        if self.operators > MAX_OPERATORS {
            return Err(format!("a statement has more than {MAX_OPERATORS} operators"));
        }
        Ok(())
    }

    fn factor(&mut self) -> Result<Node, String> {
        let mut signs = Vec::new();
        loop {
            if self.take("-") {
                signs.push(Unary::Minus);
            } else if self.take("+") {
                signs.push(Unary::Plus);
            } else if self.take("~") {
                signs.push(Unary::Invert);
            } else {
                break;
            }
            if signs.len() as u32 > MAX_DEPTH {
                return Err("an expression is nested too deeply".into());
            }
        }
        let node = self.atom()?;
        Ok(signs.into_iter().rev().fold(node, |node, sign| Node::Unary(sign, Box::new(node))))
    }

    fn atom(&mut self) -> Result<Node, String> {
        let Some(token) = self.tokens.get(self.at).cloned() else {
            return Err("a value is missing at the end".into());
        };
        self.at += 1;
        match token {
            Token::Number(value) => Ok(Node::Value(value)),
            Token::Text(text) => Ok(Node::Value(Value::Text(text))),
            Token::Name(name) if self.sees("(") => self.function(&name),
            Token::Name(name) => Ok(match name.as_str() {
                "True" => Node::Value(Value::Bool(true)),
                "False" => Node::Value(Value::Bool(false)),
                "and" | "or" | "not" | "in" | "is" | "if" | "else" | "lambda" | "import" => {
                    return Err(format!("found `{name}` where a value is expected"));
                }
                _ => Node::Name(name),
            }),
            Token::Sign("(") => {
                let node = self.or()?;
                self.need(")")?;
                Ok(node)
            }
            Token::Sign(sign) => Err(format!("found `{}` where a value is expected", sign.escape_debug())),
        }
    }

    fn function(&mut self, name: &str) -> Result<Node, String> {
        let function = match name {
            "abs" => Function::Abs,
            "min" => Function::Min,
            "max" => Function::Max,
            _ => return Err(format!("{name}(): only abs, min and max may be called")),
        };
        self.need("(")?;
        let mut arguments = Vec::new();
        while !self.take(")") {
            arguments.push(self.or()?);
            if !self.take(",") {
                self.need(")")?;
                break;
            }
        }
        Ok(Node::Call(function, arguments))
    }

    fn sees(&self, sign: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Sign(found)) if *found == sign)
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.sees(sign);
        self.at += usize::from(found);
        found
    }

    fn take_name(&mut self, name: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some(Token::Name(word)) if word == name);
        self.at += usize::from(found);
        found
    }

    fn need(&mut self, sign: &str) -> Result<(), String> {
        if self.take(sign) {
            Ok(())
        } else {
            Err(format!("found `{}` where `{sign}` is expected", self.shown()))
        }
    }

    fn shown(&self) -> String {
        self.tokens.get(self.at).map_or("the end".into(), |token| shown(std::slice::from_ref(token)))
    }
}

/// The words again, for messages.
fn shown(tokens: &[Token]) -> String {
    let words: Vec<String> = tokens
        .iter()
        .map(|token| match token {
            Token::Number(value) => value.to_string(),
            Token::Text(text) => format!("'{text}'"),
            Token::Name(name) => name.clone(),
            Token::Sign(sign) => sign.escape_debug().to_string(),
        })
        .collect();
    words.join(" ")
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
        Code::parse(text)?.run(&lookup, &mut Names::default(), &mut |line| printed.push(line))?;
        Ok(printed)
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
