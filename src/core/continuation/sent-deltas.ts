/** Comparison of a response that is generated again with what the client has of it. */
import { TextHash } from './text-hash.ts'

/** Text of one field of the deltas: `content`, `reasoning`, and name and arguments of each tool call. */
export type Channel = 'content' | 'reasoning' | `name:${number}` | `arguments:${number}`

/** Record of the text sent to the client: length and hash of each channel, not its text. */
export class SentDeltas {
  readonly #channels = new Map<Channel, TextHash>()

  add(channel: Channel, text: string): void {
    const sent = this.#channels.get(channel) ?? new TextHash()
    this.#channels.set(channel, sent)
    sent.add(text)
  }

  /** True if text of the channel was sent, even if it was empty. */
  has(channel: Channel): boolean {
    return this.#channels.has(channel)
  }

  /** Length and hash now. `add` does not change the result. */
  snapshot(channel: Channel): { readonly length: number; readonly hash: number } {
    const sent = this.#channels.get(channel)
    return { length: sent?.length ?? 0, hash: sent?.value ?? new TextHash().value }
  }
}

/** The channels of one repetition. */
export class RepeatedDeltas {
  readonly #sent: SentDeltas
  readonly #repeated = new Map<Channel, { readonly text: TextHash; readonly sent: { length: number; hash: number } }>()

  constructor(sent: SentDeltas) {
    this.#sent = sent
  }

  /** Adds text of the repetition. Returns what the client does not have of it; null: it differs from what was sent. */
  rest(channel: Channel, text: string): string | null {
    let known = this.#repeated.get(channel)
    if (known === undefined) {
      known = { text: new TextHash(), sent: this.#sent.snapshot(channel) }
      this.#repeated.set(channel, known)
    }
    const missing = known.sent.length - known.text.length
    if (missing <= 0) return text
    known.text.add(text.slice(0, missing))
    if (known.text.length === known.sent.length && known.text.value !== known.sent.hash) return null
    return text.slice(missing)
  }

  /** True if the client has text of the channel, even if it is empty. */
  wasSent(channel: Channel): boolean {
    return this.#sent.has(channel)
  }

  /** True if every channel that has begun has all that the client has of it. */
  get isComplete(): boolean {
    return [...this.#repeated.values()].every(({ text, sent }) => text.length >= sent.length)
  }
}
