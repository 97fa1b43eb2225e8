import { PulledAnswer } from '../../../origin/pulled-answer.ts'
import type { Reply } from '../../../ports.ts'
import { clientLineOf } from '../inbound/client-line.ts'
import type { ParsedHead } from './answer-head.ts'
import type { Call } from './call.ts'
import { RawPass } from './raw-pass.ts'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'

const clock = { now: () => performance.now() }

/** An answer whose bytes can go straight to the client's socket; everything else is the plain answer's. */
export class SocketAnswer extends PulledAnswer {
  readonly #call: Call

  constructor(head: ParsedHead, call: Call) {
    super(head, call, clock)
    this.#call = call
  }

  get written(): boolean {
    return this.#call.written
  }

  override begun(): Uint8Array {
    return this.held.length === 0 ? this.#call.begun() : super.begun()
  }

  override pass(reply: Reply): Response {
    const line = clientLineOf(reply.scope)
    if (line === null || this.#call.framing!.kind === 'none' || line.begun) return super.pass(reply)
    const pass = new RawPass({ reply, sse: this.sse, call: this.#call, line })
    this.takenOver = () => pass.clientGone()
    pass.begin(this.held)
    return RESPONSE_ALREADY_SENT
  }

  protected override firstByteIsHere(): void {
    this.#call.firstByteIsHere()
  }

  protected override release(): void {
    this.#call.release()
  }
}
