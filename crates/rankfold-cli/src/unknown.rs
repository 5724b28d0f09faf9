//! How much of a file a model knows: a warning where it is less than half, an error where it
//! is nothing.

use rankfold::{Error, Ids, Result};

use crate::output::Output;

/// Users and items of a file, counted against those of a model.
pub struct Known<'a> {
    users: &'a Ids,
    items: &'a Ids,
    /// How many users were counted, by line or by id, and how many of them are known.
    met_users: (usize, usize),
    met_items: (usize, usize),
    /// Users that are items of the model.
    swapped: usize,
}

impl<'a> Known<'a> {
    /// Against these users and items of a model.
    pub fn new(users: &'a Ids, items: &'a Ids) -> Self {
        Known {
            users,
            items,
            met_users: (0, 0),
            met_items: (0, 0),
            swapped: 0,
        }
    }

    /// Counts a line.
    pub fn line(&mut self, user: &str, item: &str) {
        self.user(user);
        self.item(item);
    }

    /// All users and items of a file at once.
    pub fn ids(mut self, users: &Ids, items: &Ids) -> Self {
        users.iter().for_each(|user| self.user(user));
        items.iter().for_each(|item| self.item(item));
        self
    }

    fn user(&mut self, user: &str) {
        let known = self.users.find(user).is_some();
        self.met_users.0 += 1;
        self.met_users.1 += usize::from(known);
        self.swapped += usize::from(!known && self.items.find(user).is_some());
    }

    fn item(&mut self, item: &str) {
        self.met_items.0 += 1;
        self.met_items.1 += usize::from(self.items.find(item).is_some());
    }

    /// An error where nothing is known; warnings where most is not. Users may be new where
    /// `new_users` says so.
    pub fn check(&self, new_users: bool, output: &Output) -> Result<()> {
        let [users, items] = [self.met_users, self.met_items];
        if users.0 == 0 || items.0 == 0 {
            return Ok(());
        }
        let reason = match 2 * self.swapped > users.0 {
            true => "most of the users are items of the model, so the columns seem to be swapped;",
            false => "is it the right file?",
        };
        let advice = format!("{reason} --columns USER,ITEM,… names the columns");
        if users.1 == 0 && items.1 == 0 {
            return Err(Error::input(format!(
                "the model knows none of the users and none of the items: {advice}"
            )));
        }
        let few = |(count, known): (usize, usize)| 2 * known < count;
        for (met, what, expected) in [
            (users, "users", new_users && !few(items)),
            (items, "items", false),
        ] {
            if few(met) && !expected {
                let (count, unknown) = (met.0, met.0 - met.1);
                output.warn(&format!(
                    "the model does not know {unknown} of {count} {what}: {advice}"
                ));
            }
        }
        Ok(())
    }
}

/// The same for entries of rows.
pub fn check_entries(unknown: usize, count: usize, output: &Output) -> Result<()> {
    if unknown == 0 {
        return Ok(());
    }
    if unknown == count {
        return Err(Error::input(
            "the model knows none of the features: is it the right file, and are features called as \
             in training?",
        ));
    }
    let what = format!("{unknown} entries have features that the model does not know");
    match 2 * unknown > count {
        true => output.warn(&format!("{what}, of {count}: is it the right file?")),
        false => output.note(&format!("{what}; they count for nothing")),
    }
    Ok(())
}
