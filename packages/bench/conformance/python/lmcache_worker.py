"""Registers instances at LMCache's controller and announces their chunks, with the messages of the package.

Reads {"pull": port, "reply": port, "instances": {name: [token ids]}} from the first argument.
"""
import json
import sys

import msgspec
import zmq
from lmcache.v1.cache_controller.message import BatchedKVOperationMsg, KVOpEvent, OpType, RegisterMsg
from lmcache.v1.token_database import ChunkedTokenDatabase

asked = json.loads(sys.argv[1])
database = ChunkedTokenDatabase()
context = zmq.Context()
reply = context.socket(zmq.REQ)
reply.connect(f"tcp://127.0.0.1:{asked['reply']}")
pull = context.socket(zmq.PUSH)
pull.connect(f"tcp://127.0.0.1:{asked['pull']}")
for port, (name, tokens) in enumerate(asked["instances"].items(), 9):
    message = RegisterMsg(instance_id=name, worker_id=0, ip="127.0.0.1", port=port, peer_init_url=None)
    reply.send(msgspec.msgpack.encode(message))
    reply.recv()
    whole = tokens[: len(tokens) // database.chunk_size * database.chunk_size]
    keys = [key for _, _, key in database.process_tokens(whole, make_key=False)]
    events = [KVOpEvent(op_type=OpType.ADMIT, key=key, seq_num=at) for at, key in enumerate(keys)]
    pull.send(msgspec.msgpack.encode(BatchedKVOperationMsg(name, 0, "LocalCPUBackend", events)))
# Returns when the messages are sent and all sockets are closed.
reply.close(linger=0)
pull.close(linger=10_000)
context.term()
