"""Terms as an ONNX graph, for servers of models.

Every input is a tensor of shape [rows] under the name of its column: numbers and truth values are doubles, or floats
where that is asked for, categories are texts, those of whole numbers too. A missing number or truth value is NaN, a
missing category the empty text, which stands for nothing else. A term that is used several times is one node. All is
computed in float64.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from calcli import expressions as terms
from calcli.batch import FloatArray
from calcli.errors import UsageError
from calcli.export.subexpressions import bottom_up, inputs, numbers_of, tested_values

OPSET = 17

TEXTS = ("category", "whole")
"""The roles of columns that are texts."""

_OPERATORS = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div"}
_OPERATORS |= {"<": "Less", "<=": "LessOrEqual", ">": "Greater", ">=": "GreaterOrEqual"}
_FUNCTIONS = {"exp": "Exp", "ln": "Log", "abs": "Abs", "least": "Min", "greatest": "Max"}

Columns: TypeAlias = Mapping[str, Any]


def model(outputs: Mapping[str, terms.Term], about: str, *, float32: bool = False) -> Any:
    from onnx import TensorProto, checker, helper

    for name, values in tested_values(outputs.values()).items():
        if "" in values:
            raise UsageError(f"{name!r} has an empty text as a level, which stands for a missing value in ONNX")
    number = TensorProto.FLOAT if float32 else TensorProto.DOUBLE
    read = sorted(inputs(outputs.values()))
    kinds = {name: TensorProto.STRING if role in TEXTS else number for name, role in read}
    writer = _Writer([name for name, role in read if float32 and role not in TEXTS])
    for term in bottom_up(outputs.values()):  # each after its parts: no recursion however deep the formula
        if not isinstance(term, terms.Number):  # many stand in tables alone
            writer.of(term)
    for name, term in outputs.items():
        writer.nodes.append(helper.make_node("Cast", [writer.of(term)], [name], to=number))
    given = [helper.make_tensor_value_info(name, kind, ["rows"]) for name, kind in kinds.items()]
    made = [helper.make_tensor_value_info(name, number, ["rows"]) for name in outputs]
    graph = helper.make_graph(writer.nodes, "calibrator", given, made, writer.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", 3)]
    whole = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="calcli", doc_string=about)
    checker.check_model(whole)
    return whole


def with_rows(whole: Any, given: Columns, expected: Mapping[str, Sequence[float | None]], count: int) -> bytes:
    """The graph, serialised, with some rows and what it gives for them as JSON in its metadata; null is NaN."""
    from onnx import helper

    def plain(values: FloatArray) -> list[float | str | None]:
        return [None if value != value else value for value in values[:count].tolist()]  # noqa: PLR0124 NaN

    rows = {name: plain(values) for name, values in given.items()}
    outputs = {name: list(values[:count]) for name, values in expected.items()}
    helper.set_model_props(whole, {"calcli.rows": json.dumps({"inputs": rows, "outputs": outputs})})
    return bytes(whole.SerializeToString())


def columns(rows: pl.DataFrame, outputs: Mapping[str, terms.Term], *, float32: bool = False) -> Columns:
    """The columns of a table as inputs of the graph, by name: a file keeps them in this order."""
    given: dict[str, Any] = {}
    for name, role in sorted(inputs(outputs.values())):
        if role in TEXTS:
            given[name] = np.array(rows[name].cast(pl.String).fill_null("").to_list(), dtype=object)
        else:
            number = pl.Float32 if float32 else pl.Float64
            given[name] = rows[name].cast(number).fill_null(float("nan")).to_numpy()
    return given


def run(content: bytes, columns: Columns) -> list[FloatArray]:
    """The outputs for columns of numbers or texts."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(columns)))


class _Writer:
    """The nodes and constants so far, and the name of the node that each term and condition has become."""

    def __init__(self, float32: Sequence[str]) -> None:
        """The columns `float32` are read as float64."""
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names: dict[int, str] = {}
        self._scalars: dict[tuple[type, float], str] = {}
        self._bits: dict[tuple[str, int], str] = {}
        self._wide = {name: self._node("Cast", name, to=11) for name in float32}

    def of(self, node: terms.Term | terms.Condition) -> str:
        if isinstance(node, terms.Input):
            return self._wide.get(node.name, node.name)
        if id(node) not in self._names:
            self._names[id(node)] = self._condition(node) if isinstance(node, terms.Condition) else self._term(node)
        return self._names[id(node)]

    def _term(self, node: terms.Term) -> str:
        name: str
        match node:
            case terms.Number(value):
                name = self._number(value)
            case terms.Arithmetic(operator, left, right):
                name = self._node(_OPERATORS[operator], self.of(left), self.of(right))
            case terms.Function(function, arguments):
                name = self._node(_FUNCTIONS[function], *map(self.of, arguments))
            case terms.Choice(cases, otherwise):
                name = self._number(float("nan")) if otherwise is None else self.of(otherwise)
                for condition, then in reversed(cases):
                    name = self._node("Where", self.of(condition), self.of(then), name)
            case terms.Steps(x, cuts, values, side):
                name = self._chosen(self._below(self.of(x), cuts, side), values)
            case terms.Switch(x, keys, values, otherwise):
                name = self._chosen(self._place(x, keys), (*values, otherwise))
            case terms.Lookup(conditions, values):
                name = self._node("Gather", self._constant(values), self._index(conditions))
            case terms.Trees(_, _, _, values):
                found = self._node("Gather", self._constant(values), self._leaves(node))
                name = self._node("ReduceSum", found, self._constant(np.array([1], dtype=np.int64)), keepdims=0)
            case _:
                raise TypeError(f"no term: {node!r}")
        return name

    def _leaves(self, trees: terms.Trees) -> str:
        """The number of each row's leaf in each tree: an ensemble whose trees each have an output of their own.

        It computes in float32, in which such numbers are exact; their values are added up in float64.
        """
        if id(trees.nodes) in self._names:
            return self._names[id(trees.nodes)]
        column = self._constant(np.array([-1, 1], dtype=np.int64))
        codes = [self._node("Reshape", self._node("Cast", self.of(one), to=1), column) for one in trees.codes]
        feature, cut, first = trees.nodes.T.astype(np.int64)
        number = np.arange(len(feature))
        tree = np.repeat(np.arange(len(trees.roots)), np.diff(np.append(trees.roots, len(feature))))
        within, child = number - trees.roots[tree], first - trees.roots[tree]
        leaf = first == number
        found = self._node(
            "TreeEnsembleRegressor",
            self._node("Concat", *codes, axis=1),
            domain="ai.onnx.ml",
            n_targets=len(trees.roots),
            nodes_treeids=tree.tolist(),
            nodes_nodeids=within.tolist(),
            nodes_featureids=feature.tolist(),
            nodes_modes=np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
            nodes_values=np.where(leaf, 0.0, cut).tolist(),
            nodes_truenodeids=np.where(leaf, 0, child).tolist(),
            nodes_falsenodeids=np.where(leaf, 0, child + 1).tolist(),
            target_treeids=tree[leaf].tolist(),
            target_nodeids=within[leaf].tolist(),
            target_ids=tree[leaf].tolist(),
            target_weights=number[leaf].astype(np.float64).tolist(),
        )
        self._names[id(trees.nodes)] = self._node("Cast", found, to=7)
        return self._names[id(trees.nodes)]

    def _condition(self, node: terms.Condition) -> str:
        name: str
        match node:
            case terms.Compared(relation, left, right):  # with NaN none holds
                name = self._node(_OPERATORS[relation], self.of(left), self.of(right))
            case terms.Missing(terms.Input(_, "category") as column):
                name = self._node("Equal", self._place(column, ("",)), self._integer(0))
            case terms.Missing(column):
                name = self._node("IsNaN", self.of(column))
            case terms.Among(column, levels):
                found = [self._node("Equal", self._place(column, levels), self._integer(len(levels)))]
                name = self._node("Not", *found)
            case terms.Every(conditions) | terms.Some(conditions):
                name, *others = map(self.of, conditions)
                for other in others:
                    name = self._node("And" if isinstance(node, terms.Every) else "Or", name, other)
            case _:
                raise TypeError(f"no condition: {node!r}")
        return name

    def _below(self, x: str, cuts: FloatArray, side: str) -> str:
        """The number of cuts below x, by halving: a look-up in a table for each half."""
        relation = "Greater" if side == "left" else "GreaterOrEqual"
        size = 1 << len(cuts).bit_length()
        table = self._constant(np.append(cuts, np.full(size - len(cuts), np.inf)))
        place = self._node("Cast", self._node("Less", x, x), to=7)  # zeros, as many as rows
        while size > 1:
            size //= 2
            ahead = self._node("Add", place, self._integer(size - 1))
            above = self._node(relation, x, self._node("Gather", table, ahead))
            place = self._node("Where", above, self._node("Add", place, self._integer(size)), place)
        return place

    def _place(self, x: terms.Term, keys: Sequence[str] | Sequence[int]) -> str:
        """The place of x among the keys; the number of keys where x is none of them."""
        if keys and isinstance(keys[0], str):
            places = list(range(len(keys)))
            return self._node(
                "LabelEncoder",
                self.of(x),
                domain="ai.onnx.ml",
                keys_strings=[str(key).encode() for key in keys],
                values_int64s=places,
                default_int64=len(keys),
            )
        table = np.full(int(max(map(int, keys), default=-1)) + 2, len(keys), dtype=np.int64)
        table[[int(key) for key in keys]] = np.arange(len(keys))
        held = self._node("Min", self._node("Cast", self.of(x), to=7), self._integer(len(table) - 1))
        return self._node("Gather", self._constant(table), held)

    def _index(self, conditions: Sequence[terms.Condition]) -> str:
        """The sum of 2^place over the conditions that hold."""
        bits = []
        for place, condition in enumerate(conditions):
            answer = self.of(condition)
            if (answer, place) not in self._bits:
                self._bits[answer, place] = self._node("Where", answer, self._integer(1 << place), self._integer(0))
            bits.append(self._bits[answer, place])
        return reduce(lambda left, right: self._node("Add", left, right), bits)

    def _chosen(self, place: str, values: Sequence[terms.Term]) -> str:
        """The value at each place: numbers from a table, other terms one after the other."""
        if (numbers := numbers_of(values)) is not None:
            return self._node("Gather", self._constant(np.array(numbers)), place)
        name = self.of(values[-1])
        for at, value in enumerate(values[:-1]):
            name = self._node("Where", self._node("Equal", place, self._integer(at)), self.of(value), name)
        return name

    def _node(self, kind: str, *given: str, domain: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = f"calcli_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(given), [name], domain=domain, **attributes))
        return name

    def _constant(self, values: np.ndarray[Any, Any]) -> str:
        from onnx import numpy_helper

        name = f"calcli_constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def _number(self, value: float, kind: type = np.float64) -> str:
        if (kind, value) not in self._scalars:
            self._scalars[kind, value] = self._constant(np.array(value, dtype=kind))
        return self._scalars[kind, value]

    def _integer(self, value: int) -> str:
        return self._number(value, np.int64)
