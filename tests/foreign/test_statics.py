"""Statics are each host's of each run, or refused by name: one job and two give the same bytes."""

import shutil
import subprocess

import pytest

import cwndlab as api
from cwndlab.errors import InputError
from cwndlab.foreign import sources
from cwndlab.foreign.compilation import HERE
from experiments import dumbbell

EXPERIMENT = dumbbell(
    "own",
    duration="1s",
    a="stack: linux-6.18, cc: new",
    b="stack: linux-6.18",
    bottleneck="rate: 20mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}",
    flow="name: f, from: a, to: b",
    more="sweep: [{network.dumbbell.bottleneck.queue.limit: [20p, 30p, 40p, 50p]}]",
)

C = """\
#include <linux/module.h>
#include <net/tcp.h>
%s
static void counting_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	%s++;
	tcp_snd_cwnd_set(tcp_sk(sk), 4 + %s / 100);
}
static struct tcp_congestion_ops counting = {
	.ssthresh = tcp_reno_ssthresh, .cong_avoid = counting_cong_avoid, .undo_cwnd = tcp_reno_undo_cwnd,
	.name = "counting",
};
static int __init counting_register(void) { return tcp_register_congestion_control(&counting); }
module_init(counting_register);
"""

LIBRARY = """\
#include <stdlib.h>
#include "cwndlab_cc.h"
%s
static void on_ack(void *, struct cwndlab_flow *flow) { %s; flow->cwnd = (4 + seen / 100) * flow->mss; }
static void on_loss(void *, struct cwndlab_flow *) {}
extern "C" const struct cwndlab_cc_ops *cwndlab_cc(void)
{
	static const struct cwndlab_cc_ops ops = { CWNDLAB_CC_VERSION, sizeof(ops), 0, 0, on_ack, on_loss, 0, 0 };
	return &ops;
}
"""

IN_C = {
    "static": ("static unsigned count;", "count"),
    "static in a header": ('#include "count.h"', "count"),
    "static in a function of a header": ('#include "count.h"', "(*counter())"),
    "global": ("unsigned count;", "count"),
}

IN_A_LIBRARY = {
    "static": "static long seen;",
    "static in a function": "static long &of() { static long seen; return seen; }\n#define seen of()",
    "inline, not unique": "inline long seen;",
    "thread_local": "static thread_local long seen;",
}


def runs_are_alike(tmp_path, option):
    """Whether each run is as if it were alone, with one job and with two: the queue limits none of them."""
    runs = []
    for jobs in (1, 2):
        results = api.load(EXPERIMENT, cc=[option]).run(out=tmp_path / f"out-{jobs}", jobs=jobs)
        assert results.complete
        runs += [results.rows(run).drop_columns(["run_id"]).to_pylist() for run in range(4)]
    return all(run == runs[0] for run in runs)


def module(tmp_path, declaration, variable):
    (tmp_path / "count.h").write_text(
        "static unsigned count;\n"
        "static inline unsigned *counter(void) { static unsigned own; return &own; }\n"
    )
    (tmp_path / "tcp_counting.c").write_text(C % (declaration, variable, variable))
    return f"new={tmp_path}/tcp_counting.c,abi=linux-6.12"


def library(tmp_path, declaration, step="seen++", *flags):
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    (tmp_path / "new.cpp").write_text(LIBRARY % (declaration, step))
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{HERE / 'plain'}", tmp_path / "new.cpp"]
    subprocess.run([*command, *flags, "-o", tmp_path / "libnew.so"], check=True)
    return f"new={tmp_path}/libnew.so"


@pytest.mark.parametrize("way", IN_C)
@pytest.mark.slow
def test_statics_of_a_module_are_each_hosts(tmp_path, way):
    assert runs_are_alike(tmp_path, module(tmp_path, *IN_C[way]))


@pytest.mark.parametrize("way", IN_A_LIBRARY)
@pytest.mark.slow
def test_statics_of_a_library_are_each_hosts(tmp_path, way):
    assert runs_are_alike(tmp_path, library(tmp_path, IN_A_LIBRARY[way], "seen++", "-fno-gnu-unique"))


@pytest.mark.parametrize("storage", ["static __thread", "_Thread_local", "static _Thread_local"])
@pytest.mark.slow
def test_a_thread_of_a_modules_own_is_refused(tmp_path, storage):
    with pytest.raises(InputError, match=r"--cc new: count is each thread's \(__thread\), not each host's"):
        sources.build(module(tmp_path, f"{storage} unsigned count;", "count"))


@pytest.mark.parametrize(
    ("header", "start", "said"),
    [
        ("pthread.h", "pthread_create(&thread, NULL, counts, NULL)", r"pthread_create\(\) starts a thread"),
        ("unistd.h", "vfork()", r"vfork\(\) starts a process"),
    ],
)
@pytest.mark.slow
def test_what_goes_on_after_a_hook_is_refused(tmp_path, header, start, said):
    declaration = f"#include <pthread.h>\n#include <{header}>\nstatic unsigned count;\n"
    declaration += "pthread_t thread;\nvoid *counts(void *unused) { count++; return unused; }"
    with pytest.raises(InputError, match=f"{said}, which would go on in other runs"):
        sources.build(module(tmp_path, declaration, f"(*({start}, &count))"))


@pytest.mark.parametrize(
    ("declaration", "step", "name"),
    [
        ("inline long seen;", "seen++", "seen is one for the whole process"),
        (
            "template <class T> long of;\n#define seen of<int>",
            "seen++",
            "of<int> is one for the whole process",
        ),
        (
            "struct S { static inline long at; };\n#define seen S::at",
            "seen++",
            "S::at is one for the whole process",
        ),
        ("static long seen;", "seen += rand() % 3", "rand\\(\\) has a state of the whole process"),
        (
            "static long seen;",
            'seen = getenv("seen") ? 2 : 1; setenv("seen", "x", 1)',
            "setenv\\(\\) has a state of the whole process",
        ),
        ("#include <unistd.h>\n#define seen optind", "seen++", "optind has a state of the whole process"),
    ],
)
@pytest.mark.slow
def test_what_a_process_shares_is_refused_by_name(tmp_path, declaration, step, name):
    with pytest.raises(InputError, match=name):
        sources.build(library(tmp_path, declaration, step))


@pytest.mark.slow
def test_a_library_of_a_library_is_refused(tmp_path):
    (tmp_path / "half.c").write_text("long seen;\n")
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "half.c", "-o", tmp_path / "libhalf.so"], check=True)
    option = library(
        tmp_path, "extern long seen;", "seen++", f"-L{tmp_path}", "-lhalf", f"-Wl,-rpath,{tmp_path}"
    )
    with pytest.raises(InputError, match=r"needs .*/libhalf\.so, whose statics all hosts would share"):
        sources.build(option)
