//! The picture: page latency and failures over time, both builds.

use std::fs;
use std::path::Path;
use std::time::Duration;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::figures::{number, quantile};
use crate::load::{Outcome, Sample};
use crate::page::Failure;
use crate::run::{Mode, Record};

/// Each point of a curve stands for the requests that were due in this time.
const BIN: Duration = Duration::from_millis(500);

const LATENCY: RGBColor = RGBColor(31, 90, 160);
const FAILURES: RGBColor = RGBColor(200, 40, 40);
const SLOW: RGBColor = RGBColor(245, 232, 205);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(crate) fn draw(path: &Path, records: [&Record; 2]) -> Result<(), Failure> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let root = SVGBackend::new(path, (1100, 700)).into_drawing_area();
    root.fill(&WHITE)?;
    let end = records.iter().filter_map(|r| r.seen.pages.last()).map(|s| s.due).max();
    let end = end.unwrap_or_default().as_secs_f64();
    let columns = root.split_evenly((1, 2));
    for (column, record) in columns.iter().zip(records) {
        let column = column.titled(
            &format!(
                "{}: 150 pages/s, reviews {} where shaded",
                record.build,
                record.setup.mode.name()
            ),
            ("sans-serif", 20),
        )?;
        let (upper, lower) = column.split_vertically(400);
        draw_latency(&upper, record, end)?;
        draw_failures(&lower, record, end)?;
    }
    root.present()?;
    Ok(())
}

fn draw_latency(area: &Area<'_>, record: &Record, end: f64) -> Result<(), Failure> {
    let (low, high) = (10.0, 4000.0);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .caption("page latency (dots: pages; line: p99 of each half second)", ("sans-serif", 15))
        .x_label_area_size(30)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end, (low..high).log_scale())?;
    chart.draw_series(shade(record, low, high))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .y_desc("ms")
        .y_label_formatter(&|ms| format!("{ms:.0}"))
        .x_label_formatter(&|s| format!("{s:.0} s"))
        .draw()?;
    // One page in four is enough to see where they are, and a quarter of the file.
    chart.draw_series(record.seen.pages.iter().step_by(4).map(|page| {
        let colour = if page.outcome == Outcome::Failed { FAILURES } else { LATENCY };
        let at = (page.due.as_secs_f64(), page.took.as_secs_f64() * 1e3);
        Circle::new(at, 1, colour.mix(0.35).filled())
    }))?;
    let p99 = bins(&record.seen.pages)
        .map(|(at, pages)| (at, quantile(pages.iter().map(|page| page.took), 990)));
    chart.draw_series(LineSeries::new(p99, LATENCY.stroke_width(2)))?;
    mark(record, low, high).try_for_each(|line| chart.draw_series([line]).map(drop))?;
    if let Some((from, _)) = record.slow.first() {
        let at = (from.as_secs_f64() + end / 100.0, high * 0.85);
        let trouble = match record.setup.mode {
            Mode::Slow => "reviews: 30 ms -> 3 s",
            Mode::Hung => "reviews: no answer",
        };
        chart.draw_series([Text::new(trouble, at, ("sans-serif", 13))])?;
    }
    Ok(())
}

fn draw_failures(area: &Area<'_>, record: &Record, end: f64) -> Result<(), Failure> {
    let (low, high) = (0.0, 160.0);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .caption("pages that failed, per second", ("sans-serif", 15))
        .x_label_area_size(30)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end, low..high)?;
    chart.draw_series(shade(record, low, high))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .y_desc("failed/s")
        .x_label_formatter(&|s| format!("{s:.0} s"))
        .draw()?;
    let failed = bins(&record.seen.pages).map(|(at, pages)| {
        let failed = pages.iter().filter(|page| page.outcome == Outcome::Failed).count();
        (at, number(failed) / BIN.as_secs_f64())
    });
    let area = AreaSeries::new(failed, 0.0, FAILURES.mix(0.4)).border_style(FAILURES);
    chart.draw_series(area)?;
    mark(record, low, high).try_for_each(|line| chart.draw_series([line]).map(drop))?;
    Ok(())
}

/// The times when reviews was slow, or hung.
fn shade(record: &Record, low: f64, high: f64) -> impl Iterator<Item = Rectangle<(f64, f64)>> {
    record.slow.iter().map(move |(from, to)| {
        let corners = [(from.as_secs_f64(), low), (to.as_secs_f64(), high)];
        Rectangle::new(corners, SLOW.filled())
    })
}

/// The moments when that began.
fn mark(record: &Record, low: f64, high: f64) -> impl Iterator<Item = PathElement<(f64, f64)>> {
    record.slow.iter().map(move |(from, _)| {
        let at = from.as_secs_f64();
        PathElement::new([(at, low), (at, high)], BLACK.stroke_width(1))
    })
}

/// The pages of each half second, and its middle. The last one is not whole and is left out.
fn bins(pages: &[Sample]) -> impl Iterator<Item = (f64, &[Sample])> {
    let bin = |sample: &Sample| sample.due.as_millis() / BIN.as_millis();
    let last = pages.last().map(bin);
    pages
        .chunk_by(move |a, b| bin(a) == bin(b))
        .filter(move |pages| Some(bin(&pages[0])) != last)
        .map(move |pages| {
            let number = u32::try_from(bin(&pages[0])).unwrap_or(u32::MAX);
            ((f64::from(number) + 0.5) * BIN.as_secs_f64(), pages)
        })
}
