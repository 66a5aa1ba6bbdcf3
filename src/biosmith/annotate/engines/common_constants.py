"""Large constants that two OpenVINO networks have in common: the file of the first alone holds them. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import opset13

from biosmith.errors import BadInput

LEAST = 2**20  # bytes of a constant that is worth it: an embedding is, a bias is not


def leave_to(first: Any, second: Any) -> None:
    """Turn the second model's constants that the first has, too, under the same name and bit for bit, into parameters."""
    there = _constants(first)
    for name, constant in _constants(second).items():
        if name in there and constant.data.nbytes >= LEAST and _are_equal(constant, there[name]):
            shape = list(constant.get_output_shape(0))
            parameter = opset13.parameter(shape, constant.get_element_type(), name=name)
            _connect(constant, parameter)
            second.add_parameters([parameter])
    second.validate_nodes_and_infer_types()


def read_with(first: Path, second: Path) -> Any:
    """The model in the file `second`, with the constants that `leave_to` left to that in `first`.

    Raises:
        BadInput: the first has no such constant.
        RuntimeError: OpenVINO cannot read a file.
    """
    core = openvino.Core()
    model = core.read_model(second)
    left = [p for p in model.get_parameters() if p.get_friendly_name() not in ("input_ids", "attention_mask")]
    there = _constants(core.read_model(first)) if left else {}
    for parameter in left:
        name = parameter.get_friendly_name()
        if name not in there or there[name].get_output_shape(0) != parameter.get_output_shape(0):
            raise BadInput(
                second, f"belongs to another {first.name}, which has no constant {name} of its shape"
            )
        _connect(parameter, there[name])
        model.remove_parameter(parameter)
    model.validate_nodes_and_infer_types()
    return model


def _constants(model: Any) -> dict[str, Any]:
    return {op.get_friendly_name(): op for op in model.get_ops() if op.get_type_name() == "Constant"}


def _are_equal(one: Any, other: Any) -> bool:
    return one.get_element_type() == other.get_element_type() and np.array_equal(one.data, other.data)


def _connect(old: Any, new: Any) -> None:
    """Let what reads one node read another."""
    for place in old.output(0).get_target_inputs():
        place.replace_source_output(new.output(0))
