//! The macros that make structures, checks and the catalogue of tables.

/// A queue discipline or an application: the structure of its parameters, its check, and its entry of the catalogue.
///
/// The sentences are the documentation; a parameter is `FIELD: TYPE = PARAM`. What is checked besides ranges is a function
/// behind the kind's name. After the structure may follow parameters that have no field, as `/// SENTENCE` and `PARAM`.
#[macro_export]
macro_rules! parameters {
    (
        $(#[doc = $about:literal])+
        $vis:vis struct $config:ident: $kind:literal $(, check $rules:path)? {
            $( $(#[doc = $sentence:literal])+ $field:ident: $type:ty = $param:expr, )*
        }
        $( besides { $( $(#[doc = $beside:literal])+ $other:expr, )* } )?
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        $vis struct $config {
            $( $(#[doc = $sentence])+ pub $field: $type, )*
        }

        impl $crate::Table for $config {
            const KIND: $crate::Kind = $crate::Kind {
                kind: $kind,
                about: concat!($($about),+).trim_ascii(),
                params: &[
                    $( $param.of(stringify!($field), concat!($($sentence),+)), )*
                    $( $( $other.of("", concat!($($beside),+)), )* )?
                ],
            };

            fn check(&self) -> Result<(), $crate::ParamError> {
                let values = [$( $crate::Value::number(&self.$field) ),*];
                for (param, value) in Self::KIND.params.iter().zip(values) {
                    param.check(value)?;
                }
                $( $rules(self)?; )?
                Ok(())
            }
        }
    };
}

/// A choice between words: an enum, whose words are [`Param::choice`](crate::Param::choice)'s.
#[macro_export]
macro_rules! words {
    (
        $(#[doc = $about:literal])+
        $vis:vis enum $name:ident { $( $(#[doc = $meaning:literal])+ $variant:ident = $word:literal, )+ }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        $vis enum $name { $( $(#[doc = $meaning])+ #[serde(rename = $word)] $variant, )+ }

        impl $name {
            /// The words, in the order of their numbers.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl $crate::Value for $name {
            fn number(&self) -> Option<u64> {
                Some(*self as u64)
            }
        }
    };
}

/// Kinds of one sort, such as the applications: an enum with a variant for each, its check, and its entries of the catalogue.
///
/// A variant is as in [`parameters!`](crate::parameters), without a structure of its own; between `with` stands what a Scenario says
/// of it that is no parameter.
#[macro_export]
macro_rules! kinds {
    (
        $(#[doc = $sort:literal])+
        $vis:vis enum $name:ident {
            $(
                $(#[doc = $about:literal])+
                $variant:ident: $kind:literal {
                    $( $(#[doc = $sentence:literal])+ $field:ident: $type:ty = $param:expr, )*
                }
                $( with { $( $(#[doc = $plain:literal])+ $extra:ident: $extra_type:ty, )* } )?
                $( besides { $( $(#[doc = $beside:literal])+ $other:expr, )* } )?
            )+
        }
    ) => {
        $(#[doc = $sort])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(tag = "kind", deny_unknown_fields)]
        $vis enum $name {
            $(
                $(#[doc = $about])+
                #[serde(rename = $kind)]
                $variant {
                    $( $( $(#[doc = $plain])+ $extra: $extra_type, )* )?
                    $( $(#[doc = $sentence])+ $field: $type, )*
                },
            )+
        }

        impl $name {
            /// Every kind.
            pub const KINDS: &'static [$crate::Kind] = &[
                $(
                    $crate::Kind {
                        kind: $kind,
                        about: concat!($($about),+).trim_ascii(),
                        params: &[
                            $( $param.of(stringify!($field), concat!($($sentence),+)), )*
                            $( $( $other.of("", concat!($($beside),+)), )* )?
                        ],
                    },
                )+
            ];

            /// Checks what parsing cannot: every parameter's range.
            ///
            /// # Errors
            /// One line: the parameter, what was found, what is allowed.
            pub fn check(&self) -> Result<(), $crate::ParamError> {
                match self {
                    $(
                        $name::$variant { $( $field, )* .. } => {
                            let known = Self::KINDS.iter().filter(|known| known.kind == $kind);
                            let values = [$( $crate::Value::number($field) ),*];
                            known.flat_map(|known| known.params).zip(values).try_for_each(|(param, value)| param.check(value))
                        }
                    )+
                }
            }
        }
    };
}
