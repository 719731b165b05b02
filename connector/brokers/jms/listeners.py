"""Listeners in Java whose calls never enter Python.

A thread of Java that enters Python while Python ends would abort the process.
"""

from __future__ import annotations

from typing import Any


def queue_listener(jpype: Any, interface: Any, queue: Any) -> Any:
    """Returns an object of Java that puts the arguments of each of its calls into a queue."""
    invoke, reflect = jpype.JPackage("java").lang.invoke, jpype.JPackage("java").lang.reflect
    anything = jpype.JClass("java.lang.Object").class_
    method_type, truth = invoke.MethodType.methodType, jpype.JClass("java.lang.Boolean").TYPE
    offer = invoke.MethodHandles.publicLookup().findVirtual(
        queue.getClass(), "offer", method_type(truth, anything)
    )
    ignored = jpype.JArray(jpype.JClass("java.lang.Class"))([anything, reflect.Method.class_])
    handle = invoke.MethodHandles.dropArguments(offer.bindTo(queue), 0, ignored)
    arguments = jpype.JArray(jpype.JClass("java.lang.Class"))(
        [reflect.Method.class_, jpype.JArray(jpype.JClass("java.lang.Object")).class_]
    )
    handle = handle.asType(method_type(anything, anything, arguments))
    handler = invoke.MethodHandleProxies.asInterfaceInstance(reflect.InvocationHandler.class_, handle)
    return reflect.Proxy.newProxyInstance(
        interface.class_.getClassLoader(),
        jpype.JArray(jpype.JClass("java.lang.Class"))([interface.class_]),
        handler,
    )
