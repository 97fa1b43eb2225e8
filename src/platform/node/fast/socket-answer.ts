import { PulledAnswer, type AnswerHead, type AnswerLimits } from '../../../origin/pulled-answer.ts'
import type { Reply } from '../../../ports.ts'
import { nodeClientOf } from '../client.ts'
import { RawPass } from './raw-pass.ts'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { SocketSource } from './socket-source.ts'

/** An answer whose bytes can go straight to the client's socket; everything else is the plain answer's. */
export class SocketAnswer extends PulledAnswer {
  readonly #source: SocketSource

  constructor(head: AnswerHead, source: SocketSource, limits: AnswerLimits) {
    super(head, source, limits)
    this.#source = source
  }

  override pass(reply: Reply): Response {
    const client = nodeClientOf(reply.scope)
    const bodiless = this.#source.framing!.kind === 'none'
    if (client === null || bodiless || client.outgoing.headersSent) return super.pass(reply)
    const pass = new RawPass({
      reply: {
        ...reply,
        cutEvent: (failure) => reply.cutEvent(failure),
        onEvents: (events) => reply.onEvents(events),
        settled: (end) => reply.settled(end),
        onFirstByte: () => {
          this.firstByteIsHere()
          reply.onFirstByte()
        },
      },
      sse: this.sse,
      source: this.#source,
      outgoing: client.outgoing,
      now: this.limits.now,
      done: () => this.release(),
    })
    this.takenOver = () => pass.clientGone()
    pass.begin(this.held)
    return RESPONSE_ALREADY_SENT
  }
}
