"""Each record goes to exactly one replica in every epoch, also where counts do not divide."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataio

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 17


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """17 classes of one picture each: a label names its record."""
    root = tmp_path_factory.mktemp("records")
    random = np.random.default_rng(0)
    for number in range(RECORDS):
        path = root / f"class{number:02}" / "picture.jpg"
        path.parent.mkdir()
        Image.fromarray(random.integers(0, 255, (24, 32, 3), np.uint8)).save(path)
    return root


def start(mode: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).with_name("replica_worker.py")), mode, str(folder)]
    settings = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen(
        command, env=os.environ | settings | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        said, complaints = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, complaints[-3000:]
    result: dict[str, Any] = json.loads(said.splitlines()[-1])
    return result


@pytest.mark.parametrize("num_shards", [1, 2, 3, 5])
@pytest.mark.parametrize("cache", ["none", "memory"])
def test_shards_are_a_partition_in_every_epoch(folder: Path, num_shards: int, cache: str) -> None:
    data = dataio.open(folder)
    recipe = dataio.Recipe(image_size=8, batch_size=4, drop_remainder=False)
    parts = [
        dataio.build(
            data,
            recipe,
            dataio.Plan(cache=cache),
            split=next(iter(data.splits)),
            num_shards=num_shards,
            shard_index=index,
        )
        for index in range(num_shards)
    ]
    orders = []
    for _ in range(2):
        seen = [[int(label) for _, labels in part for label in labels] for part in parts]
        assert Counter(label for part in seen for label in part) == Counter(range(RECORDS))
        assert max(map(len, seen)) - min(map(len, seen)) <= 1
        orders.append(seen)
    assert orders[0] != orders[1]


def test_two_replicas_of_one_process_share_the_records(folder: Path) -> None:
    result = finish(start("mirrored", folder))
    for epoch in result["epochs"]:
        assert Counter(epoch) == Counter(range(RECORDS))
    assert result["epochs"][0] != result["epochs"][1]


def test_two_worker_processes_share_the_records(folder: Path) -> None:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    cluster = {"worker": [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]}
    for one in sockets:
        one.close()
    processes = [
        start("workers", folder, TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}))
        for index in range(2)
    ]
    results = [finish(process) for process in processes]
    assert sorted(result["worker"] for result in results) == [0, 1]
    for first, second in zip(results[0]["epochs"], results[1]["epochs"], strict=True):
        assert Counter(first + second) == Counter(range(RECORDS))
        assert not set(first) & set(second)
        assert sorted([len(first), len(second)]) == [8, 9]
