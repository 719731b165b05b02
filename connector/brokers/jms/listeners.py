"""Listeners in Java whose calls never enter Python.

A thread of Java that enters Python while Python ends would abort the process.
"""

from __future__ import annotations

from typing import Any


def queue_listener(jpype: Any, interface: Any, queue: Any, tag: int | None = None) -> Any:
    """Returns an object of Java that puts the arguments of each of its calls into a queue.

    Args:
        tag: None = the queue gets the arguments. Else the queue gets entries with this key.
    """
    invoke, reflect = jpype.JPackage("java").lang.invoke, jpype.JPackage("java").lang.reflect
    anything = jpype.JClass("java.lang.Object").class_
    method_type, truth = invoke.MethodType.methodType, jpype.JClass("java.lang.Boolean").TYPE
    offer = invoke.MethodHandles.publicLookup().findVirtual(
        queue.getClass(), "offer", method_type(truth, anything)
    )
    offer = offer.bindTo(queue)
    if tag is not None:
        offer = invoke.MethodHandles.filterArguments(offer, 0, _tagging(jpype, tag))
    classes = jpype.JArray(jpype.JClass("java.lang.Class"))
    handle = invoke.MethodHandles.dropArguments(offer, 0, classes([anything, reflect.Method.class_]))
    arguments = classes([reflect.Method.class_, jpype.JArray(jpype.JClass("java.lang.Object")).class_])
    handle = handle.asType(method_type(anything, anything, arguments))
    handler = invoke.MethodHandleProxies.asInterfaceInstance(reflect.InvocationHandler.class_, handle)
    return reflect.Proxy.newProxyInstance(
        interface.class_.getClassLoader(),
        classes([interface.class_]),
        handler,
    )


def _tagging(jpype: Any, tag: int) -> Any:
    """Returns a method handle that makes an entry of a value, with the tag as its key."""
    invoke = jpype.JPackage("java").lang.invoke
    anything = jpype.JClass("java.lang.Object").class_
    entry = jpype.JClass("java.util.AbstractMap$SimpleEntry")
    method_type = invoke.MethodType.methodType
    nothing = jpype.JClass("java.lang.Void").TYPE
    both = jpype.JArray(jpype.JClass("java.lang.Class"))([anything])
    make = invoke.MethodHandles.publicLookup().findConstructor(
        entry.class_, method_type(nothing, anything, both)
    )
    handles = invoke.MethodHandles
    values = jpype.JArray(jpype.JClass("java.lang.Object"))([jpype.JClass("java.lang.Integer")(tag)])
    return handles.insertArguments(make, 0, values).asType(method_type(anything, anything))
