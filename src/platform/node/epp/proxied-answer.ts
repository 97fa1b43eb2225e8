/** The response of an engine that a proxy reports: judged like an answer from a socket, and passed on through it. */
import type { AnswerStart } from '../../../origin/relay/answer-start.ts'
import { type AnswerHead, type AnswerLimits, PullAnswer } from '../../../origin/relay/pull-answer.ts'
import type { ResponseHandler } from '../../../ports/origin.ts'
import type { RelayOptions } from '../../../ports/relay.ts'
import { BodySource } from './body-source.ts'

/** Bytes that were read before the relay began. */
export interface BegunBody {
  readonly held: readonly Uint8Array[]
  readonly ended: boolean
  readonly start: AnswerStart
  readonly sse: boolean
}

/** What moves an answer on: the conversation with the proxy. */
export interface AnswerMover {
  /** Takes over the answer: head and body go back to the proxy. */
  relay(options: RelayOptions, body: BegunBody): void
  /** A step of the gateway reads the answer, and the response to `place` has its body. */
  streams(): void
  /** The proxy has taken the body of the request. */
  readonly isWritten: boolean
  /** The rest of the answer is not needed. */
  stopped(reason: unknown): void
}

interface AnswerParts {
  readonly head: AnswerHead
  readonly limits: AnswerLimits
  readonly mover: AnswerMover
  readonly served: string | null
}

export class ProxiedAnswer extends PullAnswer {
  readonly served?: string
  readonly #mover: AnswerMover
  readonly #body: BodySource
  /** Waits for its output. null: it does not, or has it. */
  #judge: ResponseHandler | null = null

  constructor({ head, limits, mover, served }: AnswerParts) {
    const body = new BodySource((reason) => mover.stopped(reason))
    super(head, body, limits)
    this.#body = body
    this.#mover = mover
    if (served !== null) this.served = served
  }

  get written(): boolean {
    return this.#mover.isWritten
  }

  /** Calls `firstByte` of the handler in the tick in which output comes. */
  judge(handler: ResponseHandler): void {
    this.#judge = handler
  }

  /** Ends the judgement: the answer begins without output. Has effect before there is any. */
  beginEarly(): void {
    const judge = this.#judge
    this.#judge = null
    judge?.firstByte(this, true)
  }

  take(piece: Uint8Array): void {
    const judge = this.#judge
    if (judge === null) return this.#body.put(piece)
    this.held.push(piece)
    if (!this.start.take(piece)) return
    this.#judge = null
    judge.firstByte(this, false)
  }

  end(): void {
    const judge = this.#judge
    if (judge === null) return this.#body.end()
    this.#judge = null
    this.ended = true
    this.start.end()
    judge.firstByte(this, false)
  }

  fail(reason: unknown): void {
    const judge = this.#judge
    this.#judge = null
    this.#body.fail(reason)
    judge?.failed(reason)
  }

  /** An answer that a step changes is read as a stream, which the conversation writes. */
  override pass(options: RelayOptions): Response {
    if (options.scope.client !== this.#mover) {
      this.#mover.streams()
      return super.pass(options)
    }
    const { held, ended, start, sse } = this
    this.#mover.relay(options, { held, ended, start, sse })
    return new Response(null, { status: options.status })
  }
}
