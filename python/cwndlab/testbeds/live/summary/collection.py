"""Writes what was seen of a live run: tables, captures, and the reports of tools."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cwndlab.testbeds.base import RunWriter
from cwndlab.testbeds.live.observation import samples
from cwndlab.testbeds.live.summary import summary
from cwndlab.testbeds.live.summary.summary import Observed
from cwndlab.testbeds.live.traffic import tools


def write(
    writer: RunWriter,
    run_id: int,
    observed: Observed,
    rows: tuple[pa.Table, pa.Table],
    answers: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write everything that the experiment asked for; `rows` are the senders' and the receivers'."""
    scenario = observed.scenario
    wanted = scenario["live"]["loggers"]
    if scenario["record"]["tcp"]["kind"] != "off" and "tcp_info" in wanted:
        headers = {flow["name"]: summary.headers(scenario, flow) for flow in scenario["flows"]}
        for table, batches in samples.split(*rows, headers).items():
            for batch in batches:
                writer.rows(table, batch)
    _write_path(writer, run_id, observed)
    writer.rows("samples", summary.sample_rows(observed, run_id))
    if "iperf3" in wanted:
        _attach_reports(writer, answers)


def until(rows: pa.Table, end_ns: int) -> pa.Table:
    """Rows before the end of the run."""
    return rows.filter(pc.field("t_ns") < end_ns) if rows.num_rows else rows


def _attach_reports(writer: RunWriter, answers: Mapping[str, Mapping[str, Any]]) -> None:
    reports = [
        report
        for answer in answers.values()
        for report in answer["reports"]
        if report["tool"] in tools.SUFFIX
    ]
    for report in sorted(reports, key=lambda report: (report["flow"], report["role"])):
        suffix = tools.SUFFIX[report["tool"]]
        name = f"{report['flow']}-{report['tool']}-{report['role']}.{suffix}"
        writer.attach(name, report["text"].encode())


def _write_path(writer: RunWriter, run_id: int, observed: Observed) -> None:
    """Write the path's tables, with the events that TCP_INFO tells of among the path's own."""
    scenario = observed.scenario
    wanted = scenario["record"]["queue"]["kind"] != "off" and "queue" in scenario["live"]["loggers"]
    events = [summary.event_rows(observed, run_id)]
    for table, batch in observed.carried.batches:
        rows = until(pa.Table.from_batches([batch]), scenario["duration_ns"])
        if table == "events":
            events += rows.to_batches()
        elif wanted:
            for part in rows.to_batches():
                writer.rows(table, part)
    merged = pa.concat_tables([_plain(pa.Table.from_batches([batch])) for batch in events])
    for batch in merged.sort_by([("t_ns", "ascending")]).combine_chunks().to_batches():
        writer.rows("events", batch)
    for name, data in observed.carried.attachments.items():
        writer.attach(name, data)
    for point, file in observed.carried.captures.items():
        with file.open("rb") as pcap:
            while data := pcap.read(1 << 20):
                writer.capture(point, data)


def _plain(rows: pa.Table) -> pa.Table:
    """Rows with names as text, which sort and join as they are."""
    columns = {
        name: rows[name].cast(pa.utf8()) if pa.types.is_dictionary(rows[name].type) else rows[name]
        for name in rows.column_names
    }
    return pa.table(columns)
