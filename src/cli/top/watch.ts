/** Shows a fleet on a terminal until the user quits. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { View } from '../../dashboard/wire.ts'
import type { Terminal } from '../terminal.ts'
import { type Frame, screenOf } from './draw.ts'
import { figuresOf, type ViewFigures } from './figures.ts'
import { FeedUnavailable, follow, type Gateway } from './follow.ts'
import { Pace } from './pace.ts'
import { Screen } from './screen.ts'
import { type Selection, SORTS } from './selection.ts'

interface WatchOptions {
  readonly gateway: Gateway
  readonly everyMs: number
  readonly selection: Selection
  readonly colours: boolean
}

/**
 * The gateway produces one view per second. A slower refresh reconnects each time, so that no other views are
 * produced.
 */
const FOLLOWED_MS = 1_000

/** Delay before the feed is reopened after a regular end. */
const NEXT_FEED_MS = 250

const FIRST_RETRY_MS = 1_000

const LAST_RETRY_MS = 5_000

/** Refresh interval of the displayed age. */
const TICK_MS = 1_000

/**
 * Resolves with the last view; null if `stop` aborted before the first. Throws FeedUnavailable if no first view is
 * available.
 */
export async function watch(terminal: Terminal, options: WatchOptions, stop: AbortSignal): Promise<ViewFigures | null> {
  const watching = new WatchSession(terminal, options, stop)
  try {
    await watching.run()
  } finally {
    watching.close()
  }
  return watching.figures
}

class WatchSession {
  figures: ViewFigures | null = null
  readonly #options: WatchOptions
  readonly #screen: Screen
  readonly #pace = new Pace()
  readonly #stop: AbortSignal
  readonly #quit = new AbortController()
  /** Rejects on an error in a key, resize or timer handler. */
  readonly #failed = Promise.withResolvers<never>()
  readonly #undo: (() => void)[] = []
  #selection: Selection
  #skipped = 0
  #held = false
  #lost: { readonly at: number; readonly message: string } | null = null

  constructor(terminal: Terminal, options: WatchOptions, stop: AbortSignal) {
    this.#options = options
    this.#selection = options.selection
    this.#stop = AbortSignal.any([stop, this.#quit.signal])
    // The rejection is handled by the waiting caller; before the first view there is none.
    this.#failed.promise.catch(() => undefined)
    this.#screen = new Screen(
      terminal,
      {
        onKeys: this.#guarded((keys: string) => this.#typed(keys, terminal)),
        onResize: this.#guarded(() => this.#redraw()),
      },
      options.colours,
    )
    this.#undo.push(terminal.onResume(this.#guarded(() => this.#resumed())))
    const timer = setInterval(
      this.#guarded(() => this.#draw()),
      TICK_MS,
    )
    this.#undo.push(() => clearInterval(timer))
  }

  run(): Promise<void> {
    return Promise.race([this.#followOn(), this.#failed.promise])
  }

  close(): void {
    this.#quit.abort()
    for (const undo of this.#undo) undo()
    this.#screen.close()
  }

  async #followOn(): Promise<void> {
    const { gateway, everyMs } = this.#options
    let retryMs = FIRST_RETRY_MS
    while (!this.#stop.aborted) {
      try {
        for await (const view of follow(gateway, this.#stop)) {
          this.#show(view)
          retryMs = FIRST_RETRY_MS
          if (everyMs > FOLLOWED_MS) break
        }
        await this.#pause(everyMs > FOLLOWED_MS ? everyMs : NEXT_FEED_MS)
      } catch (error) {
        if (!(error instanceof FeedUnavailable) || this.figures === null) throw error
        this.#lost = { at: this.#lost?.at ?? performance.now(), message: error.message }
        this.#draw()
        await this.#pause(retryMs)
        retryMs = Math.min(LAST_RETRY_MS, retryMs * 2)
      }
    }
  }

  /** Ends early when watching ends. */
  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stop }).catch(() => undefined)
  }

  #show(view: View): void {
    this.#lost = null
    this.#pace.record(view)
    if (this.#held) return
    this.figures = figuresOf(view, this.#pace)
    this.#screen.open()
    this.#draw()
  }

  #draw(): void {
    const { columns, rows } = this.#screen.size
    if (this.figures === null || !this.#screen.isOpen) return
    const frame: Frame = {
      figures: this.figures,
      selection: this.#selection,
      url: this.#options.gateway.url,
      skipped: this.#skipped,
      stale: this.#stale(),
    }
    const { lines, skipped } = screenOf(frame, { rows, cells: columns })
    this.#skipped = skipped
    this.#screen.draw(lines)
  }

  #stale(): string | null {
    if (this.#lost !== null)
      return `no data for ${Math.round((performance.now() - this.#lost.at) / 1000)} s: ${this.#lost.message}; retrying`
    return this.#held ? 'paused: press space to continue' : null
  }

  #redraw(): void {
    this.#screen.forget()
    this.#draw()
  }

  /** A held key arrives several times in one chunk; an arrow key has several characters. */
  #typed(keys: string, terminal: Terminal): void {
    for (const key of keys.match(KEYS) ?? []) this.#pressed(key, terminal)
  }

  #pressed(key: string, terminal: Terminal): void {
    if (key === 'q' || key === CTRL_C || key === CTRL_D) return this.#quit.abort()
    if (key === CTRL_Z) return this.#suspend(terminal)
    if (key === CTRL_L) return this.#redraw()
    if (key === ' ') this.#held = !this.#held
    if (key === 's')
      this.#selection = {
        ...this.#selection,
        sort: SORTS[(SORTS.indexOf(this.#selection.sort) + 1) % SORTS.length]!,
        reversed: false,
      }
    if (key === 'r') this.#selection = { ...this.#selection, reversed: !this.#selection.reversed }
    this.#skipped = Math.max(0, this.#skipped + this.#moveOf(key))
    this.#draw()
  }

  /** Number of lines to scroll down. Drawing limits it. */
  #moveOf(key: string): number {
    const page = Math.max(1, Math.floor(this.#screen.size.rows / 2))
    const all = this.figures?.engines.length ?? 0
    const moves = new Map([
      ['\u001b[A', -1],
      ['k', -1],
      ['\u001b[B', 1],
      ['j', 1],
      ['\u001b[5~', -page],
      ['\u001b[6~', page],
      ['\u001b[H', -all],
      ['\u001b[1~', -all],
      ['\u001b[F', all],
      ['\u001b[4~', all],
    ])
    return moves.get(key) ?? 0
  }

  #suspend(terminal: Terminal): void {
    this.#screen.close()
    terminal.suspend()
  }

  /** Another process may have changed the terminal meanwhile. */
  #resumed(): void {
    if (this.figures === null) return
    this.#screen.close()
    this.#screen.open()
    this.#draw()
  }

  #guarded<OptionValue extends unknown[]>(work: (...given: OptionValue) => void): (...given: OptionValue) => void {
    return (...given) => {
      try {
        work(...given)
      } catch (error) {
        this.#failed.reject(error)
      }
    }
  }
}

/** An escape sequence, or any single character. */
const KEYS = /\p{Cc}(?:\[[0-9;]*|O)[A-Za-z~]|[^]/gu

const [CTRL_C, CTRL_D, CTRL_L, CTRL_Z] = ['\u0003', '\u0004', '\u000c', '\u001a']
