//! A made-up shop: who chose what, drawn from a few interests that a customer has.
//!
//! Nothing here is data of real people. Every customer has one to three interests. A choice is an
//! item of one of them, the first items of an interest more often than the last, or now and then
//! anything at all.

use rankfold::random::Random;

/// Interests with their items, the most chosen first.
const INTERESTS: [(&str, &str); 10] = [
    (
        "camping",
        "tent|sleeping bag|camping stove|headlamp|water filter|trekking poles|dry bag|hammock|camping chair|fire starter|mess kit|bear bell",
    ),
    (
        "baking",
        "stand mixer|bread pan|digital scale|rolling pin|proofing basket|pastry brush|cake tin|piping bags|oven thermometer|dough scraper|bread knife|vanilla pods",
    ),
    (
        "gardening",
        "pruning shears|seed mix|watering can|raised bed|compost bin|garden gloves|plant labels|hand trowel|rain gauge|tomato cage|potting soil|bird feeder",
    ),
    (
        "cycling",
        "bike light|floor pump|inner tubes|cycling gloves|chain oil|multi-tool|bottle cage|pannier|bike lock|helmet mirror|repair stand|mudguards",
    ),
    (
        "coffee",
        "hand grinder|pour-over cone|paper filters|gooseneck kettle|espresso cups|milk jug|tamper|cold brew jar|coffee scale|moka pot|descaler|bean canister",
    ),
    (
        "painting",
        "sketchbook|watercolor set|round brushes|masking tape|palette|easel|gouache tubes|drawing pencils|kneaded eraser|canvas boards|brush soap|ink pens",
    ),
    (
        "music",
        "guitar strings|clip tuner|capo|music stand|metronome|drum sticks|pick tin|audio cable|headphones|keyboard bench|slide|practice pad",
    ),
    (
        "sewing",
        "fabric shears|pin cushion|thread box|seam ripper|tape measure|bobbins|cutting mat|rotary cutter|thimble|zipper pack|tailor chalk|iron-on patches",
    ),
    (
        "games",
        "chess set|dice tower|card sleeves|strategy game|party game|puzzle mat|score pad|jigsaw puzzle|travel chess|word game|meeple bag|game timer",
    ),
    (
        "photography",
        "tripod|memory card|lens cloth|camera strap|spare battery|light meter|polarizer|photo paper|flash diffuser|lens cap|camera bag|film roll",
    ),
];

/// What the random numbers of the shop are for.
const SHOP: u64 = 0x73_68_6f_70;

/// Customers of the shop.
pub const CUSTOMERS: usize = 900;

/// Choices of each customer that are held out, the last ones.
pub const HELD_OUT: usize = 2;

/// One choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub customer: usize,
    pub item: usize,
}

/// The titles of all items, interest after interest.
pub fn titles() -> Vec<&'static str> {
    INTERESTS
        .iter()
        .flat_map(|(_, items)| items.split('|'))
        .collect()
}

/// The name of a customer.
pub fn name(customer: usize) -> String {
    format!("customer-{customer}")
}

/// All choices, customer by customer, in the order in which they were made.
pub fn choices() -> Vec<Choice> {
    let items = titles().len();
    let each = items / INTERESTS.len();
    let mut out = Vec::new();
    for customer in 0..CUSTOMERS {
        let mut draw = Random::new(customer as u64, SHOP);
        let mut interests: Vec<usize> = Vec::new();
        for _ in 0..1 + draw.below(3) {
            interests.push(draw.below(INTERESTS.len()));
        }
        let count = HELD_OUT + 5 + draw.below(10);
        let first = out.len();
        while out.len() < first + count {
            let anything = draw.below(8) == 0;
            let interest = match anything {
                true => draw.below(INTERESTS.len()),
                false => interests[draw.below(interests.len())],
            };
            // The smaller of two draws: the first items are chosen more.
            let item = interest * each + draw.below(each).min(draw.below(each));
            let choice = Choice { customer, item };
            if !out[first..].contains(&choice) {
                out.push(choice);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shop_is_whole() {
        let (titles, choices) = (titles(), choices());
        assert_eq!(titles.len(), 120);
        let mut sorted = titles.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), titles.len(), "titles are names of items");
        for customer in 0..CUSTOMERS {
            let own: Vec<usize> = choices
                .iter()
                .filter(|choice| choice.customer == customer)
                .map(|choice| choice.item)
                .collect();
            assert!((7..17).contains(&own.len()));
            let mut once = own.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), own.len());
            assert!(own.iter().all(|&item| item < titles.len()));
        }
    }
}
