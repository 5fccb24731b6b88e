//! One page from two bulkheads: answers in the order in which they come, and a time when it is enough.
//!
//! Run it: `cargo run --example fan_out`
//!
//! You will see prices and reviews arrive mixed, the fast ones first, until the page's 150 ms are
//! over; then the page goes out without the reviews that are still to come.

use std::thread::sleep;
use std::time::Duration;

use crossbeam_channel::{after, select};
use watertight::{Batch, Bulkhead, Runtime};

type Anything = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Anything> {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("pricing").threads(3).queue(0))
        .bulkhead(Bulkhead::builder("reviews").threads(2).queue(0))
        .build()?;
    let (pricing, reviews) = (runtime.bulkhead("pricing")?, runtime.bulkhead("reviews")?);

    // One batch for each kind of answer, with the article's number as the key.
    let prices: Batch<u32, u32> = Batch::new();
    let stars: Batch<u32, String> = Batch::new();
    for article in 1..=3 {
        prices.submit(&pricing, article, move |_| price_of(article))?;
        // Reviews are optional: what is refused is left out of the page. The third one is.
        if let Err(refused) = stars.submit(&reviews, article, move |_| stars_of(article)) {
            println!("article {article}: no reviews ({})", refused.reason());
        }
    }

    let enough = after(Duration::from_millis(150));
    while prices.pending() + stars.pending() > 0 {
        select! {
            recv(prices.receiver()) -> news => {
                let (article, answer) = news?;
                println!("article {article}: {} cents", answer?);
            }
            recv(stars.receiver()) -> news => match news? {
                (article, Ok(stars)) => println!("article {article}: {stars}"),
                (article, Err(error)) => println!("article {article}: no reviews ({error})"),
            },
            recv(enough) -> _ => break,
        }
    }
    println!("The page goes out; {} reviews were too late.", stars.pending());
    Ok(())
}

fn price_of(article: u32) -> u32 {
    sleep(Duration::from_millis(20 * u64::from(article)));
    article * 100 - 1
}

fn stars_of(article: u32) -> String {
    // The second article's reviews are slow today.
    sleep(Duration::from_millis(if article == 2 { 600 } else { 30 }));
    "*".repeat(article as usize + 2)
}
