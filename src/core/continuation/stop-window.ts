/** Finds stop strings across the point where a stream was continued. */

export interface StopMatch {
  /** Text for the client, up to the stop string (or with it). */
  readonly text: string
  readonly stop: string
}

/**
 * The engine that continues a stream sees only its own text, so it misses a stop string that begins before it. Holds
 * text back while such a string is possible, as vLLM does: the longest stop string less one character.
 */
export class StopWindow {
  readonly #stops: readonly string[]
  readonly #includesStop: boolean
  readonly #reach: number
  /** Text that was sent before: a stop string may begin in it. */
  #sent: string
  /** Text that is not sent yet. */
  #held = ''
  /** Length of the text of the engine that continues. */
  #own = 0

  /** @param tail end of the text that was sent, at least as long as the longest stop string */
  constructor(stops: readonly string[], includesStop: boolean, tail: string) {
    this.#stops = stops
    this.#includesStop = includesStop
    this.#reach = Math.max(0, ...stops.map(({ length }) => length - 1))
    this.#sent = this.#reach === 0 ? '' : tail.slice(-this.#reach)
  }

  /** Adds text of the engine that failed, which it had held back. */
  addPending(text: string): StopMatch | string {
    this.#held += text
    return this.#search() ?? this.#release(false)
  }

  /** Adds text of the engine that continues. Returns the text to send, which may be empty. */
  add(text: string): StopMatch | string {
    if (this.#reach === 0 || this.isClosed) return this.#flush() + text
    this.#own += text.length
    this.#held += text
    return this.#search() ?? this.#release(this.isClosed)
  }

  /**
   * Returns the rest of the text at the end of the output.
   * @param stop the stop string that the engine found, and removed from its text; null: it ended otherwise. Another one
   *   may be complete before it
   */
  end(stop: string | null): StopMatch | string {
    if (stop === null || this.#includesStop || this.isClosed) return this.#flush()
    this.#held += stop
    return this.#search() ?? this.#flush()
  }

  /** No stop string can begin before the continuation any more. */
  get isClosed(): boolean {
    return this.#own >= this.#reach
  }

  /** The stop string that is complete first ends the output. */
  #search(): StopMatch | null {
    const text = this.#sent + this.#held
    let first: { at: number; stop: string } | null = null
    for (const stop of this.#stops) {
      const at = text.indexOf(stop)
      if (at >= 0 && (first === null || at + stop.length < first.at + first.stop.length)) first = { at, stop }
    }
    if (first === null) return null
    const end = first.at + (this.#includesStop ? first.stop.length : 0)
    return { text: text.slice(this.#sent.length, Math.max(this.#sent.length, end)), stop: first.stop }
  }

  #release(all: boolean): string {
    if (all) return this.#flush()
    const keep = this.#includesStop ? 0 : this.#reach
    const out = this.#held.slice(0, Math.max(0, this.#held.length - keep))
    this.#sent = (this.#sent + out).slice(-this.#reach)
    this.#held = this.#held.slice(out.length)
    return this.#reach === 0 ? out + this.#flush() : out
  }

  #flush(): string {
    const text = this.#held
    this.#held = ''
    return text
  }
}
