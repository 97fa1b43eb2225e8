/** ZeroMQ frames of event batches, as vLLM's publisher sends them. */

export interface EventFrame {
  /** Sequence number of batches, from 0 at each start of the engine. */
  readonly seq: number
  readonly payload: Uint8Array
}

const SEQ_BYTES = 8

/** Parses `[topic, seq, payload]`; null: invalid. */
export function publishedFrames(frames: readonly Uint8Array[]): EventFrame | null {
  return frames.length === 3 ? frameOf(frames) : null
}

/**
 * Parses `['', seq, payload]`, and since vllm-project/vllm#45177 `['', topic, seq, payload]`. `end`: the replay is
 * complete.
 */
export function replayedFrames(frames: readonly Uint8Array[]): EventFrame | 'end' | null {
  if (frames.length !== 3 && frames.length !== 4) return null
  const payload = frames.at(-1)!
  const seq = frames.at(-2)!
  if (payload.length === 0 && seq.length === SEQ_BYTES && seq.every((byte) => byte === 0xff)) return 'end'
  return frameOf(frames)
}

/** Replay request of a DEALER for all batches from `seq` on. */
export function replayRequest(seq: number): [Uint8Array, Uint8Array] {
  return [new Uint8Array(0), seqFrame(seq)]
}

export function seqFrame(seq: number): Uint8Array {
  const bytes = new Uint8Array(SEQ_BYTES)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, Math.floor(seq / 4_294_967_296))
  view.setUint32(4, seq >>> 0)
  return bytes
}

function frameOf(frames: readonly Uint8Array[]): EventFrame | null {
  const seq = frames.at(-2)!
  if (seq.length !== SEQ_BYTES) return null
  const view = new DataView(seq.buffer, seq.byteOffset, SEQ_BYTES)
  const number = view.getUint32(0) * 4_294_967_296 + view.getUint32(4)
  return Number.isSafeInteger(number) ? { seq: number, payload: frames.at(-1)! } : null
}
