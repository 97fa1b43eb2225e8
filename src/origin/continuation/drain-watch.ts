/** Looks whether a stream must leave its engine because that drains. */
import type { AttemptContext } from '../attempt-context.ts'
import type { PoolDigests } from '../digests/pool-digests.ts'

/** Interval at which a stream looks, ms. */
const LOOK_EVERY_MS = 1_000

/** Reads the digest of the pool once a second, so that chunks cost nothing. */
export class DrainWatch {
  readonly #digests: PoolDigests
  readonly #mayMove: () => boolean
  #lookedAt = 0

  /** @param mayMove whether another engine could take the stream at this point of its output */
  constructor(digests: PoolDigests, mayMove: () => boolean) {
    this.#digests = digests
    this.#mayMove = mayMove
  }

  /** A further engine has got the stream. */
  moved(): void {
    this.#lookedAt = 0
  }

  /** No other engine took the stream. `isFull`: one may have room later; otherwise this is not asked again. */
  stayed(now: number, isFull: boolean): void {
    this.#lookedAt = isFull ? now : Infinity
  }

  /** Returns whether the engine drains and its deadline has passed; false between two looks, or if nothing may move. */
  mustLeave({ placed, exchange, ports }: AttemptContext): boolean {
    const now = ports.now()
    if (now - this.#lookedAt < LOOK_EVERY_MS || !this.#mayMove()) return false
    this.#lookedAt = now
    const digest = this.#digests.current(placed.route, exchange.scope)
    const moveAt = digest?.engines.find(({ id }) => id === placed.engine.id)?.moveAt
    return moveAt !== undefined && moveAt <= now
  }
}
