//! What columns of users, items and the like are called in files as people have them.
//!
//! Names are compared without case, quotes, spaces, `_`, `-` and `.`, and without the type
//! that RecBole puts behind them (`user_id:token`).

/// What a column is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Item,
    Rating,
    Weight,
    Time,
}

impl Role {
    /// What such columns are called, the clearest name first.
    fn names(self) -> &'static [&'static str] {
        match self {
            Role::User => &[
                "user",
                "userid",
                "uid",
                "username",
                "useridx",
                "usersid",
                "users",
                "reviewerid",
                "reviewer",
                "reviewername",
                "customerid",
                "customer",
                "custid",
                "visitorid",
                "memberid",
                "member",
                "profileid",
                "accountid",
                "personid",
                "readerid",
                "reader",
                "listenerid",
                "listener",
                "clientid",
                "buyerid",
                "shopperid",
                "sessionid",
                "authorid",
                "studentid",
                "patientid",
            ],
            Role::Item => &[
                "item",
                "itemid",
                "iid",
                "itemidx",
                "items",
                "movieid",
                "movie",
                "filmid",
                "film",
                "asin",
                "parentasin",
                "isbn",
                "isbn13",
                "bookid",
                "book",
                "productid",
                "product",
                "sku",
                "trackid",
                "track",
                "songid",
                "song",
                "artistid",
                "artist",
                "albumid",
                "animeid",
                "anime",
                "gameid",
                "game",
                "appid",
                "app",
                "articleid",
                "newsid",
                "videoid",
                "showid",
                "businessid",
                "restaurantid",
                "placeid",
                "venueid",
                "hotelid",
                "recipeid",
                "beerid",
                "beerbeerid",
                "jokeid",
                "courseid",
                "listingid",
                "stockcode",
                "offerid",
                "adid",
            ],
            Role::Rating => &[
                "rating",
                "ratings",
                "ratingvalue",
                "stars",
                "star",
                "starrating",
                "score",
                "overall",
                "bookrating",
                "userrating",
                "reviewrating",
                "reviewscore",
                "reviewoverall",
                "ratingscore",
                "myrating",
                "grade",
                "mark",
            ],
            Role::Weight => &["weight", "plays", "playcount", "listencount"],
            Role::Time => &[
                "time",
                "timestamp",
                "unixreviewtime",
                "unixtime",
                "ratingtimestamp",
                "ts",
            ],
        }
    }

    /// The name that such a column has where nobody chose another.
    pub(super) fn usual(self) -> &'static str {
        self.names()[0]
    }

    /// What such a column holds.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Role::User => "users",
            Role::Item => "items",
            Role::Rating => "ratings",
            Role::Weight => "weights",
            Role::Time => "times",
        }
    }

    /// Its place in a file without a header.
    pub(super) fn place(self) -> Option<usize> {
        match self {
            Role::User => Some(0),
            Role::Item => Some(1),
            Role::Rating => Some(2),
            Role::Weight | Role::Time => None,
        }
    }

    /// The column of this role among names; `None` where there is none, or two with equal
    /// right.
    pub(super) fn find<S: AsRef<str>>(self, names: &[S]) -> Option<usize> {
        let plain: Vec<String> = names.iter().map(|name| plain(name.as_ref())).collect();
        for known in self.names() {
            let mut found = (0..).zip(&plain).filter(|(_, name)| name == known);
            if let Some((at, _)) = found.next() {
                return found.next().is_none().then_some(at);
            }
        }
        None
    }
}

/// Whether these fields are names of columns and no data: users and items are among them.
pub(super) fn names_columns<S: AsRef<str>>(fields: &[S]) -> bool {
    Role::User.find(fields).is_some() && Role::Item.find(fields).is_some()
}

/// A name without case and punctuation, and without a type behind it.
pub(super) fn plain(name: &str) -> String {
    let name = name.trim().trim_matches(['"', '\'']);
    let types = [":token_seq", ":float_seq", ":token", ":float"];
    let name = types
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name);
    let letters = name.chars().filter(|c| !" _-.".contains(*c));
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(header: &str) -> [Option<usize>; 4] {
        let names: Vec<&str> = header.split(',').collect();
        [Role::User, Role::Item, Role::Rating, Role::Time].map(|role| role.find(&names))
    }

    #[test]
    fn names_of_public_data_sets_are_known() {
        for header in [
            "userId,movieId,rating,timestamp",
            "user_id:token,item_id:token,rating:float,timestamp:float",
            "reviewerID,asin,overall,unixReviewTime",
            "UID,Product Id,Stars,TIME",
            "\"user\",\"item\",\"score\",\"ts\"",
        ] {
            let want = [Some(0), Some(1), Some(2), Some(3)];
            assert_eq!(found(header), want, "{header}");
        }
        assert_eq!(
            found("User-ID,ISBN,Book-Rating"),
            [Some(0), Some(1), Some(2), None]
        );
        assert_eq!(found("rating,score,item,user")[2], Some(0));
    }

    #[test]
    fn two_columns_with_equal_right_are_none() {
        assert_eq!(found("userId,user_id,item")[0], None);
        assert_eq!(found("a,b,c"), [None; 4]);
        assert!(names_columns(&["uid", "iid"]));
        assert!(!names_columns(&["ann", "alien", "5"]));
    }
}
