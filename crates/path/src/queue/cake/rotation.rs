//! The rotation of CAKE's bulk flows: whose turn it is, and what each flow may still send.

use std::array;
use std::ops::Range;

use super::Hosts;
use super::credits::{Credit, Credits, GROUP, highest, highest_except};

/// The rotation of bulk flows, a ring: the flow at `head` is next, the one before it last. A flow that leaves makes a hole.
///
/// What is searched at every turn lies together, in lists of its own beside the flows.
#[derive(Default)]
pub(super) struct Rotation {
    /// Indices of the flows; [`NONE`] in holes.
    flows: Vec<u32>,
    holes: usize,
    /// Credit that each flow may still send, without what `same_hosts` adds; [`Credit::MIN`] in holes.
    deficits: Credits,
    /// The highest deficit of each group of `deficits`. Only kept while `same_hosts` is set.
    group_max: Credits,
    /// Set as long as all flows go between the same hosts, so that all get the same share.
    same_hosts: Option<SameHosts>,
    /// Credit that each flow gets when its turn comes and it may not send; 0 in holes. Only kept while `same_hosts`
    /// is not set.
    shares: Vec<Credit>,
    head: usize,
    /// A host's number of bulk flows has changed, and the shares have not been computed again yet.
    pub(super) stale: bool,
}

/// Credit that flows between the same hosts get. It is not added to each one's deficit: a flow at or behind `head`
/// has `granted` more than its deficit says, and a flow before `head` has `granted` and one share more.
struct SameHosts {
    hosts: Hosts,
    share: Credit,
    granted: Credit,
}

const NONE: u32 = u32::MAX;

/// Above this, `granted` is added to the deficits: beside it and the debt of a packet of 64 KiB, a deficit still fits.
const MAX_GRANTED: Credit = 1 << 29;

/// Number of places before `head` that are searched for a hole.
const HOLE_SEARCH: usize = 32;

impl Rotation {
    /// Number of flows.
    pub(super) fn len(&self) -> usize {
        self.flows.len() - self.holes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.flows.iter().copied().filter(|&flow| flow != NONE)
    }

    /// Adds a flow that is last in the rotation.
    pub(super) fn push(&mut self, flow: u32, hosts: Hosts, deficit: Credit, share: Credit) {
        if self.len() == 0 {
            *self = Rotation { same_hosts: Some(SameHosts { hosts, share, granted: 0 }), ..self.cleared() };
        } else if self.same_hosts.as_ref().is_some_and(|same| same.hosts != hosts) {
            self.use_own_shares();
        }
        let place = self.make_room();
        self.flows[place] = flow;
        if let Some(same) = &self.same_hosts {
            let passed = if place < self.head { same.share } else { 0 };
            self.set_deficit(place, deficit - same.granted - passed);
        } else {
            self.deficits.values[place] = deficit;
            self.shares[place] = share;
        }
        if self.head == self.flows.len() {
            self.wrap();
        }
    }

    /// A place that is last in the rotation, for a new flow: a hole nearby if there is one.
    fn make_room(&mut self) -> usize {
        if self.flows[self.head..].first() == Some(&NONE) {
            self.holes -= 1;
            self.head += 1;
            return self.head - 1;
        }
        let from = self.head.saturating_sub(HOLE_SEARCH);
        if let Some(hole) = self.flows[from..self.head].iter().rposition(|&flow| flow == NONE) {
            let hole = from + hole;
            let passed = hole + 1..self.head;
            self.flows.copy_within(passed.clone(), hole);
            self.deficits.values.copy_within(passed.clone(), hole);
            if self.same_hosts.is_some() {
                self.update_group_max(hole / GROUP..self.head.div_ceil(GROUP));
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
        if self.same_hosts.is_some() {
            self.update_all_group_max();
        } else {
            self.shares.insert(place, 0);
        }
        if self.head > 0 {
            self.head += 1;
        }
        place
    }

    /// Removes the next flow and leaves a hole.
    pub(super) fn remove_next(&mut self) {
        self.flows[self.head] = NONE;
        self.holes += 1;
        if self.same_hosts.is_none() {
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
                if self.same_hosts.is_none() {
                    self.shares[kept] = self.shares[place];
                }
                kept += 1;
            }
        }
        self.holes = 0;
        self.flows.truncate(kept);
        self.deficits.truncate(kept);
        if self.same_hosts.is_none() {
            self.shares.truncate(kept);
        }
        self.head = head;
        if head == kept {
            self.wrap();
        }
    }

    /// Takes the memory for a new rotation, without flows.
    fn cleared(&mut self) -> Rotation {
        let mut rotation = std::mem::take(self);
        rotation.flows.clear();
        rotation.deficits.truncate(0);
        rotation.group_max.truncate(0);
        rotation.shares.clear();
        Rotation { holes: 0, head: 0, ..rotation }
    }

    /// Starts the next round, at the first place.
    fn wrap(&mut self) {
        self.head = 0;
        if let Some(same) = &mut self.same_hosts {
            same.granted += same.share;
            if same.granted > MAX_GRANTED {
                let granted = std::mem::take(&mut same.granted);
                self.add_to_first(self.flows.len(), granted);
            }
        }
    }

    /// Subtracts what the next flow has sent.
    pub(super) fn charge(&mut self, cost: Credit) {
        self.set_deficit(self.head, self.deficits.values[self.head] - cost);
    }

    fn set_deficit(&mut self, place: usize, deficit: Credit) {
        if self.same_hosts.is_some() {
            // The group is read before it is written: a read of what was just written would wait for the write.
            let group = &self.deficits.groups()[place / GROUP];
            self.group_max.values[place / GROUP] = highest_except(group, place % GROUP).max(deficit);
        }
        self.deficits.values[place] = deficit;
    }

    /// Computes the shares again, by `share_of` a flow.
    pub(super) fn update_shares(&mut self, share_of: impl Fn(u32) -> Credit) {
        if let Some(same) = &mut self.same_hosts {
            let Some(&flow) = self.flows.iter().find(|&&flow| flow != NONE) else { return };
            let before = std::mem::replace(&mut same.share, share_of(flow));
            // What flows before `head` got in this round stays as it was.
            let change = before - same.share;
            self.add_to_first(self.head, change);
            return;
        }
        for (&flow, share) in self.flows.iter().zip(&mut self.shares) {
            *share = if flow == NONE { 0 } else { share_of(flow) };
        }
    }

    /// Adds to the deficits of the flows in the first `places`.
    fn add_to_first(&mut self, places: usize, credit: Credit) {
        let (groups, _) = self.deficits.values.as_chunks_mut::<GROUP>();
        let groups = groups[..places.div_ceil(GROUP)].iter_mut().zip(&mut self.group_max.values);
        for (first, (group, max)) in (0..).step_by(GROUP).zip(groups) {
            let before = *group;
            *group = array::from_fn(|place| {
                let added = if first + place < places { credit } else { 0 };
                if before[place] == Credit::MIN { Credit::MIN } else { before[place] + added }
            });
            *max = highest(group);
        }
    }

    /// Lets each flow have a share of its own.
    pub(super) fn use_own_shares(&mut self) {
        if let Some(SameHosts { share, granted, .. }) = self.same_hosts {
            self.add_to_first(self.flows.len(), granted);
            self.add_to_first(self.head, share);
            self.same_hosts = None;
            self.shares.clear();
            self.shares.extend(self.flows.iter().map(|&flow| if flow == NONE { 0 } else { share }));
        }
    }

    fn update_all_group_max(&mut self) {
        let groups = self.deficits.groups().len();
        self.group_max.resize(groups);
        self.update_group_max(0..groups);
    }

    /// Updates the largest credits of groups: call it when deficits in these groups have changed.
    fn update_group_max(&mut self, groups: Range<usize>) {
        let maxima = &mut self.group_max.values[groups.clone()];
        for (group, max) in self.deficits.groups()[groups].iter().zip(maxima) {
            *max = highest(group);
        }
    }

    /// The flow that may send now. Those before it in the rotation get their share and wait for the next round. With many flows of
    /// one host that takes a whole round for every packet.
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.len() == 0 {
            return None;
        }
        loop {
            let found = match &self.same_hosts {
                Some(same) => self.first_above(-same.granted),
                None => self.grant_own_shares(),
            };
            if let Some(place) = found {
                self.head = place;
                return Some(self.flows[place]);
            }
            self.wrap();
        }
    }

    /// The first place from `head` on whose deficit is above `threshold`.
    #[inline]
    fn first_above(&self, threshold: Credit) -> Option<usize> {
        let found = self.deficits.find_in_group(self.head, threshold);
        found.or_else(|| {
            let group = self.group_max.find(self.head / GROUP + 1, threshold)?;
            self.deficits.find_in_group(group * GROUP, threshold)
        })
    }

    /// Gives flows from `head` on their own shares, up to the first that may send.
    fn grant_own_shares(&mut self) -> Option<usize> {
        let found = self.deficits.find(self.head, 0);
        let passed = self.head..found.unwrap_or(self.flows.len());
        for (deficit, share) in self.deficits.values[passed.clone()].iter_mut().zip(&self.shares[passed]) {
            *deficit += share;
        }
        found
    }
}
