//! Packets on their way to the far end of a link, in order of their arrival there.

use path::Nanos;

use super::pool::{PacketPool, PacketRef};
use crate::packet::Packet;

/// The packets under way to the far end of one link.
///
/// A packet that has only crossed plain links (fused, without impairments) was never in the pool: it lies here whole. All
/// others lie in the pool. Every packet of a link is of one of the two kinds, as all of them come the same way.
pub(crate) struct Delivery {
    whole: Line<Packet>,
    pooled: Line<PacketRef>,
}

impl Delivery {
    pub(crate) fn new() -> Delivery {
        Delivery { whole: Line::new(), pooled: Line::new() }
    }

    /// The packet that arrives next, with what has happened to it on the way.
    #[inline(always)]
    pub(crate) fn front<'a>(&'a self, pool: &'a mut PacketPool) -> Option<&'a Packet> {
        match self.whole.front() {
            Some((_, packet)) => Some(packet),
            None => Some(pool.unpack(&self.pooled.front()?.1)),
        }
    }

    /// Drops the packet that arrives next. Returns when the one behind it arrives.
    #[inline(always)]
    pub(crate) fn pop_front(&mut self, pool: &mut PacketPool) -> Option<Nanos> {
        if !self.whole.is_empty() {
            self.whole.pop_front();
            return self.whole.next();
        }
        if let Some((_, reference)) = self.pooled.front() {
            pool.free(reference);
            self.pooled.pop_front();
        }
        self.pooled.next()
    }

    /// The packet that arrives next over a link whose packets lie here whole, and when.
    #[inline(always)]
    pub(crate) fn front_whole(&self) -> Option<(Nanos, &Packet)> {
        self.whole.front().map(|(at, packet)| (*at, packet))
    }

    /// Takes out the packet that arrives next over a link whose packets are in the pool, and when it does. It stays in the
    /// pool.
    #[inline(always)]
    pub(crate) fn take_pooled(&mut self) -> Option<(Nanos, PacketRef)> {
        let front = *self.pooled.front()?;
        self.pooled.pop_front();
        Some(front)
    }

    /// Time when the next packet of the pool arrives.
    #[inline(always)]
    pub(crate) fn next_pooled(&self) -> Option<Nanos> {
        self.pooled.next()
    }

    /// Place where the next whole packet is to be written, with its time of arrival; see [`Delivery::push_draft`].
    #[inline(always)]
    pub(crate) fn draft(&mut self) -> &mut (Nanos, Packet) {
        self.whole.draft()
    }

    /// Returns what [`Delivery::draft`] did.
    #[inline(always)]
    pub(crate) fn drafted(&mut self) -> &mut (Nanos, Packet) {
        self.whole.drafted()
    }

    /// Lets what was written into [`Delivery::draft`] arrive after all others. True if it is the only one.
    #[inline(always)]
    pub(crate) fn push_draft(&mut self) -> bool {
        let first = self.whole.is_empty();
        self.whole.push_draft();
        first
    }

    /// A whole packet that arrives after all others. True if it is the only one.
    #[inline(always)]
    pub(crate) fn push_whole(&mut self, at: Nanos, packet: Packet) -> bool {
        *self.whole.draft() = (at, packet);
        self.push_draft()
    }

    /// A packet of the pool that has waited `waited` in the last queues. `reorders`: it may arrive before others. True if
    /// it arrives before all others.
    #[inline(always)]
    pub(crate) fn push_pooled(
        &mut self,
        at: Nanos,
        mut reference: PacketRef,
        waited: Nanos,
        reorders: bool,
    ) -> bool {
        let first = self.pooled.next();
        if reorders {
            reference.add_queue_delay(waited);
            self.pooled.insert(at, reference);
        } else {
            debug_assert!(self.pooled.last() <= at, "links without reordering keep the order");
            let draft = self.pooled.draft();
            *draft = (at, reference);
            draft.1.add_queue_delay(waited);
            self.pooled.push_draft();
        }
        first.is_none_or(|first| at < first)
    }

    /// The whole packet `behind` the next, and when it arrives.
    #[inline(always)]
    pub(crate) fn whole_behind(&self, behind: usize) -> Option<&(Nanos, Packet)> {
        self.whole.behind(behind)
    }

    /// The packet of the pool `behind` the next, and when it arrives.
    #[inline(always)]
    pub(crate) fn pooled_behind(&self, behind: usize) -> Option<&(Nanos, PacketRef)> {
        self.pooled.behind(behind)
    }
}

/// Slots of a line at first.
const FIRST_SLOTS: usize = 4;

/// [`Line::front`] of a line without packets: behind all slots, so that one comparison tells both that and the bounds.
const NO_SLOT: usize = usize::MAX;

/// A ring of packets, each with the time of its arrival.
struct Line<T> {
    /// A power of two of them.
    slots: Box<[(Nanos, T)]>,
    /// Slot of the packet that arrives next.
    front: usize,
    /// Slot in which the next packet is to be written.
    back: usize,
    count: usize,
}

impl<T: Copy + Default> Line<T> {
    fn new() -> Line<T> {
        Line { slots: vec![Default::default(); FIRST_SLOTS].into(), front: NO_SLOT, back: 0, count: 0 }
    }

    #[inline(always)]
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Time when the next packet arrives.
    #[inline(always)]
    fn next(&self) -> Option<Nanos> {
        self.front().map(|&(at, _)| at)
    }

    #[inline(always)]
    fn front(&self) -> Option<&(Nanos, T)> {
        self.slots.get(self.front)
    }

    /// Returns the packet `behind` the next.
    #[inline(always)]
    fn behind(&self, behind: usize) -> Option<&(Nanos, T)> {
        (behind < self.count).then(|| &self.slots[(self.front + behind) & self.mask()])
    }

    #[inline(always)]
    fn pop_front(&mut self) {
        debug_assert!(!self.is_empty());
        self.count -= 1;
        self.front = if self.count == 0 { NO_SLOT } else { (self.front + 1) & self.mask() };
    }

    /// Place where the next packet is to be written.
    #[inline(always)]
    fn draft(&mut self) -> &mut (Nanos, T) {
        if self.count == self.slots.len() {
            self.grow();
        }
        self.drafted()
    }

    /// Returns what [`Line::draft`] did.
    #[inline(always)]
    fn drafted(&mut self) -> &mut (Nanos, T) {
        &mut self.slots[self.back]
    }

    /// Lets what was written into [`Line::draft`] arrive after all others.
    #[inline(always)]
    fn push_draft(&mut self) {
        if self.count == 0 {
            self.front = self.back;
        }
        self.count += 1;
        self.back = (self.back + 1) & self.mask();
    }

    /// Time when the last packet arrives.
    fn last(&self) -> Nanos {
        self.count.checked_sub(1).and_then(|last| self.behind(last)).map_or(0, |&(at, _)| at)
    }

    /// A packet that may arrive before others; it does after those of the same time.
    fn insert(&mut self, at: Nanos, packet: T) {
        *self.draft() = (at, packet);
        self.push_draft();
        let mut place = self.count - 1;
        while place > 0 && self.behind(place - 1).is_some_and(|&(before, _)| before > at) {
            let [here, before] = [place, place - 1].map(|place| (self.front + place) & self.mask());
            self.slots.swap(here, before);
            place -= 1;
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let count = self.slots.len();
        let mut slots = std::mem::take(&mut self.slots).into_vec();
        slots.rotate_left(self.front);
        slots.resize(2 * count, Default::default());
        *self = Line { slots: slots.into(), front: 0, back: count, count };
    }
}
