"""A loop over receives that runs in Java."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def receive_loop(jpype: Any, jms: Any, consumer: Any, milliseconds: int) -> Callable[[int], Sequence[Any]]:
    """Returns a function that receives a number of messages at most, until none comes in a time.

    For one message, a call from Python costs as much as the receive itself.
    The function raises what the client library throws. Then nobody gets the messages received before.

    Args:
        milliseconds: until each message has to come.
    """
    lang, util = jpype.JPackage("java").lang, jpype.JPackage("java").util
    handles, kind = lang.invoke.MethodHandles, lang.invoke.MethodType.methodType
    taken = kind(jms.Message.class_, lang.Long.TYPE)
    receive = handles.publicLookup().findVirtual(jms.MessageConsumer.class_, "receive", taken)
    time = jpype.JArray(lang.Object)([lang.Long(milliseconds)])
    receive = handles.insertArguments(receive.bindTo(consumer), 0, time)
    supplier = lang.invoke.MethodHandleProxies.asInterfaceInstance(
        util.function.Supplier.class_, receive.asType(kind(lang.Object.class_))
    )
    has_come = util.function.Predicate.isEqual(None).negate()
    to_list = util.stream.Collectors.toList()

    def run(most: int) -> Sequence[Any]:
        try:
            return list(
                util.stream.Stream.generate(supplier).limit(most).takeWhile(has_come).collect(to_list)
            )
        except lang.reflect.UndeclaredThrowableException as error:  # around a JMSException
            raise error.getCause() from None

    return run
