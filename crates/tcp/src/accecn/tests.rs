//! Negotiation, counters and room of Accurate ECN.

use super::*;

const SETTINGS: Settings = Settings { known: true, option: 2, beacon: 3, fallback: true, essential: false };

fn fresh() -> AccEcn {
    AccEcn::new(SETTINGS, Ecn::NotEct, Ecn::NotEct)
}

#[test]
fn syns_ask_unless_they_have_none_of_the_flags_or_two_of_rfc_3168() {
    let asks = |number: u32| asked_by(flags_of(number));
    assert_eq!((0..8).map(asks).collect::<Vec<_>>(), [false, true, true, false, true, true, true, true]);
}

#[test]
fn what_a_syn_came_with_is_reflected_and_understood() {
    for field in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
        assert_eq!(reflected(ace(reflection(field))), field);
    }
}

/// Timestamps leave 28 bytes, of which n SACK blocks take 8n + 4.
#[test]
fn counters_and_blocks_share_the_room() {
    let room = OPTION_SPACE - 12;
    assert_eq!(fit(room, 0, 0), Some((3, 0)));
    assert_eq!(fit(room, 3, 1), Some((3, 1)));
    assert_eq!(fit(room, 0, 2), Some((2, 2)));
    assert_eq!(fit(room, 3, 2), None, "two blocks are kept");
    assert_eq!(fit(room, 0, 3), Some((0, 3)), "in the padding");
    assert_eq!(fit(room, 2, 3), Some((2, 2)));
    assert_eq!(fit(OPTION_SPACE, 3, 4), Some((3, 3)));
}

#[test]
fn counters_of_24_bits_go_on_and_back() {
    let mut accecn = fresh();
    let delivery =
        Delivery { packets: 1, bytes: 1, forward: true, slow: true, exact: true, mss: 1000, sent: 1 };
    let mut hear = |e0: u32| {
        let mut option = AccEcnCounters::new(AccEcnCounters::ORDER_0);
        option.push(e0);
        accecn.hear(flags_of(5), Some(option), false);
        accecn.deliver(&delivery);
        accecn.delivered_bytes()[Ecn::Ect0 as usize - 1]
    };
    assert_eq!(hear(0x7f_ffff), 0x7f_fffe);
    assert_eq!(hear(0xff_fffe), 0xff_fffd);
    assert_eq!(hear(1), 0x100_0000, "wrapped");
    assert_eq!(hear(0xff_fffe), 0xff_fffd, "an older one");
}

#[test]
fn counters_that_come_first_after_eight_megabytes_are_not_believed() {
    let mut accecn = fresh();
    let sent = UNSEEN_MAX;
    accecn.hear(flags_of(5), None, false);
    accecn.deliver(&Delivery { packets: 1, bytes: 1, forward: true, slow: false, exact: true, mss: 1, sent });
    assert_eq!(accecn.seen(), Seen::Failed);
    assert!(accecn.failures().option_received);
}

#[test]
fn six_marks_untold_hurry_an_ack() {
    let mut accecn = fresh();
    let delivery = Delivery { packets: 1, bytes: 1, forward: true, slow: true, exact: true, mss: 1, sent: 1 };
    let mut hurried_by = |marks: u32| {
        accecn.receive(Ecn::Ce, marks, 0);
        accecn.take_hurry();
        accecn.hear(flags_of(5), None, false);
        accecn.deliver(&delivery);
        accecn.take_hurry()
    };
    assert!(!hurried_by(5));
    assert!(hurried_by(1));
    accecn.flags_of_ack(true);
    accecn.hear(flags_of(5), None, false);
    accecn.deliver(&delivery);
    assert!(!accecn.take_hurry(), "an ACK has told of them");
}

#[test]
fn bytes_are_told_of_every_4_mib() {
    let mut accecn = AccEcn::new(Settings { option: 1, beacon: 0, ..SETTINGS }, Ecn::NotEct, Ecn::NotEct);
    accecn.seen = Seen::Counters;
    accecn.previous = Ecn::Ect0;
    accecn.receive(Ecn::Ect0, 1, (1 << 22) - 1);
    assert!(!accecn.wants_option(1, 1));
    accecn.receive(Ecn::Ect0, 1, 1);
    assert!(accecn.wants_option(1, 1));
}

/// FreeBSD takes the number in the flags for as many marks as an ACK can tell of (tcp_ecn_input_segment): eight packets that were all
/// marked look like eight without marks.
#[test]
fn the_essential_part_takes_a_wrapped_number_for_the_most_it_can_stand_for() {
    let mut accecn = AccEcn::new(Settings::FREEBSD, Ecn::NotEct, Ecn::NotEct);
    let mut tell = |number: u32, packets| {
        accecn.hear(flags_of(number), None, false);
        accecn.deliver_by_flags(packets)
    };
    assert_eq!(tell(5, 2), 0);
    assert_eq!(tell(6, 2), 1);
    assert_eq!(tell(6, 7), 0);
    assert_eq!(tell(6, 8), 8);
    assert_eq!(tell(0, 10), 10);
    assert_eq!(tell(1, 0), 1);
    assert_eq!(accecn.deliver_by_flags(9), 0, "nothing was told");
}

#[test]
fn a_marked_syn_counts_for_the_essential_part_alone() {
    for (settings, marks) in [(Settings::FREEBSD, 1), (SETTINGS, 0)] {
        assert_eq!(AccEcn::new(settings, Ecn::Ce, Ecn::NotEct).received_ce(), marks);
    }
}
