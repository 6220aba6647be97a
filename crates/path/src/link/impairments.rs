//! Loss, duplication and corruption: what may happen to a packet before it reaches the queue.

use super::{LinkChange, LinkConfig};
use crate::packet::Packet;
use crate::random::Chance;
use crate::{LossConfig, Xoshiro256PlusPlus};

/// The impairments of a link, each with its own random stream.
pub(super) struct Impairments {
    /// Whether the link has any impairment now, an outage included.
    pub(super) active: bool,
    down: bool,
    loss: Option<Loss>,
    duplicate: Option<Trial>,
    corrupt: Option<Trial>,
}

impl Impairments {
    pub(super) fn new(config: &LinkConfig, streams: &dyn Fn(&str) -> Xoshiro256PlusPlus) -> Self {
        let trial =
            |ppb, purpose| (ppb > 0).then(|| Trial { chance: Chance::ppb(ppb), random: streams(purpose) });
        let mut impairments = Impairments {
            active: false,
            down: false,
            loss: config.loss.as_ref().map(|loss| Loss::new(loss, streams("loss"))),
            duplicate: trial(config.duplicate_ppb, "duplicate"),
            corrupt: trial(config.corrupt_ppb, "corrupt"),
        };
        impairments.update();
        impairments
    }

    pub(super) fn down(&self) -> bool {
        self.down
    }

    /// Whether this packet is lost; to be asked exactly once for every packet.
    pub(super) fn loses(&mut self, packet: &impl Packet) -> bool {
        self.loss.as_mut().is_some_and(|loss| loss.hits(packet))
    }

    pub(super) fn duplicates(&mut self) -> bool {
        self.duplicate.as_mut().is_some_and(Trial::draw)
    }

    pub(super) fn corrupts(&mut self) -> bool {
        self.corrupt.as_mut().is_some_and(Trial::draw)
    }

    /// A new loss starts from its beginning, with its random stream where it is.
    pub(super) fn change(&mut self, change: &LinkChange, streams: &dyn Fn(&str) -> Xoshiro256PlusPlus) {
        if let Some(loss) = &change.loss {
            let random = self.loss.take().map_or_else(|| streams("loss"), |old| old.random);
            self.loss = Some(Loss::new(loss, random));
        }
        if let Some(down) = change.down {
            self.down = down;
        }
        self.update();
    }

    fn update(&mut self) {
        self.active = self.down || self.loss.is_some() || self.duplicate.is_some() || self.corrupt.is_some();
    }
}

/// Something that happens to each packet with the same probability.
struct Trial {
    chance: Chance,
    random: Xoshiro256PlusPlus,
}

impl Trial {
    fn draw(&mut self) -> bool {
        self.chance.hit(&mut self.random)
    }
}

struct Loss {
    pattern: Pattern,
    random: Xoshiro256PlusPlus,
}

enum Pattern {
    Random(Chance),
    /// `index` counts up to `every` and starts again.
    Nth {
        every: u32,
        packet: u32,
        min_payload: u32,
        dport: Option<u16>,
        sport: Option<u16>,
        index: u32,
    },
    Gilbert {
        p: Chance,
        r: Chance,
        loss_bad: Chance,
        loss_good: Chance,
        bad: bool,
    },
    /// `next` is the first of `packets` that is not below `index`.
    List {
        packets: Vec<u64>,
        index: u64,
        next: usize,
    },
}

impl Loss {
    fn new(config: &LossConfig, random: Xoshiro256PlusPlus) -> Self {
        config.check().unwrap_or_else(|why| panic!("{why}"));
        let pattern = match *config {
            LossConfig::Random { probability_ppb } => Pattern::Random(Chance::ppb(probability_ppb)),
            LossConfig::Nth { every, packet, min_payload, dport, sport } => {
                Pattern::Nth { every, packet, min_payload, dport, sport, index: 0 }
            }
            LossConfig::Gilbert { p_ppb, r_ppb, loss_bad_ppb, loss_good_ppb } => Pattern::Gilbert {
                p: Chance::ppb(p_ppb),
                r: Chance::ppb(r_ppb),
                loss_bad: Chance::ppb(loss_bad_ppb),
                loss_good: Chance::ppb(loss_good_ppb),
                bad: false,
            },
            LossConfig::List { ref packets } => Pattern::List { packets: packets.clone(), index: 0, next: 0 },
        };
        Loss { pattern, random }
    }

    fn hits(&mut self, packet: &impl Packet) -> bool {
        match &mut self.pattern {
            Pattern::Random(chance) => chance.hit(&mut self.random),
            Pattern::Nth { every, packet: which, min_payload, dport, sport, index } => {
                let counts = packet.payload() >= *min_payload
                    && dport.is_none_or(|port| port == packet.ports().1)
                    && sport.is_none_or(|port| port == packet.ports().0);
                if !counts {
                    return false;
                }
                let hit = *index == *which;
                *index = if *index + 1 == *every { 0 } else { *index + 1 };
                hit
            }
            // netem's order: first the transition, then the loss with the probability of the state before it.
            Pattern::Gilbert { p, r, loss_bad, loss_good, bad } => {
                let (leave, loss) = if *bad { (r, loss_bad) } else { (p, loss_good) };
                *bad ^= leave.hit(&mut self.random);
                loss.hit(&mut self.random)
            }
            Pattern::List { packets, index, next } => {
                let hit = packets.get(*next) == Some(index);
                *next += usize::from(hit);
                *index += 1;
                hit
            }
        }
    }
}
