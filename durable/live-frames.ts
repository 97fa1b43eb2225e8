/** Interval of views, ms, while a viewer is connected. */
const VIEW_MS = 1_000

/** Views that a viewer who reconnects may have missed. */
const FRAMES_KEPT = 30

export const VIEWERS = 32

interface Frame {
  readonly seq: number
  readonly bytes: Uint8Array
}

/** Live feed: all viewers of all isolates get the same events in the same order. */
export class LiveFrames {
  readonly #view: () => Promise<unknown>
  readonly #utf8 = new TextEncoder()
  readonly #epoch = crypto.randomUUID().slice(0, 8)
  readonly #frames: Frame[] = []
  #seq = 0
  #takenAt = 0
  #pending: Promise<void> | null = null
  #viewers = 0

  /** @param view takes a view of the fleet */
  constructor(view: () => Promise<unknown>) {
    this.#view = view
  }

  get isFull(): boolean {
    return this.#viewers >= VIEWERS
  }

  /**
   * Opens a feed. A viewer who has the id of an event gets the following ones, or `reset` if they are gone.
   * @param lastId `EPOCH:SEQ` of the last event; null: a new viewer
   */
  open(lastId: string | null): ReadableStream<Uint8Array> {
    const { seen, isLost } = this.#resume(lastId)
    let last = seen
    this.#viewers++
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          if (isLost) controller.enqueue(this.#utf8.encode('event: reset\ndata: {}\n\n'))
        },
        pull: async (controller) => {
          const frame = await this.#after(last)
          last = frame.seq
          controller.enqueue(frame.bytes)
        },
        cancel: () => {
          this.#viewers--
        },
      },
      { highWaterMark: 0 },
    )
  }

  #resume(lastId: string | null): { readonly seen: number; readonly isLost: boolean } {
    const [epoch, seq] = (lastId ?? '').split(':')
    const oldest = this.#frames[0]?.seq ?? this.#seq + 1
    const isKnown = epoch === this.#epoch && Number(seq) >= oldest - 1 && Number(seq) <= this.#seq
    return isKnown
      ? { seen: Number(seq), isLost: false }
      : { seen: Math.max(0, this.#seq - 1), isLost: lastId !== null }
  }

  async #after(seen: number): Promise<Frame> {
    for (;;) {
      const next = this.#frames.find(({ seq }) => seq > seen)
      // A new viewer gets a current view, not one from before a pause.
      if (next !== undefined && (next.seq < this.#seq || Date.now() - this.#takenAt < 2 * VIEW_MS)) return next
      this.#pending ??= this.#take().finally(() => (this.#pending = null))
      await this.#pending
    }
  }

  async #take(): Promise<void> {
    await scheduler.wait(Math.max(0, this.#takenAt + VIEW_MS - Date.now()))
    const json = JSON.stringify(await this.#view())
    this.#takenAt = Date.now()
    this.#seq += 1
    const bytes = this.#utf8.encode(`id: ${this.#epoch}:${this.#seq}\nevent: view\ndata: ${json}\n\n`)
    this.#frames.push({ seq: this.#seq, bytes })
    if (this.#frames.length > FRAMES_KEPT) this.#frames.shift()
  }
}
