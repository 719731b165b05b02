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
setTimeout(() => connection.close(), 10000).unref();
"""


def send_by_rhea(broker: Broker, queue: str, messages: str) -> None:
    """Sends a JavaScript list of messages."""
    _run(_SENDING, [str(broker.port), USER, PASSWORD, queue, messages])


def receive_by_rhea(broker: Broker, queue: str) -> bool:
    """Returns whether a message waits in a queue, whatever the message is."""
    return "came" in _run(_RECEIVING, [str(broker.port), USER, PASSWORD, queue])


def _run(program: str, arguments: list[str]) -> str:
    """Runs a JavaScript program, and returns its output."""
    directory = cache_directory().parent / "tests" / "rhea"
    if not (directory / "node_modules" / "rhea").is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", str(directory), "rhea@3.0.5"], check=True)
    command = ["node", "-e", program, *arguments]
    return subprocess.run(
        command, cwd=directory, check=True, timeout=60, stdout=subprocess.PIPE, text=True
    ).stdout
