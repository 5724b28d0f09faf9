//! Numbers that rows own, or that somebody else keeps for them.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Numbers in the memory of somebody else, such as an array of another program. They
/// must not change while they are lent.
pub type Lent<T> = Arc<dyn AsRef<[T]> + Send + Sync>;

pub(super) enum Store<T> {
    Own(Vec<T>),
    Lent(Lent<T>),
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store::Own(Vec::new())
    }
}

impl<T: Clone> Clone for Store<T> {
    fn clone(&self) -> Self {
        match self {
            Store::Own(values) => Store::Own(values.clone()),
            Store::Lent(values) => Store::Lent(values.clone()),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Deref for Store<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Store::Own(values) => values,
            Store::Lent(values) => (**values).as_ref(),
        }
    }
}

impl<T: Clone> Store<T> {
    /// The numbers, to be changed: lent ones are copied first.
    pub fn owned(&mut self) -> &mut Vec<T> {
        if let Store::Lent(values) = self {
            *self = Store::Own((**values).as_ref().to_vec());
        }
        match self {
            Store::Own(values) => values,
            Store::Lent(_) => unreachable!("they were copied"),
        }
    }

    /// Keeps the numbers where clones share them.
    pub fn share(&mut self)
    where
        T: Send + Sync + 'static,
    {
        if let Store::Own(values) = self {
            *self = Store::Lent(Arc::new(std::mem::take(values)));
        }
    }

    pub fn shrink(&mut self) {
        if let Store::Own(values) = self {
            values.shrink_to_fit();
        }
    }
}
