"""Instances of registered classes come back whole, and none of their code runs on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from enum import EJECT, STRICT, Enum, Flag, auto
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import attrs
import pytest

from snapshots.codec import Codec, dump, load
from snapshots.errors import DecodeError, EncodeError
from tests.unit.snapshots.codec.codec_samples import (
    CODEC,
    Access,
    Amount,
    Bag,
    Bits,
    Blob,
    Colour,
    Frozen,
    Hashed,
    Label,
    Late,
    Level,
    Line,
    Pair,
    Parcel,
    Plain,
    Point,
    Ratio,
    Sealed,
    Settings,
    Slotted,
    Spot,
    Tags,
    same,
)


def back(value: Any, codec: Codec = CODEC) -> Any:
    """Return what a value comes back as, through its bytes."""
    return codec.decode(codec.encode(value))


def problem(plain: object, codec: Codec = CODEC) -> str:
    """Return the reason of the error that decoding a structure raises."""
    with pytest.raises(DecodeError) as caught:
        codec.decode(dump(plain))
    return caught.value.reason


def with_v(value: object, **changes: Any) -> Any:
    """Return the structure of a value with changes to its attributes; `...` drops one."""
    plain = load(CODEC.encode(value))
    plain["v"] = {k: v for k, v in (plain["v"] | changes).items() if v is not ...}
    return plain


# --- Dataclasses and plain classes --------------------------------------------------------------


def test_no_constructor_and_no_post_init_runs() -> None:
    """What a constructor adds is not added twice: an instance is put together from attributes."""
    late = Late(1)
    assert (late.given, late.stamp) == (2, "made")
    found = back(late)
    assert (found.given, found.stamp, found.seen) == (2, "made", [])


def test_a_field_that_was_never_set_stays_unset() -> None:
    """A field without a value has none when it comes back, and one set later has it."""
    late = Late(1)
    assert not hasattr(back(late), "total")
    late.total = 5
    assert back(late).total == 5


def test_attributes_beyond_the_fields_are_kept() -> None:
    """What was put on an instance beside its declared fields is part of it."""
    line = Line("a", 1)
    line.__dict__["$"] = (1,)
    assert same(back(line), line)


def test_a_cached_property_is_left_behind() -> None:
    """What a cached property keeps is counted anew, so it need not be storable."""
    late = Late(1)
    kept = late.dear
    assert back(late).dear is not kept


def test_a_frozen_slotted_dataclass_comes_back_equal() -> None:
    """Fields that cannot be assigned are set all the same."""
    assert back(Sealed(first=[1], second={2})) == Sealed(first=[1], second={2})


def test_names_in_slots_are_mangled_as_python_does() -> None:
    """Private slots are found and set; an empty slot stays empty."""
    found = back(Slotted(1, (2,)))
    assert (found.left, found.shown(), hasattr(found, "right")) == (1, (2,), False)


def test_missing_and_surplus_fields_are_named() -> None:
    """A class that changed since is told from its bytes, by the names that differ."""
    assert "there is no sku;" in problem(with_v(Line("a", 1, 2), sku=...))
    assert "a surplus of 'size'" in problem(with_v(Line("a", 1), size=2))
    reason = problem(with_v(Sealed(first=1), first=..., third=1))
    assert "there is no first and a surplus of 'third'" in reason
    assert "a surplus of 'other'" in problem(with_v(Slotted(1, 2), other=3))


def test_a_field_cannot_be_there_twice() -> None:
    """A declared field among the undeclared attributes, or among the unset ones, is malformed."""
    plain = CODEC.to_plain(Line("a", 1))
    assert "there twice" in problem(plain | {"extra": {"sku": "b"}})
    assert "there twice" in problem(plain | {"unset": ["sku"]})


def test_a_subclass_of_a_registered_class_is_not_registered() -> None:
    """A subclass would come back as its parent, so it needs a registration of its own."""

    class Special(Line):
        pass

    with pytest.raises(EncodeError, match="not registered"):
        CODEC.encode(Special("a", 1))
    codec = CODEC.with_types(Special)
    assert type(back(Special("a", 1), codec)) is Special


def test_attributes_are_read_past_the_hooks_of_a_class() -> None:
    """Neither reading nor setting an attribute calls what a class defines for that."""

    class Guarded:
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(name)

        def __setattr__(self, name: str, value: object) -> None:
            raise AssertionError(name)

        def __new__(cls, *needed: object) -> Self:
            assert needed == ("only here",)
            return object.__new__(cls)

    value = object.__new__(Guarded)
    object.__setattr__(value, "a", 1)
    codec = Codec([Guarded])
    assert object.__getattribute__(back(value, codec), "__dict__") == {"a": 1}


def test_a_property_that_fails_is_refused_by_name() -> None:
    """A field behind a property that raises is named, and its error is the cause."""

    @dataclass
    class Odd:
        price: int = field(init=False)

    def fail(_self: object) -> int:
        message = "no price"
        raise ValueError(message)

    Odd.price = property(fail)  # type: ignore[assignment]  # as classes that compute a field do
    with pytest.raises(EncodeError) as caught:
        Codec([Odd]).to_plain([Odd()])
    assert caught.value.path == "value[0].price"
    assert "reading it raised ValueError" in caught.value.reason
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_attribute_that_has_no_text_for_a_name_is_refused() -> None:
    """Such an attribute can only be there by accident, and would not come back."""
    plain = Plain()
    plain.__dict__[1] = 2  # type: ignore[index]  # exactly that
    with pytest.raises(EncodeError, match="not a text"):
        CODEC.encode(plain)


@pytest.mark.parametrize("value", [Plain(a=(1,), state="x"), Late(3)])
def test_attributes_of_the_whole_value_can_be_left_out(value: object) -> None:
    """What somebody else looks after is left out of the value itself, not of what it holds."""
    value.__dict__.update(state=object())
    with pytest.raises(EncodeError):
        CODEC.encode(value)
    inner = Plain(state=1)
    value.__dict__["inner"] = inner
    data = CODEC.encode(value, omit=("state",))
    found = CODEC.decode(data, omit=("state",))
    assert not hasattr(found, "state")
    assert found.inner == inner


def test_a_declared_field_can_be_left_out_only_by_name() -> None:
    """A field that was left out is missing, unless the reader leaves it out as well."""
    data = CODEC.encode(Line("a", 1), omit={"sku"})
    with pytest.raises(DecodeError, match="there is no sku"):
        CODEC.decode(data)
    found = CODEC.decode(data, omit={"sku"})
    assert (hasattr(found, "sku"), found.price) == (False, 1)


# --- Enums --------------------------------------------------------------------------------------


def test_members_are_stored_by_name() -> None:
    """A member keeps its name when its value changes; a second name is the member it stands for."""
    assert CODEC.to_plain(Colour.CRIMSON)["v"] == "RED"
    assert back([Colour.BLUE, Level.HIGH]) == [Colour.BLUE, Level.HIGH]
    assert CODEC.to_plain(Access.BOTH)["v"] == "BOTH"


def test_combinations_of_flags_are_stored_by_value() -> None:
    """What has no name, such as no flag at all, has a value."""
    value = Access.READ | Access.RUN
    assert CODEC.to_plain(value)["v"] == 5
    for flags in (value, Access(0), Bits.HIGH | Bits.LOW, Bits(8)):
        # Of flags that no member has, older releases of Python make a new object each time.
        assert (type(back(flags)), back(flags)) == (type(flags), flags)


def test_what_is_no_member_is_refused() -> None:
    """A member that is gone, a value where a name belongs, and impossible flags are malformed."""

    class Strict(Flag, boundary=STRICT):
        A = 1

    class Lax(Flag, boundary=EJECT):
        A = 1

    codec = CODEC.with_types(Strict, Lax)
    colour, access, strict = (
        codec.to_plain(member) for member in (Colour.RED, Access.READ, Strict.A)
    )
    assert "has no member 'GREEN'; migrate" in problem(colour | {"v": "GREEN"})
    assert "is not the name of a member" in problem(colour | {"v": 1})
    assert "is not the name of a member" in problem(access | {"v": True})
    assert "no enum can be made of it: ValueError" in problem(strict | {"v": 2}, codec)
    assert "has no flags a value of type int" in problem(access | {"v": -1})
    assert "has no flags a value of type int" in problem(codec.to_plain(Lax.A) | {"v": 2}, codec)
    assert "is registered as an enum" in problem(colour | {"$": "object", "v": {}})


def test_a_member_outside_its_enum_is_refused() -> None:
    """A member that a hook made up, and that no name leads to, could not come back."""

    class Open(Enum):
        A = auto()

        @classmethod
        def _missing_(cls, value: object) -> Open:
            member = object.__new__(cls)
            member._name_, member._value_ = f"X{value}", value
            return member

    with pytest.raises(EncodeError, match="no member of its enum"):
        Codec([Open]).encode(Open(7))


# --- Named tuples, attrs, and what extends built-in types ---------------------------------------


def test_a_named_tuple_keeps_its_class_and_its_attributes() -> None:
    """Items are stored by name; a subclass with room for attributes keeps those too."""
    spot = Spot(1, [2])
    spot.__dict__["note"] = "n"
    assert CODEC.to_plain(Point(1, 2))["v"] == {"x": 1, "y": 2}
    assert same(back(spot), spot)
    assert "there is no y" in problem(with_v(Point(1), y=...))
    assert "its class has no base" in problem(CODEC.to_plain(Point(1)) | {"base": 1})


def test_a_named_tuple_of_another_length_is_refused() -> None:
    """A tuple that was forced into the class has items without a name."""
    with pytest.raises(EncodeError, match="not as many items"):
        CODEC.encode(tuple.__new__(Point, (1, 2, 3)))


def test_an_attrs_class_comes_back_equal() -> None:
    """Private attributes and those that its constructor does not take come back."""
    parcel = Parcel(1, "me")
    parcel.route.append((1,))
    assert back(parcel) == parcel


def test_a_hash_is_counted_anew() -> None:
    """A hash of texts is good in one process only, so the one that attrs keeps is not stored."""
    value = Hashed("a")
    hash(value)
    assert b"null" in CODEC.encode(value)
    found = back(value)
    assert found._attrs_cached_hash is None
    assert {found} == {value}

    @attrs.frozen(cache_hash=True, slots=False)
    class Open:
        key: str

    codec = Codec([Open])
    value = Open("a")
    hash(value)
    assert hash(back(value, codec)) == hash(value)


@pytest.mark.parametrize(
    "value",
    [
        Label("é"),
        Amount(2**70),
        Ratio("nan"),
        Ratio(-0.0),
        Blob(b"a"),
        Bag([Bag([1])]),
        Pair((1, 2)),
        Settings({"a": 1, 2: Settings()}),
        Settings({"$": 1}),
        Tags({"a", 1}),
        Frozen({Frozen()}),
    ],
)
def test_what_extends_a_built_in_type_keeps_its_class(value: Any) -> None:
    """The built-in value inside and the attributes around it both come back."""
    if hasattr(value, "__dict__"):
        value.__dict__["note"] = [value.__class__.__name__]
    assert same(back(value), value)
    assert "its base is" in problem(CODEC.to_plain(value) | {"base": None})


def test_overridden_methods_do_not_change_what_is_stored() -> None:
    """What a subclass says of its contents is not what it holds."""

    class Liar(dict):  # type: ignore[type-arg]  # a plain dict, extended
        def __iter__(self) -> Any:
            return iter(())

        def keys(self) -> Any:
            return ()

        def items(self) -> Any:
            return ()

    value = Liar(a=1)
    assert dict.__getitem__(back(value, Codec([Liar])), "a") == 1


def test_a_dataclass_may_extend_a_built_in_type() -> None:
    """Fields and the built-in value inside come back together."""

    @dataclass
    class Titled(list):  # type: ignore[type-arg]  # a plain list, extended
        title: str = ""

    value = Titled("t")
    value += [1, 2]
    found = back(value, Codec([Titled]))
    assert (list(found), found.title) == ([1, 2], "t")


# --- pydantic and msgspec, where they are installed ----------------------------------------------


def test_a_pydantic_model_comes_back_equal() -> None:
    """Fields, which of them were given, extra fields and private attributes; no validator runs."""
    pydantic = import_module("pydantic")
    calls = []

    class Inner(pydantic.BaseModel):
        n: int = 1

    class Order(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow", validate_assignment=True)
        price: float
        tags: tuple[str, ...] = ()
        inner: Inner = Inner()
        _note: tuple[str, ...] = pydantic.PrivateAttr(default=())

        @pydantic.field_validator("price")
        @classmethod
        def seen(cls, value: float) -> float:
            calls.append(value)
            return value

    order = Order(price=1.5, inner=Inner(n=2), more=({"a": 1},))
    order._note = ("changed",)
    codec = Codec([Order, Inner])
    assert calls == [1.5]
    found = back(order, codec)
    assert calls == [1.5]
    assert found == order
    assert (found._note, found.more, found.tags) == (("changed",), ({"a": 1},), ())
    assert found.model_fields_set == order.model_fields_set == {"price", "inner", "more"}
    assert found.inner.model_fields_set == {"n"}
    assert (order._note, order.more) == (("changed",), ({"a": 1},))
    assert found.model_dump(exclude_unset=True) == order.model_dump(exclude_unset=True)
    assert found.model_copy(update={"price": 2.0}).price == 2.0


def test_a_partial_pydantic_model_comes_back_partial() -> None:
    """A model made without validation may lack fields; a blob may not lack more."""
    pydantic = import_module("pydantic")

    class Order(pydantic.BaseModel):
        price: float
        size: int

    codec = Codec([Order])
    order = Order.model_construct(price=1.0)
    found = back(order, codec)
    assert found == order
    assert not hasattr(found, "size")
    plain = codec.to_plain(Order(price=1.0, size=2))
    assert "does not say which fields were given" in problem(without(plain, "set"), codec)
    assert "there is no size" in problem(plain | {"v": {"price": 1.0}}, codec)


def without(plain: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a structure without one of its keys."""
    return {name: part for name, part in plain.items() if name != key}


@pytest.mark.parametrize("name", ["SecretStr", "SecretBytes"])
def test_pydantics_secrets_are_refused(name: str) -> None:
    """A secret is found inside a model, by its path; its class cannot be registered."""
    pydantic = import_module("pydantic")
    secret = getattr(pydantic, name)

    class Login(pydantic.BaseModel):
        password: Any

    codec = Codec([Login])
    with pytest.raises(EncodeError, match="a secret is never stored") as caught:
        codec.encode({"login": Login(password=secret(b"a" if name == "SecretBytes" else "a"))})
    assert caught.value.path == "value.login.password"
    with pytest.raises(TypeError, match="a secret is never stored"):
        Codec([secret])


def test_a_pydantic_dataclass_is_a_dataclass() -> None:
    """What pydantic makes of a dataclass comes back like any other."""
    checked = import_module("pydantic.dataclasses").dataclass

    class Part:
        n: int

    Part.__annotations__["n"] = int
    part = checked(Part)
    codec = Codec([part])
    assert back(part(n="3"), codec) == part(n=3)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_msgspec_struct_comes_back_equal(*, frozen: bool) -> None:
    """A struct has the fields that were saved, whatever its hook does when it is made."""
    msgspec = import_module("msgspec")

    def grow(self: Any) -> None:
        msgspec.structs.force_setattr(self, "total", self.total + 1)

    order_type = msgspec.defstruct(
        "Order",
        [("total", int), ("tags", tuple, ())],
        namespace={"__post_init__": grow},
        frozen=frozen,
        kw_only=True,
        rename="camel",
    )
    codec = Codec([order_type])
    order = order_type(total=1, tags=(1,))
    assert order.total == 2
    assert same_struct(back(order, codec), order)
    plain = codec.to_plain(order)
    assert "there is no tags" in problem(plain | {"v": {"total": 1}}, codec)


def same_struct(one: Any, other: Any) -> bool:
    """Whether two structs are of one class and hold the same."""
    return type(one) is type(other) and all(
        same(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__
    )


def test_a_msgspec_struct_with_a_dict_keeps_its_attributes() -> None:
    """What was put on a struct beside its fields is part of it."""
    msgspec = import_module("msgspec")
    order_type = msgspec.defstruct("Order", [("total", int)], dict=True)
    order = order_type(1)
    order.note = ("n",)
    assert back(order, Codec([order_type])).note == ("n",)


SCRIPT = """
from dataclasses import dataclass
from pathlib import Path
from snapshots import Codec

@dataclass
class Order:
    amount: int

codec = Codec([Order])
stored = Path(__file__).with_name("order.json")
if __name__ == "__main__":
    if stored.exists():
        assert codec.decode(stored.read_bytes()) == Order(7), codec.decode(stored.read_bytes())
    stored.write_bytes(codec.encode(Order(12)))
"""


def test_a_script_and_who_imports_it_read_what_the_other_wrote(tmp_path: Path) -> None:
    """Run as a file, run as a module, or imported: a class has one name."""
    script = tmp_path / "shop.py"
    script.write_text(SCRIPT)
    stored = tmp_path / "order.json"
    path = os.pathsep.join((str(tmp_path), *sys.path))
    reads = "import shop; assert shop.codec.decode(shop.stored.read_bytes()) == shop.Order(12)"
    writes = "import shop; shop.stored.write_bytes(shop.codec.encode(shop.Order(7)))"
    for run in (("shop.py",), ("-c", reads), ("-c", writes), ("-m", "shop"), ("-c", reads)):
        ended = subprocess.run(
            (sys.executable, *run),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
    assert b"shop:Order" in stored.read_bytes()
