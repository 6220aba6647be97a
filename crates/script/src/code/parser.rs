//! Reads statements and expressions by recursive descent.

use super::error::MAX_OPERATORS;
use super::token::{Token, shown, tokens};
use super::value::{Binary, Comparison, Function, Unary, Value};
use super::{CodeError, Node, Statement};

/// Greatest depth of nested expressions.
const MAX_DEPTH: u32 = 64;

/// Assignments that compute with the old value.
const AUGMENTED: &[(&str, Binary)] = &[
    ("+=", Binary::Add),
    ("-=", Binary::Subtract),
    ("*=", Binary::Multiply),
    ("//=", Binary::FloorDivide),
    ("/=", Binary::Divide),
];

pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    /// Depth of the expression that is read.
    depth: u32,
    /// Operators of the statement that is read, so far.
    operators: u32,
}

impl Parser {
    pub(super) fn new(text: &str) -> Result<Parser, CodeError> {
        Ok(Parser { tokens: tokens(text)?, at: 0, depth: 0, operators: 0 })
    }

    /// All statements, which are separated by line ends or semicolons.
    pub(super) fn statements(&mut self) -> Result<Vec<Statement>, CodeError> {
        let mut statements = Vec::new();
        loop {
            while self.take("\n") || self.take(";") {}
            if self.at == self.tokens.len() {
                return Ok(statements);
            }
            self.operators = 0;
            statements.push(self.statement()?);
            if self.at < self.tokens.len() && !self.sees("\n") && !self.sees(";") {
                return Err(self.found("the statement should end".into()));
            }
        }
    }

    fn statement(&mut self) -> Result<Statement, CodeError> {
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
        if let (Some(Token::Name(name)), Some(Token::Sign(sign))) =
            (self.tokens.get(self.at).cloned(), self.tokens.get(self.at + 1))
            && let Some(&(_, op)) = AUGMENTED.iter().find(|(known, _)| known == sign)
        {
            self.at += 2;
            let own = Box::new(Node::Name(name.clone()));
            return Ok(Statement::Assign(name, Node::Binary(op, own, Box::new(self.or()?))));
        }
        Err(CodeError::NoStatement(self.shown()))
    }

    fn or(&mut self) -> Result<Node, CodeError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(CodeError::TooDeep);
        }
        let mut node = self.and()?;
        while self.take_name("or") {
            self.count_operator()?;
            node = Node::Or(Box::new(node), Box::new(self.and()?));
        }
        self.depth -= 1;
        Ok(node)
    }

    fn and(&mut self) -> Result<Node, CodeError> {
        let mut node = self.not()?;
        while self.take_name("and") {
            self.count_operator()?;
            node = Node::And(Box::new(node), Box::new(self.not()?));
        }
        Ok(node)
    }

    fn not(&mut self) -> Result<Node, CodeError> {
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

    fn comparison(&mut self) -> Result<Node, CodeError> {
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
    fn operators(&mut self, level: usize) -> Result<Node, CodeError> {
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

    fn count_operator(&mut self) -> Result<(), CodeError> {
        self.operators += 1;
        if self.operators > MAX_OPERATORS {
            return Err(CodeError::TooManyOperators);
        }
        Ok(())
    }

    fn factor(&mut self) -> Result<Node, CodeError> {
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
                return Err(CodeError::TooDeep);
            }
        }
        let node = self.atom()?;
        Ok(signs.into_iter().rev().fold(node, |node, sign| Node::Unary(sign, Box::new(node))))
    }

    fn atom(&mut self) -> Result<Node, CodeError> {
        let Some(token) = self.tokens.get(self.at).cloned() else {
            return Err(CodeError::ValueMissing);
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
                    return Err(no_value(name));
                }
                _ => Node::Name(name),
            }),
            Token::Sign("(") => {
                let node = self.or()?;
                if !self.sees(",") {
                    self.need(")")?;
                    return Ok(node);
                }
                let mut members = vec![node];
                while self.take(",") && !self.sees(")") {
                    members.push(self.or()?);
                }
                self.need(")")?;
                Ok(Node::Tuple(members))
            }
            Token::Sign(sign) => Err(no_value(sign.escape_debug().to_string())),
        }
    }

    fn function(&mut self, name: &str) -> Result<Node, CodeError> {
        let function = match name {
            "abs" => Function::Abs,
            "min" => Function::Min,
            "max" => Function::Max,
            _ => return Err(CodeError::Function(name.to_owned())),
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

    fn need(&mut self, sign: &str) -> Result<(), CodeError> {
        if self.take(sign) { Ok(()) } else { Err(self.found(format!("`{sign}` is expected"))) }
    }

    fn found(&self, expected: String) -> CodeError {
        CodeError::Found { found: self.shown(), expected }
    }

    fn shown(&self) -> String {
        self.tokens.get(self.at).map_or("the end".into(), |token| shown(std::slice::from_ref(token)))
    }
}

fn no_value(found: String) -> CodeError {
    CodeError::Found { found, expected: "a value is expected".into() }
}
