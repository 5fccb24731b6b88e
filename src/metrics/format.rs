//! [`Format`]: in which of the two text formats the numbers are written.

use std::fmt;

/// A text format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Format {
    /// Prometheus text, version 0.0.4: every scraper reads it.
    #[default]
    Text,
    /// `OpenMetrics`, version 1.0.0: with units, and with an end by which a cut answer is known.
    OpenMetrics,
}

impl Format {
    /// What to send as the `Content-Type` of a response in this format.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format that a request's `Accept` header prefers.
    ///
    /// `OpenMetrics` is sent only to whoever names it and gives it no lesser quality than plain text.
    /// Everybody else gets plain text: also an empty header, `*/*`, and whoever takes neither, since
    /// an answer in another format tells a person more than none.
    #[must_use]
    pub fn negotiate(accept: &str) -> Self {
        let (mut text, mut open_metrics, mut anything) = (None, 0.0_f32, 0.0_f32);
        for range in accept.split(',') {
            let Range { media, version, quality } = Range::of(range);
            match (media.as_str(), version) {
                ("application/openmetrics-text", None | Some("1.0.0")) => {
                    open_metrics = quality.max(open_metrics);
                }
                ("text/plain", None | Some("0.0.4")) => {
                    text = Some(quality.max(text.unwrap_or(0.0)));
                }
                ("text/*" | "*/*", _) => anything = quality.max(anything),
                _ => {}
            }
        }
        // A range that names the type goes before one with a star.
        let text = text.unwrap_or(anything);
        if open_metrics > 0.0 && open_metrics >= text { Self::OpenMetrics } else { Self::Text }
    }
}

/// One member of an `Accept` header: `text/plain; version=0.0.4; q=0.5`.
struct Range<'a> {
    media: String,
    version: Option<&'a str>,
    quality: f32,
}

impl<'a> Range<'a> {
    fn of(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let (mut version, mut quality) = (None, 1.0);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim().to_ascii_lowercase().as_str() {
                "version" => version = Some(value.trim().trim_matches('"')),
                // What cannot be read is taken for a refusal.
                "q" => quality = value.trim().parse().unwrap_or(0.0),
                _ => {}
            }
        }
        Self { media, version, quality }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "Prometheus text",
            Self::OpenMetrics => "OpenMetrics",
        })
    }
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::Format::{self, OpenMetrics, Text};

    #[test]
    fn the_format_is_the_one_that_the_scraper_prefers() {
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,\
                            application/openmetrics-text;version=0.0.1;q=0.75,\
                            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                            application/openmetrics-text;version=0.0.1;q=0.5,\
                            text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let protobuf_first = "application/vnd.google.protobuf;encoding=delimited;q=0.7,\
                              text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (prometheus_2, OpenMetrics),
            (prometheus_3, OpenMetrics),
            (protobuf_first, Text),
            ("", Text),
            ("*/*", Text),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Text),
            ("application/openmetrics-text", OpenMetrics),
            ("Application/OpenMetrics-Text; Version=\"1.0.0\"", OpenMetrics),
            ("application/openmetrics-text;version=0.0.1", Text),
            ("application/openmetrics-text;version=1.0.0;q=0", Text),
            ("application/openmetrics-text;q=0.4, text/plain;q=0.5", Text),
            ("application/openmetrics-text;q=0.5, text/plain;q=0.5", OpenMetrics),
            ("application/openmetrics-text;q=0.5, */*;q=0.8", Text),
            ("application/openmetrics-text;q=0.5, text/plain;q=0.1, */*;q=0.8", OpenMetrics),
            ("application/openmetrics-text;q=nonsense", Text),
            ("application/json", Text),
            (";;,,=;q=", Text),
        ] {
            assert_eq!(Format::negotiate(accept), format, "{accept}");
        }
    }
}
