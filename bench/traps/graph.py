"""Any tf.data pipeline as a chain of operators, read from the graph that TensorFlow serialises it to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dataio.errors import StepError

if TYPE_CHECKING:
    import tensorflow as tf

#: Height and width assumed for a decoded picture whose shape the graph does not tell.
#: Source: the usual size of ImageNet's photographs, 500x375.
_PICTURE = (375, 500)

#: Elements above which a constant's values are not looked at.
_LARGE_CONSTANT = 1_000_000


@dataclass(frozen=True)
class Operator:
    """One dataset operator of a pipeline."""

    kind: str
    """TensorFlow's name without "Dataset" and version: Map, ParallelMap, Batch, Prefetch, Shuffle …"""
    position: int
    """Place in the pipeline, from 0 at the source; operators inside functions share that of the one they are in."""
    inputs: tuple[Operator, ...]
    """Operators whose elements it takes."""
    arguments: tuple[npt.NDArray[Any] | None, ...]
    """Values of its tensor arguments after the inputs, None where the graph does not hold them."""
    attributes: Mapping[str, Any]
    """TensorFlow's attributes of the operator."""
    calls: frozenset[str]
    """Names of all TensorFlow operations in its function, and in functions that this calls; empty without one."""
    element_bytes: int | None
    """Bytes of an element that it gives; None where shape or type do not tell (strings)."""
    nested: bool
    """Whether it is inside another operator's function (interleave, flat_map)."""

    def __str__(self) -> str:
        return f"{_python_name(self.kind)} (operator {self.position + 1})"

    def number(self, place: int) -> int | None:
        """Argument `place` as a number, None where unknown."""
        value = self.arguments[place] if place < len(self.arguments) else None
        if value is None:
            return None
        return int(value) if value.ndim == 0 and value.dtype.kind in "iub" else None


@dataclass(frozen=True)
class Pipeline:
    """All operators of a pipeline."""

    operators: tuple[Operator, ...]
    """From the sources to the last one; those inside functions come before the operator that calls them."""
    options: Mapping[str, Any]
    """Options in force, by dotted name; only those that were set."""

    @property
    def last(self) -> Operator:
        """The operator that gives the pipeline's elements."""
        return self.operators[-1]

    def of(self, *kinds: str) -> Iterator[Operator]:
        """Operators of these kinds, in order."""
        return (operator for operator in self.operators if operator.kind in kinds)

    def below(self, operator: Operator) -> Iterator[Operator]:
        """Operators whose elements reach `operator`, itself and those inside functions left out, nearest first."""
        for source in operator.inputs:
            yield source
            yield from self.below(source)

    def above(self, operator: Operator) -> list[Operator]:
        """Operators that `operator`'s elements reach, nearest first."""
        return [other for other in self.operators if any(one is operator for one in self.below(other))]


def read_pipeline(dataset: tf.data.Dataset) -> Pipeline:
    """The operators of `dataset` as it was written, before TensorFlow's own rewrites.

    Raises:
        StepError: TensorFlow cannot write any part of it as a graph.
    """
    outer: list[str] = []
    current, problem = dataset, ""
    while True:
        try:
            graph = _serialise(current)
            break
        except _serialisation_errors() as error:
            problem = str(error).splitlines()[0]
        # What cannot be serialised (copies to a device) is known by its class; what is below it is read as a graph.
        below = current._inputs()
        if len(below) != 1:
            raise StepError(f"this dataset cannot be read as a graph: {problem}")
        outer.append(type(current).__name__)
        current = below[0]
    reader = _Reader(graph)
    operators = reader.operators()
    for name in reversed(outer):
        kind = name.strip("_").removesuffix("Dataset")
        last = operators[-1]
        operators.append(
            Operator(kind, last.position + 1, (last,), (), {}, frozenset(), last.element_bytes, nested=False)
        )
    return Pipeline(tuple(operators), _options(dataset))


def _serialise(dataset: tf.data.Dataset) -> Any:
    import tensorflow as tf

    serialised = tf.raw_ops.DatasetToGraphV2(
        input_dataset=tf.data.experimental.to_variant(dataset),
        external_state_policy=1,  # ignore state such as variables: the graph is read, never run
        strip_device_assignment=False,
    )
    graph = tf.compat.v1.GraphDef()
    graph.ParseFromString(serialised.numpy())
    return graph


def _serialisation_errors() -> tuple[type[Exception], ...]:
    import tensorflow as tf

    return (tf.errors.FailedPreconditionError, tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)


def _options(dataset: tf.data.Dataset) -> dict[str, Any]:
    """The options of a dataset that were set, by dotted name."""
    found: dict[str, Any] = {}

    def collect(options: Any, prefix: str) -> None:
        for name, value in options._options.items():
            if hasattr(value, "_options"):
                collect(value, f"{prefix}{name}.")
            elif value is not None:
                found[prefix + name] = value

    collect(dataset.options(), "")
    return found


class _Reader:
    """Turns a graph into operators."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._functions = {one.signature.name: one for one in graph.library.function}

    def operators(self) -> list[Operator]:
        nodes = {node.name: node for node in self._graph.node}
        found: list[Operator] = []
        by_name: dict[str, Operator] = {}
        for node in self._graph.node:
            if node.op.endswith("Dataset") or re.search(r"DatasetV\d+$", node.op):
                position = len({one.position for one in found})
                operator = self._operator(node, nodes, by_name, position, nested=False)
                for function in _function_names(node):
                    found.extend(self._inside(function, position))
                if operator.kind != "Options":
                    found.append(operator)
                by_name[node.name] = operator if operator.kind != "Options" else operator.inputs[0]
        return found

    def _inside(self, function: str, position: int) -> list[Operator]:
        """Dataset operators in a function's body, at `position`."""
        found: list[Operator] = []
        body = self._functions.get(function)
        if body is None:
            return found
        nodes = {node.name: node for node in body.node_def}
        by_name: dict[str, Operator] = {}
        for node in body.node_def:
            if node.op.endswith("Dataset") or re.search(r"DatasetV\d+$", node.op):
                for inner in _function_names(node):
                    found.extend(self._inside(inner, position))
                by_name[node.name] = self._operator(node, nodes, by_name, position, nested=True)
                found.append(by_name[node.name])
        return found

    def _operator(
        self, node: Any, nodes: Mapping[str, Any], by_name: Mapping[str, Operator], position: int, *, nested: bool
    ) -> Operator:
        names = [name.split(":")[0] for name in node.input if not name.startswith("^")]
        inputs = tuple(by_name[name] for name in names if name in by_name)
        arguments = tuple(_constant(nodes.get(name)) for name in names if name not in by_name)
        calls = frozenset().union(*(self._calls(name, set()) for name in _function_names(node)))
        kind = re.sub(r"Dataset(V\d+)?$", "", node.op).removeprefix("Legacy")
        attributes = {name: _attribute(value) for name, value in node.attr.items()}
        return Operator(kind, position, inputs, arguments, attributes, calls, _element_bytes(node), nested)

    def _calls(self, function: str, seen: set[str]) -> frozenset[str]:
        """Operations of a function and of those that it calls."""
        if function in seen or function not in self._functions:
            return frozenset()
        seen.add(function)
        found: set[str] = set()
        for node in self._functions[function].node_def:
            found.add(node.op)
            for name in _function_names(node):
                found |= self._calls(name, seen)
        return frozenset(found)


def _function_names(node: Any) -> list[str]:
    names = []
    for value in node.attr.values():
        if value.WhichOneof("value") == "func":
            names.append(value.func.name)
        elif value.WhichOneof("value") == "list":
            names.extend(function.name for function in value.list.func)
    return [name for name in names if name]


def _constant(node: Any) -> npt.NDArray[Any] | None:
    """The value of a constant as an array; None where it is none. Of a large one only shape and type are right."""
    import tensorflow as tf

    if node is None or node.op != "Const":
        return None
    tensor = node.attr["value"].tensor
    dtype, shape = tf.as_dtype(tensor.dtype), tf.TensorShape(tensor.tensor_shape)
    if dtype in {tf.resource, tf.variant}:
        return None
    if shape.num_elements() > _LARGE_CONSTANT:
        return np.broadcast_to(np.zeros((), dtype.as_numpy_dtype), shape.as_list())
    return np.asarray(tf.io.parse_tensor(tensor.SerializeToString(), dtype).numpy())


def _attribute(value: Any) -> Any:
    which = value.WhichOneof("value")
    found = getattr(value, which) if which else None
    return found.decode(errors="replace") if isinstance(found, bytes) else found


def _element_bytes(node: Any) -> int | None:
    """Bytes of an element by the operator's output types and shapes."""
    import tensorflow as tf

    types = node.attr["output_types"].list.type or node.attr["Toutput_types"].list.type
    shapes = node.attr["output_shapes"].list.shape
    if not types or len(shapes) != len(types):
        return None
    total = 0
    for kind, proto in zip(types, shapes, strict=True):
        dtype, shape = tf.as_dtype(kind), tf.TensorShape(proto)
        if dtype == tf.string or dtype.size is None or dtype == tf.variant or shape.rank is None:
            return None
        sides = list(shape.as_list())
        if sides[-1:] and sides[-1] in {1, 3} and len(sides) >= 3:
            sides[-3] = sides[-3] or _PICTURE[0]
            sides[-2] = sides[-2] or _PICTURE[1]
        if None in sides:
            return None
        total += math.prod(sides) * dtype.size
    return total


def _python_name(kind: str) -> str:
    """How users write an operator: ParallelMap and Map are both `map`."""
    named = {
        "ParallelMap": "map",
        "ParallelInterleave": "interleave",
        "ParallelBatch": "batch",
        "FiniteTake": "take",
        "TensorSlice": "from_tensor_slices",
        "Tensor": "from_tensors",
        "Generator": "from_generator",
        "TFRecord": "TFRecordDataset",
        "CopyToDevice": "copy_to_device",
    }
    return named.get(kind) or re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
