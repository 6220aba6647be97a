//! FreeBSD's recovery under regular and random loss against recordings of FreeBSD's own.

use std::fmt::Write as _;

use crate::hosts;
use crate::lab::{self, Loss, Setup};
use crate::summary;
use tcp::stack::EcnMode;

/// A LAN with every n-th packet dropped at the receiver's input: nothing is left to chance.
#[test]
fn a_lan_with_regular_loss_agrees_with_the_recorded_one() {
    let mut table = String::from(
        "run (ours / recorded)                      goodput Mb/s         drops    rexmit     RTOs\n",
    );
    let mut failures = Vec::new();
    for row in summary::lan() {
        let name = row.text("name");
        let parts: Vec<&str> = name.split('_').collect();
        let host = hosts::named(parts[0], parts[1], parts[0].starts_with("f13"));
        let every =
            parts.iter().find_map(|part| part.strip_prefix("nth")).expect("nth").parse().expect("a number");
        let out = lab::run(&Setup {
            sender: &host,
            receiver: &host,
            cc: hosts::module(parts[1]),
            rate: 1_000_000_000,
            rtt: 600_000,
            buffer: 1000,
            mark_at: None,
            loss: Loss::Every(every),
            bytes: None,
            buffers: Some(10 << 20),
            duration: 30_000_000_000,
            ecn: EcnMode::Off,
            random: 1,
            phase: hosts::PHASE,
            lag: hosts::LAG,
            aggregate: 1,
        });
        let end = out.end.expect("a run");
        let goodput = out.delivered as f64 * 8.0 / 30e6;
        let recorded = row.number("goodput_mbps");
        let _ = writeln!(
            table,
            "{name:38} {goodput:9.4} {recorded:9.4} {:6}/{:6} {:6}/{:6} {:2}/{:2}",
            out.input_drops,
            row.number("drops"),
            end.retransmits,
            row.number("rexmitpack"),
            end.sender.timeouts,
            row.number("rto")
        );
        // RACK on 13 ran with rfc6675_pipe as well: without it the model falls short by 22 to 73 %. On which ticks its waits
        // end moves its runs by some percent.
        let rack = name.starts_with("f13rack");
        // 11's CUBIC lives on stalls of a delayed ACK there: a tick more or less of that timer moves N = 33 between 25
        // and 70 Mb/s.
        let bound = if rack {
            0.08
        } else if name.starts_with("f11_cubic") {
            0.5
        } else {
            0.01
        };
        if (goodput - recorded).abs() > bound * recorded || end.sender.timeouts as f64 != row.number("rto") {
            failures.push(name.to_owned());
        }
    }
    println!("{table}");
    assert!(failures.is_empty(), "{failures:?} differ\n{table}");
}

/// Random loss: the mean of two runs against one recorded run. Some 170 losses a run leave a spread of several percent.
#[test]
fn random_loss_agrees_with_the_recorded_one_on_average() {
    const RUNS: u64 = 2;
    let mut table = String::from(
        "run (mean of 2 / recorded)                 goodput Mb/s     drops    rexmit      RTOs\n",
    );
    let mut failures = Vec::new();
    for row in summary::rows() {
        let name = row.text("name");
        if !name.contains("loss0") || row.text("stack") == "rack" {
            continue;
        }
        let parts: Vec<&str> = name.split('_').collect();
        let host = hosts::named(parts[0], parts[1], parts.contains(&"pipe6675"));
        let share: f64 =
            parts.iter().find_map(|part| part.strip_prefix("loss")).expect("loss").parse().expect("a share");
        let (mut goodput, mut drops, mut rexmit, mut rtos) = (0.0, 0.0, 0.0, 0.0);
        for random in 1..=RUNS {
            let out = lab::run(&Setup {
                sender: &host,
                receiver: &host,
                cc: hosts::module(parts[1]),
                rate: row.number("rate_mbps") as u64 * 1_000_000,
                rtt: row.number("rtt_ms") as u64 * 1_000_000,
                buffer: row.number("buf") as usize,
                mark_at: None,
                loss: Loss::Random(share),
                bytes: None,
                buffers: Some(4 << 20),
                duration: row.number("dur") as u64 * 1_000_000_000,
                ecn: EcnMode::Off,
                random,
                phase: hosts::PHASE,
                lag: hosts::LAG,
                aggregate: 1,
            });
            let end = out.end.expect("a run");
            goodput += out.delivered as f64 * 8.0 / row.number("dur") / 1e6 / RUNS as f64;
            drops += out.input_drops as f64 / RUNS as f64;
            rexmit += end.retransmits as f64 / RUNS as f64;
            rtos += end.sender.timeouts as f64 / RUNS as f64;
        }
        let recorded = row.number("goodput_mbps");
        let _ = writeln!(
            table,
            "{name:40} {goodput:8.4} {recorded:8.4} {drops:7.1} {:5} {rexmit:7.1} {:5} {rtos:5.1} {:3}",
            row.number("drops"),
            row.number("rexmitpack"),
            row.number("rto")
        );
        if (goodput - recorded).abs() > if row.text("cc") == "cdg" { 0.2 } else { 0.15 } * recorded {
            failures.push(name.to_owned());
        }
    }
    println!("{table}");
    assert!(failures.is_empty(), "{failures:?} differ\n{table}");
}
