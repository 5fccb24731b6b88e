//! Medians, percentiles, and how far a median may be off.

/// The value that a share `p` (0 to 1) of the sorted values does not exceed, by the nearest rank.
/// No values have none: not a number.
pub(crate) fn percentile(sorted: &[f64], p: f64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank lies between 0 and the number of values"
    )]
    let rank = (p * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let values = sorted(values);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// One value by the other, round by round: what happened to the machine in a round happened to both.
pub(crate) fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| of / to).collect()
}

/// How far from 1 the median of these ratios may be, as the machine's noise has it.
///
/// The interval is the notch of a box plot (Tukey and others, 1978): the median and 1.57
/// times the distance of the quartiles by the root of the number of rounds on either side, which
/// holds the true median 19 times in 20.
pub(crate) fn spread(ratios: &[f64]) -> f64 {
    let values = sorted(ratios);
    let middle = median(&values);
    #[expect(clippy::cast_precision_loss, reason = "there are a few rounds")]
    let root = (values.len() as f64).sqrt();
    let notch = 1.57 * (percentile(&values, 0.75) - percentile(&values, 0.25)) / root;
    (middle - 1.0).abs() + notch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::float_cmp, reason = "the values are taken, not computed")]
    fn assert_is(found: f64, wanted: f64) {
        assert!(found == wanted, "{found} instead of {wanted}");
    }

    #[test]
    fn a_percentile_is_one_of_the_values_and_at_the_ends_the_first_and_the_last() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        for (p, wanted) in [(0.0, 1.0), (0.01, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_is(percentile(&values, p), wanted);
        }
        assert_is(percentile(&[7.0], 0.99), 7.0);
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert_is(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_is(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn one_wild_round_does_not_move_the_median_ratio() {
        let ratios = ratios(&[10.0, 10.0, 900.0, 10.0, 10.0], &[10.0; 5]);
        assert_is(median(&ratios), 1.0);
    }

    #[test]
    fn identical_rounds_have_no_spread_and_a_constant_bias_is_all_of_it() {
        assert_is(spread(&[1.0; 7]), 0.0);
        assert!((spread(&[1.1; 7]) - 0.1).abs() < 1e-12);
        assert!((spread(&[0.9; 7]) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn scattered_rounds_have_a_spread_that_more_rounds_narrow() {
        let few = [0.9, 1.0, 1.1, 0.9, 1.0, 1.1];
        let many = few.repeat(4);
        assert!(spread(&few) > 0.1);
        assert!((spread(&many) * 2.0 - spread(&few)).abs() < 1e-12);
    }

    #[test]
    fn no_rounds_are_not_a_number_which_no_margin_covers() {
        assert!(spread(&[]).is_nan());
    }
}
