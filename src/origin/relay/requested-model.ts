/** Answers with the model name that the client requested. */
import { concatBytes } from '../../core/bytes.ts'
import { renamedAnswer, renamedEvent } from '../../protocols/answer-model.ts'
import type { Protocol } from '../../protocols/protocol.ts'
import { EventSplitter } from '../../protocols/stream/event-splitter.ts'

/** Longest event that is held back until its end, bytes. A longer one passes unchanged. */
const HELD_BYTES = 8 * 1024 * 1024

export interface Renaming {
  readonly sse: boolean
  readonly protocol: Protocol
  readonly model: string
}

type Piece = readonly Uint8Array[]

/** The response must be a stream, not written to a socket by the platform. */
export function withRequestedModel(response: Response, { sse, protocol, model }: Renaming): Response {
  const { body, status, headers } = response
  const isJson = /json/.test(headers.get('content-type') ?? '')
  if (body === null || (!sse && !isJson)) return response
  const name = new TextEncoder().encode(JSON.stringify(model))
  const renamer = sse ? new EventRenamer(protocol, name) : new AnswerRenamer(name)
  return new Response(renamedBody(body, renamer), { status, headers })
}

interface Renamer {
  take(chunk: Uint8Array): Piece
  end(): Piece
}

class EventRenamer implements Renamer {
  readonly #protocol: Protocol
  readonly #name: Uint8Array
  readonly #events = new EventSplitter(HELD_BYTES)

  constructor(protocol: Protocol, name: Uint8Array) {
    this.#protocol = protocol
    this.#name = name
  }

  take(chunk: Uint8Array): Piece {
    const { bytes, ends } = this.#events.take(chunk)
    return ends.flatMap((end, i) => renamedEvent(bytes.subarray(ends[i - 1] ?? 0, end), this.#protocol, this.#name))
  }

  end(): Piece {
    return [this.#events.end()]
  }
}

class AnswerRenamer implements Renamer {
  readonly #name: Uint8Array
  readonly #pieces: Uint8Array[] = []

  constructor(name: Uint8Array) {
    this.#name = name
  }

  take(chunk: Uint8Array): Piece {
    this.#pieces.push(chunk)
    return []
  }

  end(): Piece {
    return renamedAnswer(concatBytes(this.#pieces), this.#name)
  }
}

function renamedBody(source: ReadableStream<Uint8Array>, renamer: Renamer): ReadableStream<Uint8Array> {
  const reader = source.getReader()
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const { done, value } = await reader.read()
        const pieces = done ? renamer.end() : renamer.take(value)
        const bytes = concatBytes(pieces)
        if (bytes.length > 0) controller.enqueue(bytes)
        if (done) return controller.close()
        if (bytes.length > 0) return
      }
    },
    cancel: (reason) => reader.cancel(reason),
  })
}
