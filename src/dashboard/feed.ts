/** The live views. */
import { call, RequestError } from './gateway.ts'
import { lastView } from './last-view.ts'
import type { View } from './wire.ts'

export type Link =
  | { readonly state: 'connecting' | 'live' | 'paused' }
  /** Retries automatically. */
  | { readonly state: 'lost'; readonly message: string }
  /** The admin key is missing or wrong. */
  | { readonly state: 'locked'; readonly message: string }

interface Viewer {
  onView(view: View): void
  onLink(link: Link): void
}

const FIRST_RETRY_MS = 1_000

const LAST_RETRY_MS = 15_000

/** The gateway sends a view every 1 to 2 s, or after 10 s if a Durable Object does not answer. */
const SILENT_MS = 10_000

/**
 * Follows `/v1/firstlight/live` until closed, and pauses while the page is hidden. Uses fetch, because an EventSource
 * could send its key only in the URL.
 */
export class Feed {
  readonly #viewer: Viewer
  #attempt: AbortController | null = null
  #timer: ReturnType<typeof setTimeout> | undefined
  #retryMs = FIRST_RETRY_MS

  constructor(viewer: Viewer) {
    this.#viewer = viewer
    document.addEventListener('visibilitychange', this.#onVisibilityChange)
    this.open()
  }

  /** Reconnects, for example with another key. */
  open(): void {
    this.#stop()
    if (document.hidden) return this.#viewer.onLink({ state: 'paused' })
    const attempt = new AbortController()
    this.#attempt = attempt
    this.#limitSilence()
    void this.#follow(attempt)
  }

  close(): void {
    document.removeEventListener('visibilitychange', this.#onVisibilityChange)
    this.#stop()
  }

  readonly #onVisibilityChange = (): void => this.open()

  #stop(): void {
    clearTimeout(this.#timer)
    this.#attempt?.abort()
    this.#attempt = null
  }

  async #follow(attempt: AbortController): Promise<void> {
    try {
      const response = await call('v1/firstlight/live', { signal: attempt.signal })
      await this.#read(response.body!, attempt)
      // The gateway ends a feed regularly. Reconnect.
      if (!attempt.signal.aborted) this.#later(FIRST_RETRY_MS / 4)
    } catch (error) {
      if (attempt !== this.#attempt) return
      this.#stop()
      if (error instanceof RequestError && error.status === 401)
        return this.#viewer.onLink({ state: 'locked', message: error.message })
      this.#lost(
        error instanceof RequestError ? error.message : 'The gateway does not answer. Check that it is running.',
      )
    }
  }

  /**
   * A hung gateway or a lost network closes no connection. Without this limit the page would show old data as current.
   */
  #limitSilence(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#stop()
      this.#lost(`No data from the gateway for ${SILENT_MS / 1000} seconds.`)
    }, SILENT_MS)
  }

  #lost(message: string): void {
    this.#viewer.onLink({ state: 'lost', message })
    this.#later(this.#retryMs)
    this.#retryMs = Math.min(LAST_RETRY_MS, this.#retryMs * 2)
  }

  async #read(body: ReadableStream<Uint8Array>, attempt: AbortController): Promise<void> {
    const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader()
    let text = ''
    for (;;) {
      this.#limitSilence()
      const { done, value } = await reader.read()
      if (done || attempt.signal.aborted) return
      const { json, rest } = lastView(text + value)
      text = rest
      if (json !== null) this.#show(json)
    }
  }

  #show(json: string): void {
    this.#retryMs = FIRST_RETRY_MS
    this.#viewer.onLink({ state: 'live' })
    this.#viewer.onView(JSON.parse(json) as View)
  }

  #later(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.open(), ms)
  }
}
