"""Programs with rhea, a client of AMQP 1.0 for Node.js that sets no ids of its own."""

from __future__ import annotations

import subprocess

from connector.brokers.jars.locked import cache_directory
from tests.servers.broker import PASSWORD, USER
from tests.servers.conftest import Broker

_SENDING = """
const rhea = require('rhea');
const [port, user, password, queue, messages] = process.argv.slice(1);
const container = rhea.create_container();
const pending = eval(messages);
let accepted = 0;
const connection = container.connect({port: Number(port), username: user, password: password});
connection.open_sender({target: {address: queue, capabilities: ['queue']}});
container.once('sendable', (context) => {
    for (const one of pending) context.sender.send({durable: true, ...one});
});
container.on('accepted', () => { accepted += 1; if (accepted === pending.length) connection.close(); });
"""
_RECEIVING = """
const [port, user, password, queue] = process.argv.slice(1);
const container = require('rhea').create_container();
const connection = container.connect({port: Number(port), username: user, password: password});
connection.open_receiver({source: {address: queue, capabilities: ['queue']}});
container.on('message', () => { console.log('came'); connection.close(); });
setTimeout(() => connection.close(), 120000).unref();
"""
_ASKING = """
const rhea = require('rhea');
const t = rhea.types;
const [port, user, password, queue, ids] = process.argv.slice(1);
const container = rhea.create_container();
const shown = (id) => Buffer.isBuffer(id) ? id.toString('hex') : String(id);
const numbers = new Map();
const connection = container.connect({port: Number(port), username: user, password: password});
connection.open_receiver({source: {dynamic: true, capabilities: ['temporary-queue']}});
container.once('receiver_open', (opened) => {
    const reply_to = opened.receiver.source.address;
    connection.open_sender({target: {address: queue, capabilities: ['queue']}});
    container.once('sendable', (context) => {
        eval(ids).forEach((id, number) => {
            numbers.set(shown(id.value === undefined ? id : id.value), number);
            const body = {BusinessObject: 'Customer', Verb: 'Retrieve', CustomerId: `${number}`};
            const request = {durable: true, message_id: id, reply_to: reply_to, body: JSON.stringify(body)};
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
_ANSWERING = """
const [port, user, password, queue, count] = process.argv.slice(1);
const container = require('rhea').create_container();
const connection = container.connect({port: Number(port), username: user, password: password});
const requests = [];
let accepted = 0;
connection.open_receiver({source: {address: queue, capabilities: ['queue']}});
container.on('message', (context) => {
    requests.push(context.message);
    if (requests.length === Number(count)) connection.open_sender({target: {}});
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
container.on('accepted', () => { accepted += 1; if (accepted === requests.length) connection.close(); });
"""


def send_by_rhea(broker: Broker, queue: str, messages: str) -> None:
    """Sends a JavaScript list of messages."""
    _run(_SENDING, [str(broker.port), USER, PASSWORD, queue, messages])


def receive_by_rhea(broker: Broker, queue: str) -> bool:
    """Returns whether a message waits in a queue, whatever the message is."""
    return "came" in _run(_RECEIVING, [str(broker.port), USER, PASSWORD, queue])


def ask_by_rhea(broker: Broker, queue: str, ids: str) -> list[str]:
    """Asks for customers with rising numbers. The answers come to a temporary queue.

    Args:
        broker, queue: for the requests.
        ids: a JavaScript list of their message ids.

    Returns:
        The number, the result and the body of each answer, in one line.
    """
    return _run(_ASKING, [str(broker.port), USER, PASSWORD, queue, ids]).splitlines()


def rhea_answers(broker: Broker, queue: str, count: int) -> list[str]:
    """Returns the command of a program that takes requests, and then answers the last one first."""
    return _command(_ANSWERING, [str(broker.port), USER, PASSWORD, queue, str(count)])


def _run(program: str, arguments: list[str]) -> str:
    """Runs a JavaScript program, and returns its output."""
    command = _command(program, arguments)
    return subprocess.run(command, check=True, timeout=240, stdout=subprocess.PIPE, text=True).stdout


def _command(program: str, arguments: list[str]) -> list[str]:
    """Returns the command that runs a JavaScript program."""
    directory = cache_directory().parent / "tests" / "rhea"
    if not (directory / "node_modules" / "rhea").is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", str(directory), "rhea@3.0.5"], check=True)
    start = ["env", f"NODE_PATH={directory / 'node_modules'}", "node", "-e"]
    return [*start, program, *arguments]
