/** vLLM's event sockets, by ZeroMQ. */
import { type EventFrame, publishedFrames, replayedFrames, replayRequest } from '../../core/kv-events/event-frames.ts'
import { loadZmq, type Zmq } from '../../platform/node/zmq.ts'

export interface EventEndpoints {
  readonly endpoint: string
  /** null: missed batches cannot be requested. */
  readonly replayEndpoint: string | null
  readonly topic: string
}

/** Subscription to one engine's publisher. */
export interface EventSocket {
  /** Published batches until `close`. Malformed messages are skipped. */
  batches(): AsyncIterable<EventFrame>
  /** All batches from `seq` on that the engine still holds; null if it does not answer in time or holds none. */
  replay(seq: number): Promise<readonly EventFrame[] | null>
  close(): void
}

export interface OpenEventSocket {
  /** @param touched called when the publisher becomes reachable or unreachable */
  (endpoints: EventEndpoints, touched: (connected: boolean) => void): EventSocket
}

const REPLAY_MS = 5_000
/** Same limit as vLLM's publisher has for slow subscribers. */
const WAITING_BATCHES = 100_000
const RECONNECT_MS = 200
const MAX_RECONNECT_MS = 5_000

/** Loads ZeroMQ. Throws ZmqMissing. */
export async function zmqSockets(replayMs = REPLAY_MS): Promise<OpenEventSocket> {
  const zmq = await loadZmq()
  return ({ endpoint, replayEndpoint, topic }, touched) => {
    const events = new zmq.Subscriber({
      receiveHighWaterMark: WAITING_BATCHES,
      linger: 0,
      reconnectInterval: RECONNECT_MS,
      reconnectMaxInterval: MAX_RECONNECT_MS,
      ipv6: isIPv6(endpoint),
    })
    events.events.on('handshake', () => touched(true))
    events.events.on('disconnect', () => touched(false))
    events.subscribe(topic)
    events.connect(endpoint)
    return {
      async *batches() {
        for await (const frames of events) {
          const framed = publishedFrames(frames)
          if (framed !== null) yield framed
        }
      },
      replay: (seq) =>
        replayEndpoint === null ? Promise.resolve(null) : replayed(zmq, replayEndpoint, { seq, replayMs }),
      close: () => events.close(),
    }
  }
}

/** ZeroMQ uses IPv6 only if it is enabled, and would then prefer it for names that have both. */
const isIPv6 = (endpoint: string): boolean => endpoint.startsWith('tcp://[')

/** Uses one socket per question, so that late answers are discarded with it. */
async function replayed(
  zmq: Zmq,
  endpoint: string,
  { seq, replayMs }: { readonly seq: number; readonly replayMs: number },
): Promise<EventFrame[] | null> {
  const dealer = new zmq.Dealer({
    linger: 0,
    sendTimeout: replayMs,
    receiveTimeout: replayMs,
    receiveHighWaterMark: 0,
    ipv6: isIPv6(endpoint),
  })
  try {
    dealer.connect(endpoint)
    await dealer.send(replayRequest(seq))
    const answer: EventFrame[] = []
    for (;;) {
      const framed = replayedFrames(await dealer.receive())
      if (framed === 'end') return answer
      if (framed !== null) answer.push(framed)
    }
  } catch {
    // No answer. The caller decides what that means.
    return null
  } finally {
    dealer.close()
  }
}
