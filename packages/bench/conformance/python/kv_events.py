#!/usr/bin/env python3
"""Print the KV-cache event batches that a vLLM server still holds, as JSON lines.

    kv_events.py REPLAY_ENDPOINT [FROM_SEQ]

One line per batch: seq, the payload's bytes in hex, and what they decode to (hashes as decimal strings: they are
unsigned 64-bit). The end marker is a batch with an empty payload and the sequence number -1.
"""
import json
import sys

import msgspec
import zmq


def plain(value):
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: [str(item) for item in field] if key == "block_hashes" else str(field) if key == "parent_block_hash" and field is not None else plain(field) for key, field in value.items()}
    return value


def main() -> int:
    dealer = zmq.Context().socket(zmq.DEALER)
    dealer.connect(sys.argv[1])
    start = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    dealer.send_multipart([b"", start.to_bytes(8, "big")])
    while dealer.poll(5000):
        frames = dealer.recv_multipart()
        payload = frames[-1]
        if not payload:
            return 0
        seq = int.from_bytes(frames[-2], "big", signed=True)
        print(json.dumps({"seq": seq, "frames": len(frames), "payload_hex": payload.hex(), "payload": plain(msgspec.msgpack.decode(payload))}))
    print("no answer from the replay socket within 5 s", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
