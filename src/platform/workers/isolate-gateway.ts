/** The gateway of one isolate, rebuilt when its configuration changes. */
import { problemResponse } from '../../api/error-response.ts'
import type { Config } from '../../config.ts'
import { Failure } from '../../failure.ts'
import { createGateway, type Gateway } from '../../gateway.ts'
import type { Log, RequestScope, AssetFiles, Timer, Timers } from '../../ports.ts'
import { openVocabularies, type OpenVocabulary, tokenizersOf } from '../../vocabulary.ts'
import { CONFIG_KEY, ConfigSource, type ConfigEnv } from './config-source.ts'
import { workersPorts, type PortsEnv, workersLog } from './ports.ts'
import { collecting } from './request-body.ts'
import { vocabularySource, type VocabularyEnv } from './vocabulary.ts'

interface Waiting extends Timer {
  readonly at: number
  readonly ring: () => void
}

/**
 * All alarms of one request on as few timers as can be: five set and cleared are a twentieth of what a small request
 * costs
 * workerd, and hardly any rings. A clock for several requests is not to be had: on Workers a
 * timer belongs to the request that set it.
 */
export class RequestTimers implements Timers {
  readonly #now: () => number
  readonly #alarms = new Set<Waiting>()
  /** When the timer rings that is set; Infinity: none is. */
  #timerAt = Infinity

  /** @param now milliseconds since the epoch */
  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  set(delayMs: number, ring: () => void): Timer {
    const alarm: Waiting = { at: this.#now() + delayMs, ring, cancel: () => void this.#alarms.delete(alarm) }
    this.#alarms.add(alarm)
    this.#wakeAt(alarm.at, delayMs)
    return alarm
  }

  #wakeAt(at: number, delayMs: number): void {
    if (at >= this.#timerAt) return
    this.#timerAt = at
    // No setTimeout: what it hands out to clear it by costs as much again.
    void scheduler.wait(delayMs).then(() => this.#wake(at))
  }

  #wake(at: number): void {
    // An earlier alarm was set behind this timer's back, and has a timer of its own.
    if (at > this.#timerAt) return
    this.#timerAt = Infinity
    const now = this.#now()
    let next = Infinity
    for (const alarm of this.#alarms) {
      if (alarm.at > now) next = Math.min(next, alarm.at)
      else if (this.#alarms.delete(alarm)) alarm.ring()
    }
    if (next < Infinity) this.#wakeAt(next, next - now)
  }
}

/* The dashboard's files, from the Worker's static assets. */

/** @param binding absent: deployed without assets */
export function boundAssets(binding: Fetcher | undefined): AssetFiles {
  return async (name) => {
    if (binding === undefined) return null
    // The host means nothing there.
    const response = await binding.fetch(`https://assets.invalid/${name}`)
    if (response.status === 200) return response.body
    await response.body?.cancel()
    return null
  }
}

export interface GatewayEnv extends ConfigEnv, PortsEnv, VocabularyEnv {
  /** The dashboard's files. */
  readonly ASSETS?: Fetcher
}

interface Built {
  readonly config: Config
  readonly gateway: Gateway
}

/** Requests share what is built, never what is being built: a promise may not cross from one request to another. */
export class IsolateGateway {
  readonly #source: ConfigSource
  readonly #log: Log
  #built: Built | null = null

  constructor(source: ConfigSource) {
    this.#source = source
    this.#log = workersLog(() => this.#built?.config.log.level ?? 'info')
  }

  async fetch(request: Request, env: GatewayEnv, ctx: ExecutionContext): Promise<Response> {
    try {
      const loaded = await this.#source.current(env, (work) => ctx.waitUntil(work))
      if ('problem' in loaded) return refuse(loaded.problem === 'missing' ? MISSING : INVALID)
      const gateway = await this.#gatewayOf(loaded.config, env)
      if (gateway === null) return refuse(NO_VOCABULARY)
      const answer = gateway.fetch(collecting(request), scopeOf(request, ctx))
      // A client that leaves would take the request's JS with it, and the word that its booking has ended.
      ctx.waitUntil(answer)
      return await answer
    } catch (error) {
      // An exception that leaves the handler drops the client's connection without a word.
      this.#log.error('request_failed', { error })
      return refuse(new Failure('internal', 'The gateway failed to handle this request. Its log has the cause.'))
    }
  }

  /**
   * A configuration whose vocabularies cannot be had does not start; one that runs goes on. null: none ever started.
   */
  async #gatewayOf(config: Config, env: GatewayEnv): Promise<Gateway | null> {
    if (this.#built?.config === config) return this.#built.gateway
    const vocabularies = await this.#vocabularies(config, env)
    if (vocabularies === null) return this.#built?.gateway ?? null
    const vocabularyOf = ({ tokenizer }: { readonly tokenizer: string | null }) =>
      tokenizer === null ? null : (vocabularies.get(tokenizer) ?? null)
    const gateway = createGateway(config, workersPorts(config, env, this.#log), {
      vocabularyOf,
      assets: boundAssets(env.ASSETS),
    })
    this.#built = { config, gateway }
    return gateway
  }

  /** null: one is missing or unfit; the log says which, and what to do. */
  async #vocabularies(config: Config, env: GatewayEnv): Promise<ReadonlyMap<string, OpenVocabulary> | null> {
    const names = tokenizersOf(config)
    if (names.length === 0) return new Map()
    try {
      return await openVocabularies(names, vocabularySource(env))
    } catch (error) {
      this.#log.error('vocabulary_missing', { error })
      return null
    }
  }
}

const NO_VOCABULARY = new Failure(
  'not_configured',
  'A vocabulary that the configuration of this gateway names is missing or unfit. Its log says which, and what to do.',
)
const MISSING = new Failure(
  'not_configured',
  'This gateway has no configuration: set the variable or secret FIRSTLIGHT_CONFIG, or put the key ' +
    `${CONFIG_KEY} into a KV namespace bound as CONFIG.`,
)
const INVALID = new Failure(
  'not_configured',
  'The configuration of this gateway is not valid. Its log names every problem; `firstlight check` does too.',
)

function refuse(failure: Failure): Response {
  return problemResponse(failure, 'openai', crypto.randomUUID())
}

function scopeOf(request: Request, ctx: ExecutionContext): RequestScope {
  return {
    background: (work) => ctx.waitUntil(work),
    client: ctx,
    remoteAddress: request.headers.get('cf-connecting-ip'),
    alarms: new RequestTimers(),
  }
}
