/** The beginning of an answer, which is held back until it has output: before, another engine can still be tried. */
import type { JsonObject } from '../../core/json.ts'
import { AnswerReader, judgeAnswer } from '../../protocols/answer.ts'
import type { EngineError } from '../../protocols/engine-error.ts'
import { OPAQUE } from '../../protocols/stream/opaque.ts'
import { StreamReader } from '../../protocols/stream/reader.ts'
import type { Protocol } from '../../protocols/protocol.ts'
import type { OriginAnswer, OriginRequest } from '../../ports/origin.ts'
import { headerOf, isEncoded } from '../headers.ts'

/**
 * Limit, bytes, of a beginning that is held back. Openings of Responses echo the request, with all of its tools. The
 * platform's buffer must be larger.
 */
const HELD_BYTES = 192 * 1024

/** Part of a document, bytes, that shows whether it is an answer. */
const DOCUMENT_BYTES = 64

const EMPTY: EngineError = { status: null, message: 'The stream ended before any output.', body: '' }
const NO_BODY: EngineError = { status: null, message: 'The answer has no body.', body: '' }

/** What a request expects of its answer. It has no reference to the request. */
export interface ExpectedAnswer {
  /** null: any byte is output. */
  readonly protocol: Protocol | null
  /** An answer that is no stream is JSON. */
  readonly isJson: boolean
  /** The request asks for a stream. */
  readonly isStream: boolean
}

export const expectedOf = ({ protocol, expectsJson, expectsStream }: ExpectingRequest): ExpectedAnswer => ({
  protocol,
  isJson: expectsJson,
  isStream: expectsStream,
})

type ExpectingRequest = Pick<OriginRequest, 'protocol' | 'expectsJson' | 'expectsStream'>

/** Types of documents that are read. Others (audio, vectors as bytes) are answers whatever they begin with. */
const DOCUMENT = /json|^text\/(?:html|plain)/

/** Statuses of a success without a body. */
const BODILESS: ReadonlySet<number> = new Set([204, 205])

export class AnswerStart {
  /** null: the answer is no stream, or cannot be read. */
  readonly #reader: StreamReader | null
  readonly #isDocument: boolean
  /** The status announces no body although the request expects one. */
  readonly #lacksBody: boolean
  /** A document that was parsed whole. */
  #json: JsonObject | null = null
  #bytes = 0
  #hasEnded = false

  constructor(
    { status, headers, sse }: Pick<OriginAnswer, 'status' | 'headers' | 'sse'>,
    { protocol, isJson }: ExpectedAnswer,
  ) {
    const isRead = status >= 200 && status < 300 && !BODILESS.has(status) && !isEncoded(headers)
    this.#reader = isRead && sse ? new StreamReader(protocol?.stream ?? OPAQUE) : null
    this.#isDocument = isRead && !sse && isJson && isDocument(headers)
    this.#lacksBody = isJson && BODILESS.has(status)
  }

  /** Takes the next bytes. Returns whether the answer need not be held back any longer. */
  take(bytes: Uint8Array, from = 0, to = bytes.length): boolean {
    this.#bytes += to - from
    if (this.#isDocument) return this.#bytes >= DOCUMENT_BYTES
    if (this.#reader === null) return this.#bytes > 0
    this.#reader.take(bytes, from, to)
    return !this.#reader.isWaiting || this.#bytes > HELD_BYTES
  }

  /** Bytes that were taken. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * The reader of these bytes, which a relay continues behind them. null: the relay reads a stream of another protocol,
   * or has to remove an event that was taken, or the rest of one.
   */
  readerFor(protocol: Protocol, hidesUsage: boolean): StreamReader | null {
    const reader = this.#reader
    if (reader === null || reader.grammar !== (protocol.stream ?? OPAQUE)) return null
    return hidesUsage && (reader.usageEvents > 0 || !reader.isBetween) ? null : reader
  }

  /** Reader of an answer that is no stream. It reads no bytes if the answer was parsed here. */
  answerReader(protocol: Protocol): AnswerReader {
    return new AnswerReader(protocol.usage, this.#json)
  }

  /** The stream has output: later bytes change nothing, and need not be taken. */
  get hasOutput(): boolean {
    return this.#reader?.hasBegun === true
  }

  /** The last event of the protocol was taken. Always false for an answer that is no stream. */
  get hasLastEvent(): boolean {
    return this.#reader?.hasEnded === true
  }

  /** The body has ended. */
  end(): void {
    this.#hasEnded = true
  }

  /**
   * Error that the engine reported before any output, with a success status. null: there is output, or may be.
   * @param firstBytes bytes that were taken, or the first of them
   */
  fault(firstBytes: () => Uint8Array): EngineError | null {
    if (this.#lacksBody) return NO_BODY
    if (this.#isDocument) {
      const { fault, json } = judgeAnswer(firstBytes(), this.#hasEnded)
      this.#json = json
      return fault
    }
    const reader = this.#reader
    if (reader === null) return null
    if (reader.earlyError !== null || reader.hasBegun) return reader.earlyError
    // Without output the end counts only if the protocol has such answers, as a transcript of silence.
    const isOver = this.#hasEnded || reader.hasEnded
    return isOver && reader.outcome() !== 'complete' ? EMPTY : null
  }
}

function isDocument(headers: readonly string[]): boolean {
  const type = headerOf(headers, 'content-type')
  return type === null || DOCUMENT.test(type.toLowerCase())
}
