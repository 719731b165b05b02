"""Programs with rhea, a client of AMQP 1.0 for Node.js that sets no ids of its own."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from typing import Final

from connector.brokers.jars.locked import cache_directory
from tests.servers.broker import PASSWORD, USER
from tests.servers.conftest import Broker

_CONNECTING: Final = """
const rhea = require('rhea');
const t = rhea.types;
const [port, user, password, queue, given, field] = process.argv.slice(1);
const container = rhea.create_container();
const connection = container.connect({port: Number(port), username: user, password: password});
const sends_to = (address) => connection.open_sender({target: {address: address, capabilities: ['queue']}});
const receives = () => connection.open_receiver({source: {address: queue, capabilities: ['queue']}});
let accepted = 0;
const close_after = (count) => {
    container.on('accepted', () => { if (++accepted === count) connection.close(); });
};
"""
"""What all programs begin with."""
_SENDING: Final = """
const pending = eval(given);
sends_to(queue);
container.once('sendable', (context) => {
    for (const one of pending) context.sender.send({durable: true, ...one});
});
close_after(pending.length);
"""
_RECEIVING: Final = """
receives();
container.on('message', () => { console.log('came'); connection.close(); });
setTimeout(() => connection.close(), 120000).unref();
"""
_ASKING: Final = """
const shown = (id) => Buffer.isBuffer(id) ? id.toString('hex') : String(id);
const numbers = new Map();
connection.open_receiver({source: {dynamic: true, capabilities: ['temporary-queue']}});
container.once('receiver_open', (opened) => {
    const reply_to = opened.receiver.source.address;
    sends_to(queue);
    container.once('sendable', (context) => {
        eval(given).forEach((id, number) => {
            numbers.set(shown(id.value === undefined ? id : id.value), number);
            const body = {BusinessObject: 'Customer', Verb: 'Retrieve', CustomerId: `${number}`};
            const request = {durable: true, [field]: id, reply_to: reply_to, body: JSON.stringify(body)};
            context.sender.send(request);
        });
    });
});
container.on('message', (context) => {
    const id = shown(context.message.correlation_id);
    const number = numbers.get(id);
    numbers.delete(id);
    const result = context.message.application_properties.ResponseResult;
    console.log(`${number} ${result} ${context.message.body}`);
    if (numbers.size === 0) connection.close();
});
"""
_ANSWERING: Final = """
const requests = [];
receives();
container.on('message', (context) => {
    requests.push(context.message);
    if (requests.length === Number(given)) connection.open_sender({target: {}});
});
container.once('sendable', (context) => {
    for (const request of requests.reverse()) {
        const number = JSON.parse(request.body).CustomerId;
        context.sender.send({
            to: request.reply_to,
            correlation_id: request.message_id,
            application_properties: {ResponseResult: 'VALCHANGE'},
            body: JSON.stringify({CustomerId: number, Name: `name of ${number}`}),
        });
    }
});
close_after(Number(given));
"""


_REFUSING: Final = """
const rhea = require('rhea');
const container = rhea.create_container();
const error = {condition: 'amqp:not-implemented', description: 'Transactions not supported'};
container.sasl_server_mechanisms.enable_anonymous();
container.sasl_server_mechanisms.enable_plain(() => true);
let number = 0;
container.on('receiver_open', (context) => {
    const target = context.receiver.remote.attach.target;
    if (target.dynamic) context.receiver.set_target({address: `temporary-${++number}`, dynamic: true});
    else if (target.address) context.receiver.set_target({address: target.address});
    else if (process.argv[1] === 'link') context.receiver.close(error);
    else context.session.close(error);
});
container.on('sender_open', (context) => {
    context.sender.set_source({address: context.sender.source.address || `temporary-${++number}`});
});
container.on('error', () => {});
const server = container.listen({port: 0, host: '127.0.0.1'});
server.on('listening', () => console.log(server.address().port));
"""
"""A server whose links for transactions are refused, with the link or the session, as RabbitMQ 4 does."""


@contextlib.contextmanager
def server_without_transactions(way: str) -> Iterator[int]:
    """Runs a server of AMQP 1.0 that refuses the coordinator of transactions. Yields its port.

    Args:
        way: ``link`` or ``session``, that is closed with the refusal.
    """
    command = [*_node(), _REFUSING, way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def send_by_rhea(broker: Broker, queue: str, messages: str) -> None:
    """Sends a JavaScript list of messages, in which ``t`` makes AMQP types."""
    _run(_SENDING, broker, queue, messages)


def receive_by_rhea(broker: Broker, queue: str) -> bool:
    """Returns whether a message waits in a queue, whatever the message is."""
    return "came" in _run(_RECEIVING, broker, queue)


def ask_by_rhea(broker: Broker, queue: str, ids: str, field: str = "message_id") -> list[str]:
    """Asks for customers with rising numbers. The answers come to a temporary queue.

    Args:
        broker, queue: for the requests.
        ids: a JavaScript list of their ids.
        field: ``message_id``, or ``correlation_id`` for requests without message ids.

    Returns:
        The number, the result and the body of each answer, in one line.
    """
    return _run(_ASKING, broker, queue, ids, field).splitlines()


def rhea_answers(broker: Broker, queue: str, count: int) -> list[str]:
    """Returns the command of a program that takes requests, and then answers the last one first."""
    return _command(_ANSWERING, broker, queue, str(count))


def _run(program: str, broker: Broker, *arguments: str) -> str:
    """Runs a JavaScript program, and returns its output."""
    command = _command(program, broker, *arguments)
    return subprocess.run(command, check=True, timeout=240, stdout=subprocess.PIPE, text=True).stdout


def _node() -> list[str]:
    """Returns the beginning of a command that runs a JavaScript program."""
    directory = cache_directory().parent / "tests" / "rhea"
    if not (directory / "node_modules" / "rhea").is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", str(directory), "rhea@3.0.5"], check=True)
    return ["env", f"NODE_PATH={directory / 'node_modules'}", "node", "-e"]


def _command(program: str, broker: Broker, *arguments: str) -> list[str]:
    """Returns the command that runs a JavaScript program."""
    return [*_node(), _CONNECTING + program, str(broker.port), USER, PASSWORD, *arguments]
