//! The rotation of CAKE's bulk flows: whose turn it is, and what each flow may still send.

use std::array;
use std::ops::Range;

use super::Hosts;
use super::credits::{Credit, Credits, GROUP, most, most_but};

/// The rotation of bulk flows: the first from `head` on is next, the last before it last. What is looked at often and of many
/// flows lies together.
#[derive(Default)]
pub(super) struct Round {
    /// [`NONE`] where a flow has left a hole.
    pub(super) flows: Vec<u32>,
    pub(super) holes: usize,
    /// What each may still send, but for what `alike` adds; [`Credit::MIN`] in holes.
    deficits: Credits,
    /// The most that any of a group of `deficits` has, unless flows have `shares`.
    tops: Credits,
    /// Set as long as all go between the same hosts.
    alike: Option<Alike>,
    /// What each gets at its turn when it has nothing left to send, unless that is alike; nothing in holes.
    shares: Vec<Credit>,
    head: usize,
    /// A host's number of bulk flows has changed, and the shares have not.
    pub(super) stale: bool,
}

/// What flows between the same hosts get. It is not written to each: flows that the round has still to pass have `got` on top
/// of their deficits, and those that it has passed one share more.
struct Alike {
    hosts: Hosts,
    share: Credit,
    got: Credit,
}

const NONE: u32 = u32::MAX;

/// As much may be unwritten: with it and the debt of a packet of 64 KiB, a deficit still fits.
const UNWRITTEN: Credit = 1 << 29;

/// A hole is looked for so far before `head`.
const NEAR: usize = 32;

impl Round {
    pub(super) fn active(&self) -> impl Iterator<Item = u32> {
        self.flows.iter().copied().filter(|&flow| flow != NONE)
    }

    pub(super) fn push(&mut self, flow: u32, hosts: Hosts, deficit: Credit, share: Credit) {
        if self.flows.len() == self.holes {
            *self = Round { alike: Some(Alike { hosts, share, got: 0 }), ..self.emptied() };
        } else if self.alike.as_ref().is_some_and(|alike| alike.hosts != hosts) {
            self.take_apart();
        }
        let place = self.make_room();
        self.flows[place] = flow;
        if let Some(alike) = &self.alike {
            let passed = if place < self.head { alike.share } else { 0 };
            self.set_deficit(place, deficit - alike.got - passed);
        } else {
            self.deficits.values[place] = deficit;
            self.shares[place] = share;
        }
        if self.head == self.flows.len() {
            self.wrap();
        }
    }

    /// A hole that is last in the rotation.
    fn make_room(&mut self) -> usize {
        if self.flows[self.head..].first() == Some(&NONE) {
            self.holes -= 1;
            self.head += 1;
            return self.head - 1;
        }
        let from = self.head.saturating_sub(NEAR);
        if let Some(hole) = self.flows[from..self.head].iter().rposition(|&flow| flow == NONE) {
            let hole = from + hole;
            let passed = hole + 1..self.head;
            self.flows.copy_within(passed.clone(), hole);
            self.deficits.values.copy_within(passed.clone(), hole);
            if self.alike.is_some() {
                self.see_tops(hole / GROUP..self.head.div_ceil(GROUP));
            } else {
                self.shares.copy_within(passed, hole);
            }
            self.holes -= 1;
            return self.head - 1;
        }
        self.close_holes();
        let place = if self.head == 0 { self.flows.len() } else { self.head };
        self.flows.insert(place, NONE);
        self.deficits.insert(place, Credit::MIN);
        if self.alike.is_some() {
            self.see_all_tops();
        } else {
            self.shares.insert(place, 0);
        }
        if self.head > 0 {
            self.head += 1;
        }
        place
    }

    /// Leaves a hole.
    pub(super) fn remove_head(&mut self) {
        self.flows[self.head] = NONE;
        self.holes += 1;
        if self.alike.is_none() {
            self.shares[self.head] = 0;
        }
        self.set_deficit(self.head, Credit::MIN);
    }

    fn close_holes(&mut self) {
        if self.holes == 0 {
            return;
        }
        let mut kept = 0;
        let mut head = 0;
        for place in 0..self.flows.len() {
            if place == self.head {
                head = kept;
            }
            if self.flows[place] != NONE {
                self.flows[kept] = self.flows[place];
                self.deficits.values[kept] = self.deficits.values[place];
                if self.alike.is_none() {
                    self.shares[kept] = self.shares[place];
                }
                kept += 1;
            }
        }
        self.holes = 0;
        self.flows.truncate(kept);
        self.deficits.truncate(kept);
        if self.alike.is_none() {
            self.shares.truncate(kept);
        }
        self.head = head;
        if head == kept {
            self.wrap();
        }
    }

    /// Its memory, without flows.
    fn emptied(&mut self) -> Round {
        let mut round = std::mem::take(self);
        round.flows.clear();
        round.deficits.truncate(0);
        round.tops.truncate(0);
        round.shares.clear();
        Round { holes: 0, head: 0, ..round }
    }

    /// Goes on with the first flow.
    fn wrap(&mut self) {
        self.head = 0;
        if let Some(alike) = &mut self.alike {
            alike.got += alike.share;
            if alike.got > UNWRITTEN {
                let got = std::mem::take(&mut alike.got);
                self.add(self.flows.len(), got);
            }
        }
    }

    /// The next flow has sent something.
    pub(super) fn charge(&mut self, cost: Credit) {
        self.set_deficit(self.head, self.deficits.values[self.head] - cost);
    }

    fn set_deficit(&mut self, place: usize, deficit: Credit) {
        if self.alike.is_some() {
            // Read before it is written: both at once would have to wait for the writing.
            let group = &self.deficits.groups()[place / GROUP];
            self.tops.values[place / GROUP] = most_but(group, place % GROUP).max(deficit);
        }
        self.deficits.values[place] = deficit;
    }

    /// Gives all flows the share that they have now.
    pub(super) fn share_out(&mut self, share_of: impl Fn(u32) -> Credit) {
        if let Some(alike) = &mut self.alike {
            let Some(&flow) = self.flows.iter().find(|&&flow| flow != NONE) else { return };
            let before = std::mem::replace(&mut alike.share, share_of(flow));
            let change = before - alike.share;
            self.add(self.head, change);
            return;
        }
        for (&flow, share) in self.flows.iter().zip(&mut self.shares) {
            *share = if flow == NONE { 0 } else { share_of(flow) };
        }
    }

    /// Adds to the first flows' deficits.
    fn add(&mut self, flows: usize, credit: Credit) {
        let (groups, _) = self.deficits.values.as_chunks_mut::<GROUP>();
        let groups = groups[..flows.div_ceil(GROUP)].iter_mut().zip(&mut self.tops.values);
        for (first, (group, top)) in (0..).step_by(GROUP).zip(groups) {
            let before = *group;
            *group = array::from_fn(|place| {
                let to_all = if first + place < flows { credit } else { 0 };
                if before[place] == Credit::MIN { Credit::MIN } else { before[place] + to_all }
            });
            *top = most(group);
        }
    }

    /// Lets each flow have a share of its own.
    pub(super) fn take_apart(&mut self) {
        if let Some(Alike { share, got, .. }) = self.alike {
            self.add(self.flows.len(), got);
            self.add(self.head, share);
            self.alike = None;
            self.shares.clear();
            self.shares.extend(self.flows.iter().map(|&flow| if flow == NONE { 0 } else { share }));
        }
    }

    fn see_all_tops(&mut self) {
        let groups = self.deficits.groups().len();
        self.tops.resize(groups);
        self.see_tops(0..groups);
    }

    /// Deficits of these groups have changed.
    fn see_tops(&mut self, groups: Range<usize>) {
        for (group, top) in self.deficits.groups()[groups.clone()].iter().zip(&mut self.tops.values[groups]) {
            *top = most(group);
        }
    }

    /// Gives flows their share, one after the other, until one may send. With many flows of one host that takes a whole
    /// round for every packet.
    pub(super) fn turn(&mut self) -> Option<u32> {
        if self.flows.len() == self.holes {
            return None;
        }
        loop {
            let found = match &self.alike {
                Some(alike) => self.first_above(-alike.got),
                None => self.pass(),
            };
            if let Some(place) = found {
                self.head = place;
                return Some(self.flows[place]);
            }
            self.wrap();
        }
    }

    /// The first flow from the next on that has more than `least`.
    #[inline]
    fn first_above(&self, least: Credit) -> Option<usize> {
        let near = self.deficits.find_in_group(self.head, least);
        near.or_else(|| {
            let group = self.tops.find(self.head / GROUP + 1, least)?;
            self.deficits.find_in_group(group * GROUP, least)
        })
    }

    /// Gives the next flows their own shares, up to the first that may send.
    fn pass(&mut self) -> Option<usize> {
        let found = self.deficits.find(self.head, 0);
        let passed = self.head..found.unwrap_or(self.flows.len());
        for (deficit, share) in self.deficits.values[passed.clone()].iter_mut().zip(&self.shares[passed]) {
            *deficit += share;
        }
        found
    }
}
