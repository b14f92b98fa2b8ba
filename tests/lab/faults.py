"""What befalls the brokers of the lab."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deploy.demo.broker import Broker
from deploy.demo.gateway import Gateway


@dataclass(frozen=True)
class World:
    """A broker, and the gateway that its clients reach it by."""

    broker: Broker
    gateway: Gateway


@dataclass(frozen=True)
class Fault:
    """How it begins and how it ends."""

    begin: Callable[[World], None]
    end: Callable[[World], None]


def _open(world: World) -> None:
    world.gateway.open()


def _down(end: Callable[[Broker], None]) -> Callable[[World], None]:
    """Nobody listens at the address any more."""

    def begin(world: World) -> None:
        end(world.broker)
        world.gateway.shut()

    return begin


def _up(world: World) -> None:
    world.gateway.open()
    world.broker.restart()


FAULTS: Mapping[str, Fault] = {
    "nothing": Fault(lambda world: None, lambda world: None),
    "kill": Fault(_down(Broker.kill), _up),
    "stop": Fault(_down(Broker.stop), _up),
    "freeze": Fault(lambda world: world.broker.pause(), lambda world: world.broker.resume()),
    "cut": Fault(lambda world: world.gateway.shut(), _open),
    "swallow": Fault(lambda world: world.gateway.swallow(), _open),
}
