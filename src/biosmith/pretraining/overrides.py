"""Typed changes to frozen dataclasses, and frozen dataclasses back from JSON."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from biosmith.errors import UsageError, shorten

T = TypeVar("T")


def apply_overrides(config: T, assignments: Sequence[str], short: Mapping[str, str] | None = None) -> T:
    """`config` with `key.path=value` assignments applied, all of them at once.

    Values are read as JSON where they look like it, and checked against the field's type; `1e6` and `1_000` are
    integers where an integer is wanted, `none` is None where that is allowed. Members of a tuple of dataclasses are
    reached by `kind` or by place. `kind` of a section that has several (`optimizer.kind=muon`) puts that kind with its
    own defaults in the section's place; the other changes are to those.

    Args:
        config: a frozen dataclass of frozen dataclasses.
        assignments: such as `["steps=10", "optimizer.learning_rate=1e-4"]`.
        short: other names for paths, such as `{"learning_rate": "optimizer.learning_rate"}`.

    Raises:
        UsageError: no "=", an unknown key (the message lists the valid ones), or a value that does not fit.
    """
    short = short or {}
    changes: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise UsageError(f"override {assignment!r} is not of the form key.path=value")
        _put(changes, short.get(key.strip(), key.strip()).split("."), _Text(text.strip(), key.strip()))
    return _changed(config, changes, "", short)


class _Text(str):
    """The text of a value, with the key the user wrote."""

    key: str

    def __new__(cls, text: str, key: str) -> _Text:
        made = super().__new__(cls, text)
        made.key = key
        return made


def _put(tree: dict[str, Any], path: list[str], value: _Text) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise UsageError(f"override {value.key!r} goes below a value that another override sets")
    if isinstance(tree.get(path[-1]), dict):
        raise UsageError(f"override {value.key!r} sets a whole section; set its fields one by one")
    tree[path[-1]] = value


def _changed(
    config: Any, changes: Mapping[str, Any], prefix: str, short: Mapping[str, str], *, has_kinds: bool = False
) -> Any:
    """`config` (a dataclass or a tuple of them) with a tree of changes applied."""
    if isinstance(config, tuple):
        members = list(config)
        names = [getattr(member, "kind", str(place)) for place, member in enumerate(members)]
        for name, change in changes.items():
            place = names.index(name) if name in names else int(name) if name.isdecimal() else len(members)
            if place >= len(members):
                raise _unknown(prefix + name, [prefix + n for n in names])
            members[place] = _change_field(
                members[place], type(members[place]), change, f"{prefix}{name}", short
            )
        return tuple(members)
    hints = get_type_hints(type(config))
    values = {}
    for name, change in changes.items():
        if name not in hints or name == "kind":
            valid = [prefix + n for n in hints if has_kinds or n != "kind"]
            raise _unknown(prefix + name, valid if prefix else [*valid, *short])
        values[name] = _change_field(getattr(config, name), hints[name], change, prefix + name, short)
    return dataclasses.replace(config, **values)


def _change_field(current: Any, hint: Any, change: Any, path: str, short: Mapping[str, str]) -> Any:
    has_parts = dataclasses.is_dataclass(current) or (
        isinstance(current, tuple) and any(dataclasses.is_dataclass(member) for member in current)
    )
    kinds = _kinds(get_args(hint))
    if isinstance(change, dict):
        if not has_parts:
            raise UsageError(f"override {path!r} has no fields of its own; set it as {path}=value")
        if kinds and isinstance(kind := change.get("kind"), str):
            if kind not in kinds:
                raise UsageError(
                    f"override {f'{path}.kind'!r}: {str(kind)!r} is unknown; valid: {', '.join(kinds)}"
                )
            current, change = kinds[kind](), {k: v for k, v in change.items() if k != "kind"}
        return _changed(current, change, f"{path}.", short, has_kinds=bool(kinds))
    if dataclasses.is_dataclass(current):
        valid = [f"{path}.{f.name}" for f in dataclasses.fields(current) if kinds or f.name != "kind"]
        raise UsageError(f"override {path!r} is a section; set one of its fields: {', '.join(valid)}")
    return _convert(hint, _parse(str(change)), f"override {change.key!r}", str(change))


def _kinds(choices: Sequence[Any]) -> dict[str, Any]:
    """The dataclasses among the choices, by their `kind`."""
    hints = [(c, get_type_hints(c)) for c in choices if dataclasses.is_dataclass(c)]
    return {known["kind"].__args__[0]: choice for choice, known in hints if "kind" in known}


def _unknown(key: str, valid: Sequence[str]) -> UsageError:
    return UsageError(f"override {key!r} is unknown; valid: {', '.join(valid)}")


def _parse(text: str) -> Any:
    """JSON where it is, None, an underscored number, a comma list, else the text."""
    if text.lower() in ("none", "null"):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    number = _number(text)
    if number is not None:
        return number
    return [_parse(part.strip()) for part in text.strip("()").split(",")] if "," in text else text


def _number(text: str) -> float | int | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def from_plain(kind: type[T], data: Any, where: str) -> T:
    """A dataclass from plain JSON values (as `artefact.to_plain` makes them).

    Raises:
        UsageError: a field is missing, unknown or of the wrong type; `where` names the source.
    """
    made: T = _convert(kind, data, where, shorten(data))
    return made


def _convert(hint: Any, value: Any, where: str, shown: str) -> Any:
    """`value` as the type `hint`, or `UsageError`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is Literal:
        if value in arguments:
            return value
        raise UsageError(f"{where}: {shown} is not one of {', '.join(map(str, arguments))}")
    if origin in (Union, types.UnionType):
        return _convert_union(arguments, value, where, shown)
    if dataclasses.is_dataclass(hint):
        return _convert_dataclass(hint, value, where, shown)
    if origin is tuple:
        return _convert_tuple(arguments, value, where, shown)
    if origin is not None and issubclass(origin, Mapping):
        if isinstance(value, Mapping):
            return dict(value)
        raise UsageError(f"{where}: {shown} is not an object")
    return _convert_scalar(hint, value, where, shown)


def _convert_scalar(hint: Any, value: Any, where: str, shown: str) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float and is_number:
        return float(value)
    if hint is int and is_number and float(value).is_integer():
        return int(value)
    if hint is str and not isinstance(value, str) and value is not None:
        return shown
    if type(value) is hint or (hint is type(None) and value is None):
        return value
    names = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a text",
        type(None): "none",
    }
    raise UsageError(f"{where}: {shown} is not {names.get(hint, hint)}")


def _convert_tuple(arguments: tuple[Any, ...], value: Any, where: str, shown: str) -> tuple[Any, ...]:
    many = len(arguments) == 2 and arguments[1] is Ellipsis
    members = [value] if many and isinstance(value, str) else value
    if not isinstance(members, list | tuple) or (not many and len(members) != len(arguments)):
        wanted = "a list" if many else f"a list of {len(arguments)} values"
        raise UsageError(f"{where}: {shown} is not {wanted}")
    hints = [arguments[0]] * len(members) if many else arguments
    return tuple(_convert(h, v, where, shorten(v)) for h, v in zip(hints, members, strict=True))


def _convert_union(arguments: tuple[Any, ...], value: Any, where: str, shown: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    choices = [a for a in arguments if a is not type(None)]
    kinds = _kinds(choices)
    if kinds and not isinstance(value, Mapping):
        raise UsageError(f"{where}: {shown} is not an object of one of the kinds {', '.join(kinds)}")
    if isinstance(value, Mapping) and "kind" in value:
        if value["kind"] not in kinds:
            raise UsageError(f"{where}: kind {value['kind']!r} is unknown; valid: {', '.join(kinds)}")
        return _convert(kinds[value["kind"]], value, where, shown)
    errors = []
    for choice in choices:
        try:
            return _convert(choice, value, where, shown)
        except UsageError as error:
            errors.append(error)
    raise errors[-1]


def _convert_dataclass(hint: Any, value: Any, where: str, shown: str) -> Any:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: {shown} is not an object with the fields of {hint.__name__}")
    hints = get_type_hints(hint)
    unknown = [name for name in value if name not in hints]
    if unknown:
        raise UsageError(f"{where}: {hint.__name__} has no field {unknown[0]!r}; valid: {', '.join(hints)}")
    required = dataclasses.MISSING
    for item in dataclasses.fields(hint):
        if item.name not in value and item.default is required and item.default_factory is required:
            raise UsageError(f"{where}: {hint.__name__} lacks the field {item.name!r}")
    return hint(
        **{name: _convert(hints[name], v, f"{where}, {name}", shorten(v)) for name, v in value.items()}
    )
