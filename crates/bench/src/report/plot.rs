//! Plots as inline SVG.

use super::html::escaped;
use super::numbers::shown;
use crate::finding::{Chart, Finding, Line};

const WIDTH: f64 = 800.0;
const COLOURS: [&str; 4] = ["#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e"];

/// Two bars for each finding with a peer, ours and the peer's, relative to the longer one.
pub fn bars(findings: &[Finding]) -> String {
    const ROW: f64 = 40.0;
    const LEFT: f64 = 300.0;
    const LENGTH_MAX: f64 = 380.0;
    let mut body = String::new();
    let mut top = 0.0;
    for finding in findings {
        let Some((peer, theirs)) = &finding.peer else { continue };
        let (ours, theirs) = (finding.ours.median(), theirs.median());
        let longest = ours.max(theirs).max(f64::MIN_POSITIVE);
        let name = escaped(&finding.work);
        body += &format!("<text x=\"0\" y=\"{}\">{name}</text>\n", top + 20.0);
        for (value, who, colour, y) in
            [(ours, "ours", "--ours", top + 4.0), (theirs, peer.as_str(), "--peer", top + 19.0)]
        {
            let length = LENGTH_MAX * value / longest;
            body += &format!(
                "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" height=\"12\" rx=\"2\" \
                 fill=\"var({colour})\"/><text x=\"{:.1}\" y=\"{}\">{} {}</text>\n",
                LEFT + length + 6.0,
                y + 10.0,
                escaped(who),
                shown(value, finding.unit),
            );
        }
        top += ROW;
    }
    match body.is_empty() {
        true => String::new(),
        false => format!("<svg viewBox=\"0 0 {WIDTH} {top}\" role=\"img\">\n{body}</svg>\n"),
    }
}

/// The lines of a chart over axes that begin at zero.
pub fn lines(chart: &Chart) -> String {
    const HEIGHT: f64 = 260.0;
    const LEFT: f64 = 60.0;
    const BOTTOM: f64 = 30.0;
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let right = points().map(|point| point.0).fold(f64::MIN_POSITIVE, f64::max);
    let top = points().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max) * 1.1;
    let x = |value: f64| LEFT + (WIDTH - LEFT - 120.0) * value / right;
    let y = |value: f64| (HEIGHT - BOTTOM) * (1.0 - value / top);
    let mut body = String::new();
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let (height, end) = (y(value), WIDTH - 120.0);
        body += &format!(
            "<path d=\"M{LEFT} {height:.1}H{end}\" stroke=\"var(--line)\"/>\
             <text x=\"0\" y=\"{:.1}\">{value:.0}</text>\n",
            height + 4.0,
        );
    }
    for (line, colour) in chart.lines.iter().zip(COLOURS.iter().cycle()) {
        body += &polyline(line, colour, &x, &y);
    }
    body += &format!(
        "<text x=\"{LEFT}\" y=\"{}\">0 to {right:.0} {}, {} upwards</text>\n",
        HEIGHT - 6.0,
        escaped(&chart.across),
        escaped(&chart.up),
    );
    let title = escaped(&chart.title);
    format!(
        "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n{body}</svg>\
         <figcaption>{title}</figcaption></figure>\n"
    )
}

fn polyline(line: &Line, colour: &str, x: &impl Fn(f64) -> f64, y: &impl Fn(f64) -> f64) -> String {
    let points: Vec<String> =
        line.points.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
    let label = line.points.last().map_or_else(String::new, |last| {
        let (left, height) = (x(last.0) + 6.0, y(last.1) + 4.0);
        let name = escaped(&line.name);
        format!("<text x=\"{left:.1}\" y=\"{height:.1}\" style=\"fill:{colour}\">{name}</text>")
    });
    format!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>{label}\n",
        points.join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Unit;
    use crate::samples::Samples;

    #[test]
    fn a_finding_without_a_peer_has_no_bars() {
        let alone = Finding::new("<work>", Unit::Seconds, 1.0);
        assert_eq!(bars(std::slice::from_ref(&alone)), "");
        let plot = bars(&[alone.beside("peer", Samples::from(2.0))]);
        assert!(plot.contains("&lt;work&gt;") && plot.matches("<rect").count() == 2);
    }

    #[test]
    fn a_line_runs_from_left_to_right() {
        let line = Line { name: "a".to_owned(), points: vec![(0.0, 0.0), (10.0, 5.0)] };
        let chart = Chart {
            title: "t".to_owned(),
            across: "x".to_owned(),
            up: "y".to_owned(),
            lines: vec![line],
        };
        assert!(lines(&chart).contains("points=\"60.0,230.0 680.0,20.9\""));
    }
}
