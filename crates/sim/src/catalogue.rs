//! Catalogue of what the engine knows, as JSON: the one place from which Python takes every name.

use std::collections::BTreeMap;

use contract::catalogue::{Catalogue, Stack, Sysctl};
use contract::scenario::{App, Ecn};
use guest::GuestStack;
use params::cc::CcParams;
use tcp::event::EventKind;
use tcp::profile;
use tcp::stack::{EcnMode, Profile};

/// Stacks with their congestion controls and sysctls, queue kinds with their parameters, losses and applications.
pub fn catalogue() -> String {
    let stacks = profile::all();
    contract::to_json(&Catalogue {
        stacks: stacks
            .iter()
            .map(|profile| stack(&**profile))
            .chain(guest::STACKS.iter().map(of_guest))
            .collect(),
        newest: stacks
            .iter()
            .map(|profile| (profile.spec().family.as_str(), profile.spec().name))
            .chain(guest::STACKS.iter().map(|stack| (stack.family, stack.name)))
            .collect(),
        queues: path::catalogue(),
        losses: vec!["random", "nth", "gilbert", "list"],
        apps: App::KINDS.to_vec(),
        cc_params: CcParams::KINDS.to_vec(),
        load_scenarios: measure::SCENARIOS.map(|mix| [mix.uploads, mix.downloads]).to_vec(),
        events: EventKind::ALL.iter().map(|kind| kind.as_str()).collect(),
    })
}

/// A guest: no model of something, so that nothing about it is inferred.
fn of_guest(stack: &GuestStack) -> Stack {
    Stack {
        name: stack.name,
        family: stack.family,
        inferred: false,
        guest: true,
        packets: stack.kind == guest::Kind::Packets,
        default_cc: stack.cc[0],
        cc: stack.cc,
        cc_alias: BTreeMap::new(),
        hz: 1000,
        ecn: if stack.ecn { Ecn::On } else { Ecn::Off },
        accurate_ecn: false,
        sysctls: Vec::new(),
    }
}

fn stack(profile: &dyn Profile) -> Stack {
    let spec = profile.spec();
    let sysctl = |sysctl: &tcp::stack::Sysctl| Sysctl {
        name: sysctl.name,
        default: sysctl.default,
        min: sysctl.min,
        max: sysctl.max,
        about: sysctl.about,
    };
    Stack {
        name: spec.name,
        family: spec.family.as_str(),
        inferred: spec.inferred,
        guest: false,
        packets: false,
        default_cc: spec.cc[0],
        cc: spec.cc,
        cc_alias: spec.cc_alias.iter().copied().collect(),
        hz: spec.hz,
        ecn: match spec.ecn {
            EcnMode::Off => Ecn::Off,
            EcnMode::Accept => Ecn::Accept,
            EcnMode::On => Ecn::On,
            EcnMode::Accurate => Ecn::Accurate,
            EcnMode::OnAcceptAccurate => Ecn::OnAcceptAccurate,
            EcnMode::AcceptAccurate => Ecn::AcceptAccurate,
        },
        accurate_ecn: spec.accecn.known,
        sysctls: profile.sysctls().iter().map(sysctl).collect(),
    }
}
