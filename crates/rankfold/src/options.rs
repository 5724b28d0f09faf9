//! Options, declared once.
//!
//! [`options!`](macro@crate::options) declares the options of a task: name, type, default,
//! range, documentation, and where each applies. From that declaration come the
//! struct, its setters, the check, the serialized form, and the [`OptionSpec`]s that
//! the command line makes flags of. [`choices!`](macro@crate::choices) declares the values
//! of an option that has a few, with their names.
//!
//! An option that is not at its default counts as given. A given option that does not
//! apply is an error that says where it does.

use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// What values an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// On or off; off by default.
    Flag,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// One of these.
    Choice(&'static [Choice]),
    /// A text of this shape.
    Text(&'static str),
}

/// A value of an option that has a few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// What an option changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// What is learned: a run that is resumed must have the same value.
    Model,
    /// How long a run goes on and where it is measured: it may change when a run is
    /// resumed.
    Length,
    /// Nothing but the time that a run takes.
    Time,
}

/// The numbers that an option takes. Not-a-number is in no range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    low: f64,
    high: f64,
    /// Whether the ends belong to it.
    closed: (bool, bool),
}

impl Range {
    /// Any number, infinities included.
    pub const ANY: Range = Range::new(f64::NEG_INFINITY, f64::INFINITY, (true, true));
    /// Finite numbers.
    pub const FINITE: Range = Range::new(f64::NEG_INFINITY, f64::INFINITY, (false, false));
    /// Finite numbers above 0.
    pub const POSITIVE: Range = Range::new(0.0, f64::INFINITY, (false, false));
    /// Finite numbers from 0.
    pub const NOT_NEGATIVE: Range = Range::new(0.0, f64::INFINITY, (true, false));
    /// Numbers above 0; infinity stands for no limit.
    pub const LIMIT: Range = Range::new(0.0, f64::INFINITY, (false, true));
    /// From 0 to 1.
    pub const UNIT: Range = Range::new(0.0, 1.0, (true, true));
    /// From 0 to below 1: a share that may be none, and is never all.
    pub const SHARE: Range = Range::new(0.0, 1.0, (true, false));
    /// Whole numbers from 1.
    pub const COUNT: Range = Range::new(1.0, f64::INFINITY, (true, false));

    const fn new(low: f64, high: f64, closed: (bool, bool)) -> Self {
        Range { low, high, closed }
    }

    /// From `low` to `high`, both included.
    pub const fn between(low: f64, high: f64) -> Self {
        Range::new(low, high, (true, true))
    }

    /// Whether a number lies in it.
    pub fn contains(&self, value: f64) -> bool {
        let above = value > self.low || self.closed.0 && value == self.low;
        let below = value < self.high || self.closed.1 && value == self.high;
        above && below
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let low = match self.closed.0 {
            true => format!("at least {}", self.low),
            false => format!("above {}", self.low),
        };
        let high = match self.closed.1 {
            true => format!("at most {}", self.high),
            false => format!("below {}", self.high),
        };
        match (self.low.is_finite(), self.high.is_finite()) {
            (false, false) => f.write_str("a number"),
            (true, false) => f.write_str(&low),
            (false, true) => f.write_str(&high),
            (true, true) => write!(f, "{low} and {high}"),
        }
    }
}

/// The declaration of an option.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// Its name in words joined by `_`; on the command line `-` joins them.
    pub name: &'static str,
    /// What it means; lines as they were written.
    pub doc: &'static [&'static str],
    /// What values it takes.
    pub kind: Kind,
    /// The default; `None` where it depends on other options or on the data.
    pub default: fn() -> Option<String>,
    /// The numbers it takes.
    pub range: Range,
    /// The names it takes, where they are not all of its type.
    pub among: Option<&'static [&'static str]>,
    /// Where it applies, if not everywhere: completes "applies only to".
    pub applies_to: Option<&'static str>,
    /// What it changes.
    pub effect: Effect,
}

impl OptionSpec {
    /// The values of an option that has a few.
    pub fn choices(&self) -> Vec<Choice> {
        let Kind::Choice(all) = self.kind else {
            return Vec::new();
        };
        let listed = |choice: &&Choice| self.among.is_none_or(|names| names.contains(&choice.name));
        all.iter().filter(listed).copied().collect()
    }

    /// The documentation as one text.
    pub fn text(&self) -> String {
        let lines: Vec<&str> = self.doc.iter().map(|line| line.trim()).collect();
        lines.join(" ")
    }
}

/// The options of a task.
pub trait Options: Default + Clone + PartialEq + Serialize + DeserializeOwned {
    /// What the command line and model files call the task.
    const TASK: &'static str;

    /// All options, in the order of their declaration.
    fn specs() -> &'static [OptionSpec];

    /// Sets an option from its text.
    fn set(&mut self, name: &str, text: &str) -> Result<()>;

    /// The text of an option; `None` where it has no value of its own.
    fn get(&self, name: &str) -> Option<String>;

    /// Checks ranges, and that no option was given that does not apply. A value equal to
    /// its default counts as not given.
    fn check_table(&self) -> Result<()>;

    /// An error where an option that was given does not apply, whatever its value.
    fn check_given(&self, name: &str) -> Result<()>;
}

/// A type that an option may have.
pub trait OptionValue: Sized + Clone + PartialEq {
    /// What a setter takes.
    type Argument;
    /// What values there are.
    const KIND: Kind;

    /// The value that a setter was given.
    fn from_argument(argument: Self::Argument) -> Self;

    /// Reads the text of a value; the error says what was expected.
    fn parse(text: &str) -> std::result::Result<Self, String>;

    /// The text of the value; `None` where it is left open.
    fn show(&self) -> Option<String>;

    /// The value as a number, where it is one.
    fn number(&self) -> Option<f64> {
        None
    }
}

macro_rules! number_values {
    ($($type:ty, $kind:expr, $expected:literal;)*) => {$(
        impl OptionValue for $type {
            type Argument = $type;
            const KIND: Kind = $kind;
            fn from_argument(argument: $type) -> Self {
                argument
            }
            fn parse(text: &str) -> std::result::Result<Self, String> {
                text.trim().parse().map_err(|_| $expected.into())
            }
            fn show(&self) -> Option<String> {
                Some(self.to_string())
            }
            fn number(&self) -> Option<f64> {
                Some(*self as f64)
            }
        }
    )*};
}

number_values! {
    usize, Kind::Integer, "a whole number";
    u64, Kind::Integer, "a whole number";
    u32, Kind::Integer, "a whole number";
    f64, Kind::Number, "a number";
}

impl OptionValue for bool {
    type Argument = bool;
    const KIND: Kind = Kind::Flag;
    fn from_argument(argument: bool) -> Self {
        argument
    }
    fn parse(text: &str) -> std::result::Result<Self, String> {
        text.parse().map_err(|_| "`true` or `false`".into())
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl<T: OptionValue> OptionValue for Option<T> {
    type Argument = T::Argument;
    const KIND: Kind = T::KIND;
    fn from_argument(argument: T::Argument) -> Self {
        Some(T::from_argument(argument))
    }
    fn parse(text: &str) -> std::result::Result<Self, String> {
        T::parse(text).map(Some)
    }
    fn show(&self) -> Option<String> {
        self.as_ref()?.show()
    }
    fn number(&self) -> Option<f64> {
        self.as_ref()?.number()
    }
}

/// Checks one option; [`options!`](macro@crate::options) calls it for each.
#[doc(hidden)]
pub fn check_one<T: OptionValue>(
    spec: &OptionSpec,
    value: &T,
    default: &T,
    applies: bool,
) -> Result<()> {
    if value == default {
        return Ok(());
    }
    if let (Some(names), Some(name)) = (spec.among, value.show())
        && !names.contains(&&name[..])
    {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        return Err(Error::option(
            spec.name,
            format!("expected one of {}, found `{name}`", names.join(", ")),
        ));
    }
    check_applies(spec, applies)?;
    match value.number() {
        Some(number) if !spec.range.contains(number) => Err(Error::option(
            spec.name,
            format!("must be {}, found {number}", spec.range),
        )),
        _ => Ok(()),
    }
}

/// An error that says where an option applies, where it does not.
#[doc(hidden)]
pub fn check_applies(spec: &OptionSpec, applies: bool) -> Result<()> {
    match (applies, spec.applies_to) {
        (false, Some(what)) => Err(Error::option(spec.name, format!("applies only to {what}"))),
        _ => Ok(()),
    }
}

/// Reads the text of an option; [`options!`](macro@crate::options) calls it.
#[doc(hidden)]
pub fn parse_one<T: OptionValue>(name: &'static str, text: &str) -> Result<T> {
    T::parse(text)
        .map_err(|expected| Error::option(name, format!("expected {expected}, found `{text}`")))
}

/// An error for an option that is not there.
#[doc(hidden)]
pub fn unknown(task: &str, name: &str) -> Error {
    Error::input(format!("`{task}` has no option `{name}`"))
}

/// Declares the values of an option that has a few: an enum whose variants have names.
///
/// The names are those of files and of the command line. Beside the enum come `ALL`,
/// `name`, `FromStr`, `Display`, serde by name, and [`OptionValue`].
#[macro_export]
macro_rules! choices {
    (@default $enum:ident $variant:ident) => {
        impl Default for $enum {
            fn default() -> Self {
                $enum::$variant
            }
        }
    };
    (
        $(#[$outer:meta])*
        $vis:vis enum $enum:ident {
            $( $(#[doc = $doc:literal])+ $variant:ident = $name:literal $(($default:ident))?, )+
        }
    ) => {
        $( $( $crate::choices! { @$default $enum $variant } )? )+

        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        $vis enum $enum {
            $( $(#[doc = $doc])+ #[serde(rename = $name)] $variant, )+
        }

        impl $enum {
            /// All of them.
            pub const ALL: &'static [$enum] = &[$($enum::$variant),+];

            /// Its name on the command line and in files.
            pub const fn name(self) -> &'static str {
                match self {
                    $( $enum::$variant => $name, )+
                }
            }
        }

        impl ::std::fmt::Display for $enum {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl ::std::str::FromStr for $enum {
            type Err = String;
            fn from_str(text: &str) -> ::std::result::Result<Self, String> {
                let found = Self::ALL.iter().copied().find(|value| value.name() == text);
                found.ok_or_else(|| {
                    let names: Vec<String> =
                        Self::ALL.iter().map(|value| format!("`{value}`")).collect();
                    format!("one of {}", names.join(", "))
                })
            }
        }

        impl $crate::options::OptionValue for $enum {
            type Argument = $enum;
            const KIND: $crate::options::Kind = $crate::options::Kind::Choice(&[
                $( $crate::options::Choice { name: $name, doc: concat!($($doc),+) }, )+
            ]);
            fn from_argument(argument: $enum) -> Self {
                argument
            }
            fn parse(text: &str) -> ::std::result::Result<Self, String> {
                text.parse()
            }
            fn show(&self) -> Option<String> {
                Some(self.name().to_owned())
            }
        }
    };
}

/// Declares the options of a task.
///
/// ```
/// rankfold::options! {
///     /// Learns something.
///     pub struct Something: "something" {
///         /// Rank of W.
///         rank: usize = 10, in Range::COUNT;
///         /// Step size [default: chosen by a short trial].
///         step_size: Option<f64> = None, in Range::POSITIVE,
///             for "runs without `--exact`" if |o| !o.exact;
///         /// Solve exactly.
///         exact: bool = false;
///         shared seed;
///         shared threads;
///     }
/// }
/// use rankfold::options::Options;
///
/// let options = Something::default().rank(3).exact(true).step_size(0.1);
/// let error = options.check_table().unwrap_err();
/// assert_eq!(error.to_string(), "option `step_size` applies only to runs without `--exact`");
/// ```
///
/// The options that tasks share are written `shared NAME`, so that one idea has one
/// name and one explanation.
#[macro_export]
macro_rules! options {
    (
        $(#[$outer:meta])*
        $vis:vis struct $name:ident : $task:literal { $($body:tt)* }
    ) => {
        $crate::options! { @read [$(#[$outer])* $vis struct $name : $task] [] $($body)* }
    };

    // What tasks share.
    (@read $head:tt $done:tt shared seed; $($rest:tt)*) => {
        $crate::options! { @read $head $done
            /// Seed of all random numbers; the same seed gives the same bytes.
            seed: u64 = 0;
            $($rest)* }
    };
    (@read $head:tt $done:tt shared init; $($rest:tt)*) => {
        $crate::options! { @read $head $done
            /// Where learning starts: as the learner does by itself, or from a model.
            init: $crate::task::StartInit = $crate::task::StartInit::Own;
            $($rest)* }
    };
    (@read $head:tt $done:tt shared threads; $($rest:tt)*) => {
        $crate::options! { @read $head $done
            /// Number of threads [default: all cores]; the result does not depend on it.
            threads: Option<usize> = None, in Range::COUNT, effect Time;
            $($rest)* }
    };
    (@read $head:tt $done:tt shared curve_every; $($rest:tt)*) => {
        $crate::options! { @read $head $done
            /// Steps between two points of the learning curve
            /// [default: a twentieth of the steps].
            curve_every: Option<u64> = None, in Range::COUNT, effect Length;
            $($rest)* }
    };
    (@read $head:tt $done:tt shared patience; $($rest:tt)*) => {
        $crate::options! { @read $head $done
            /// Stop after this many measurements without a better validation result.
            patience: Option<u32> = None, in Range::COUNT, effect Length;
            $($rest)* }
    };
    (@read $head:tt $done:tt shared valid_fraction; $($rest:tt)*) => {
        $crate::options! { @read $head $done
            /// Hold out exactly this share for validation, in each class or task where
            /// there are such. The model that does best on it is kept; it has not learned
            /// from the share.
            valid_fraction: f64 = 0.0, in Range::SHARE;
            $($rest)* }
    };
    (@read $head:tt $done:tt shared preprocessing; $($rest:tt)*) => {
        $crate::options! { @read $head $done
            /// Weight features by how rare they are; the model keeps the weights.
            weight: $crate::model::Weight = $crate::model::Weight::None,
                among ["none", "tfidf"];
            /// Scale rows to length one; the model does so too.
            normalize: $crate::model::Normalize = $crate::model::Normalize::None,
                among ["none", "l2"];
            /// Subtract column means and divide by standard deviations; the model keeps
            /// them.
            standardize: $crate::model::Scaling = $crate::model::Scaling::None,
                among ["none", "global"];
            $($rest)* }
    };
    (@read $head:tt $done:tt shared chosen_preprocessing; $($rest:tt)*) => {
        $crate::options! { @read $head $done
            /// Weight features by how rare they are; the model keeps the weights.
            weight: $crate::model::Weight = $crate::model::Weight::Auto;
            /// Scale rows to length one; the model does so too.
            normalize: $crate::model::Normalize = $crate::model::Normalize::Auto;
            /// Subtract column means and divide by standard deviations; the model keeps
            /// them.
            standardize: $crate::model::Scaling = $crate::model::Scaling::Auto;
            $($rest)* }
    };

    // An option.
    (@read $head:tt [$($done:tt)*]
        $(#[doc = $doc:literal])+
        $field:ident : $type:ty = $default:expr
        $(, in Range::$range:ident)? $(, within $within:expr)? $(, among [$($among:literal),+ $(,)?])?
        $(, for $where:literal if $applies:expr)?
        $(, effect $effect:ident)?
        ; $($rest:tt)*
    ) => {
        $crate::options! { @read $head [$($done)* {
            [$($doc)+] $field [$type] [$default] [$($range)?] [$($within)?]
            [$($($among)+)?] [$($where, $applies)?] [$($effect)?]
        }] $($rest)* }
    };

    (@range [] []) => { $crate::options::Range::ANY };
    (@range [$range:ident] []) => { $crate::options::Range::$range };
    (@range [] [$within:expr]) => { $within };
    (@among []) => { None };
    (@among [$($name:literal)+]) => { Some(&[$($name),+]) };
    (@effect []) => { $crate::options::Effect::Model };
    (@effect [$effect:ident]) => { $crate::options::Effect::$effect };
    (@where []) => { None };
    (@where [$where:literal, $applies:expr]) => { Some($where) };
    (@applies $options:ident []) => { true };
    (@applies $options:ident [$where:literal, $applies:expr]) => {{
        let applies: fn(&Self) -> bool = $applies;
        applies($options)
    }};

    (@read [$(#[$outer:meta])* $vis:vis struct $name:ident : $task:literal] [$({
        [$($doc:literal)+] $field:ident [$type:ty] [$default:expr] $range:tt $within:tt
        $among:tt $where:tt $effect:tt
    })*]) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(default)]
        $vis struct $name {
            $( $(#[doc = $doc])+ pub(crate) $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $( $field: $default, )* }
            }
        }

        impl $name {
            $(
                $(#[doc = $doc])+
                #[must_use]
                pub fn $field(
                    mut self,
                    $field: <$type as $crate::options::OptionValue>::Argument,
                ) -> Self {
                    self.$field = $crate::options::OptionValue::from_argument($field);
                    self
                }
            )*
        }

        impl $crate::options::Options for $name {
            const TASK: &'static str = $task;

            fn specs() -> &'static [$crate::options::OptionSpec] {
                const SPECS: &[$crate::options::OptionSpec] = &[$(
                    $crate::options::OptionSpec {
                        name: stringify!($field),
                        doc: &[$($doc),+],
                        kind: <$type as $crate::options::OptionValue>::KIND,
                        default: || {
                            let default: $type = $default;
                            $crate::options::OptionValue::show(&default)
                        },
                        range: $crate::options!(@range $range $within),
                        among: $crate::options!(@among $among),
                        applies_to: $crate::options!(@where $where),
                        effect: $crate::options!(@effect $effect),
                    },
                )*];
                SPECS
            }

            fn set(&mut self, name: &str, text: &str) -> $crate::Result<()> {
                match name {
                    $( stringify!($field) => {
                        self.$field = $crate::options::parse_one(stringify!($field), text)?;
                        Ok(())
                    } )*
                    _ => Err($crate::options::unknown($task, name)),
                }
            }

            fn get(&self, name: &str) -> Option<String> {
                match name {
                    $( stringify!($field) => {
                        $crate::options::OptionValue::show(&self.$field)
                    } )*
                    _ => None,
                }
            }

            fn check_table(&self) -> $crate::Result<()> {
                let default = Self::default();
                let mut specs = Self::specs().iter();
                $(
                    let spec = specs.next().expect("one for each option");
                    let applies = $crate::options!(@applies self $where);
                    $crate::options::check_one(spec, &self.$field, &default.$field, applies)?;
                )*
                Ok(())
            }

            fn check_given(&self, name: &str) -> $crate::Result<()> {
                let spec = Self::specs().iter().find(|spec| spec.name == name);
                let spec = spec.ok_or_else(|| $crate::options::unknown($task, name))?;
                let applies = match name {
                    $( stringify!($field) => $crate::options!(@applies self $where), )*
                    _ => true,
                };
                $crate::options::check_applies(spec, applies)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    choices! {
        /// A kind of run.
        pub enum Way {
            /// At once
            Batch = "batch",
            /// One after the other
            Online = "one-by-one",
        }
    }

    options! {
        /// A task for these tests.
        pub struct Toy: "toy" {
            /// How it runs.
            way: Way = Way::Batch;
            /// Rank.
            rank: usize = 3, in Range::COUNT;
            /// Length of a step.
            step_size: Option<f64> = None, in Range::POSITIVE,
                for "`--way one-by-one`" if |o| o.way == Way::Online;
            /// A share.
            share: f64 = 0.5, within Range::between(0.25, 0.75);
            shared seed;
            shared threads;
        }
    }

    fn refused(options: Toy) -> String {
        options.check_table().unwrap_err().to_string()
    }

    #[test]
    fn options_come_from_one_declaration() {
        let names: Vec<_> = Toy::specs().iter().map(|spec| spec.name).collect();
        let want = ["way", "rank", "step_size", "share", "seed", "threads"];
        assert_eq!(names, want);
        let defaults: Vec<_> = Toy::specs().iter().map(|s| (s.default)()).collect();
        assert_eq!(defaults[0].as_deref(), Some("batch"));
        assert_eq!(defaults[2], None);
        assert_eq!(Toy::specs()[1].text(), "Rank.");
        assert_eq!(Toy::specs()[5].effect, Effect::Time);

        let mut toy = Toy::default();
        toy.set("way", "one-by-one").unwrap();
        toy.set("step_size", "0.25").unwrap();
        toy.set("seed", "7").unwrap();
        toy.set("threads", "2").unwrap();
        let same = Toy::default().way(Way::Online).step_size(0.25);
        assert_eq!(toy, same.seed(7).threads(2));
        assert_eq!(toy.get("way").as_deref(), Some("one-by-one"));
        assert_eq!(toy.check_table(), Ok(()));
        let json = serde_json::to_string(&toy).unwrap();
        assert_eq!(serde_json::from_str::<Toy>(&json).unwrap(), toy);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let want = "option `rank` must be at least 1, found 0";
        assert_eq!(refused(Toy::default().rank(0)), want);
        let online = Toy::default().way(Way::Online);
        for (size, found) in [(0.0, "0"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
            let want = format!("option `step_size` must be above 0, found {found}");
            assert_eq!(refused(online.clone().step_size(size)), want);
        }
        let want = "option `share` must be at least 0.25 and at most 0.75, found 0.8";
        assert_eq!(refused(Toy::default().share(0.8)), want);
    }

    #[test]
    fn an_option_that_does_not_apply_is_refused() {
        let want = "option `step_size` applies only to `--way one-by-one`";
        assert_eq!(refused(Toy::default().step_size(0.1)), want);
    }

    #[test]
    fn bad_texts_say_what_was_expected() {
        let mut toy = Toy::default();
        let error = |e: Error| e.to_string();
        assert_eq!(
            toy.set("way", "slow").map_err(error),
            Err("option `way` expected one of `batch`, `one-by-one`, found `slow`".into())
        );
        assert_eq!(
            toy.set("rank", "-1").map_err(error),
            Err("option `rank` expected a whole number, found `-1`".into())
        );
        assert_eq!(
            toy.set("speed", "1").map_err(error),
            Err("`toy` has no option `speed`".into())
        );
    }
}
