/** A response on Workers: read in JavaScript as far as needed, then copied by workerd. */
import { headersInit } from '../../origin/headers.ts'
import { type AnswerHead, type AnswerLimits, PullAnswer } from '../../origin/relay/pull-answer.ts'
import { ResponseIdFinder } from '../../origin/relay/response-id-finder.ts'
import type { RelayOptions } from '../../ports/relay.ts'
import { NativeRelay } from './native-relay.ts'
import type { ReaderSource } from './reader-source.ts'
import type { UpstreamGuard } from './upstream-guard.ts'

export class FetchedAnswer extends PullAnswer {
  readonly #source: ReaderSource
  readonly #guard: UpstreamGuard

  constructor(
    head: AnswerHead,
    source: ReaderSource,
    { guard, ...limits }: AnswerLimits & { readonly guard: UpstreamGuard },
  ) {
    super(head, source, limits)
    this.#source = source
    this.#guard = guard
    guard.answered({ late: (reason) => source.stop(reason), abandon: (reason) => this.abandon(reason) })
  }

  protected override firstByteIsHere(): void {
    this.#guard.firstByteIsHere()
  }

  protected override release(): void {
    this.#guard.over()
  }

  override pass(options: RelayOptions): Response {
    // Before the first byte, the pull relay watches for it and sends heartbeats. A pending read holds the body's lock.
    const isBegun = this.held.length > 0 && !this.reading
    const native = this.sse && !options.observe && isBegun && !this.ended && this.bodied
    if (!native || (options.onResponseId !== undefined && responseIdMayFollow(this.held))) return super.pass(options)
    const { readable, writable } = new IdentityTransformStream()
    const work = new NativeRelay({ source: this.#source, start: this.start, guard: this.#guard }, options).run(
      this.held,
      writable,
    )
    options.scope.background(work)
    return new Response(readable, { status: options.status, headers: headersInit(options.headers) })
  }
}

/** The id of a stored response may come after `held`, so the following bytes must be read. */
function responseIdMayFollow(held: readonly Uint8Array[]): boolean {
  const finder = new ResponseIdFinder(() => {})
  for (const chunk of held) finder.take(chunk)
  return finder.looks
}
