/**
 * The gateway of one isolate, with its bodies, timers, vocabularies and assets. Rebuilt when the configuration
 * changes.
 */
import { problemResponse } from '../../api/error-response.ts'
import type { Config } from '../../config.ts'
import { Failure } from '../../failure.ts'
import { createGateway, type Gateway } from '../../gateway.ts'
import type { Log, RequestScope, AssetFiles, Timer, Timers } from '../../ports.ts'
import { openVocabularies, type OpenVocabulary, tokenizersOf } from '../../vocabulary.ts'
import { CONFIG_KEY, ConfigSource, type ConfigEnv } from './config-source.ts'
import type { Totals } from '../../core/edge/sync.ts'
import { EDGE_OBJECT, EdgeClient, SYNC_MS } from './edge-client.ts'
import { workersPorts, type PortsEnv, workersLog } from './ports.ts'
import type { HeldBytes } from '../../api/body-memory.ts'
import { VocabularyError, type VocabularySource } from '../../core/tokens/vocabulary.ts'

/** Bindings with compiled vocabularies, keyed by the names in the pools. The first existing binding is used. */
export interface VocabularyEnv {
  readonly VOCABULARIES?: KVNamespace
  readonly VOCABULARY_BUCKET?: R2Bucket
  /** Static assets of the deployment. */
  readonly ASSETS?: Fetcher
}

export function vocabularySource({ VOCABULARIES, VOCABULARY_BUCKET, ASSETS }: VocabularyEnv): VocabularySource {
  if (VOCABULARIES !== undefined) return kvVocabularies(VOCABULARIES)
  if (VOCABULARY_BUCKET !== undefined) return r2Vocabularies(VOCABULARY_BUCKET)
  if (ASSETS !== undefined) return assetVocabularies(ASSETS)
  throw new VocabularyError(
    'nothing is bound that holds vocabularies: bind a KV namespace as VOCABULARIES, an R2 bucket as ' +
      'VOCABULARY_BUCKET, or static assets as ASSETS',
  )
}

/** Vocabularies as values of a KV namespace, by key. */
function kvVocabularies(namespace: KVNamespace): VocabularySource {
  return async (name) =>
    found(await namespace.get(name, 'arrayBuffer'), `wrangler kv key put --binding VOCABULARIES ${name} --path ${name}`)
}

/** Vocabularies as objects of an R2 bucket. */
function r2Vocabularies(bucket: R2Bucket): VocabularySource {
  return async (name) =>
    found(
      (await (await bucket.get(name))?.arrayBuffer()) ?? null,
      `wrangler r2 object put BUCKET/${name} --file ${name}`,
    )
}

/** Vocabularies as static assets. */
function assetVocabularies(assets: Fetcher): VocabularySource {
  return async (name) => {
    const response = await assets.fetch(`https://assets.invalid/${encodeURI(name)}`)
    return found(response.ok ? await response.arrayBuffer() : null, 'put the file into the assets directory')
  }
}

function found(file: ArrayBuffer | null, next: string): Uint8Array {
  if (file === null) throw new VocabularyError(`is not there: ${next}`)
  return new Uint8Array(file)
}

/*
 * Reads request bodies. workerd allocates an object for each chunk, sized for the largest: 300,000 chunks of one byte
 * took 1.8 GB. Reads into the caller's buffer that wait until it is full cost per byte instead.
 */

/** Bodies up to this declared length, bytes, are read at once. */
const ONE_GO_BYTES = 64 * 1024
/** Initial memory, bytes, of a longer body or one of unknown length. */
const FIRST_BYTES = 16 * 1024

/** Bytes that a read waits for; until then workerd keeps some 400 bytes per chunk. */
const LEAST_BYTES = 16 * 1024

type Collect = (limitBytes: number, memory?: HeldBytes | null) => Promise<Uint8Array | null>

/** Returns the request with a body that is collected by these functions. */
export function collecting(request: Request): Request {
  const collect: Collect = async (limitBytes, memory) => {
    const { body } = request
    if (body === null) return new Uint8Array(0)
    const length = Number(request.headers.get('content-length') ?? Infinity)
    if (length > ONE_GO_BYTES) return collected(body, { limitBytes, maxBytes: length, memory })
    memory?.grow(length)
    return new Uint8Array(await request.arrayBuffer())
  }
  return Object.defineProperties(request, { collect: { value: collect }, giveBack: { value: () => {} } })
}

interface Reading {
  readonly limitBytes: number
  /** Upper bound of the length. Infinity: unknown. */
  readonly maxBytes: number
  readonly memory: HeldBytes | null | undefined
}

async function collected(body: ReadableStream<Uint8Array>, reading: Reading): Promise<Uint8Array | null> {
  const reader = readerOf(body)
  let bytes: Uint8Array | null = null
  try {
    bytes = await read(reader, reading)
    return bytes
  } finally {
    // Not awaited, because a client that never stops sending must not delay the response.
    if (bytes === null) reader.cancel().catch(() => undefined)
  }
}

function readerOf(body: ReadableStream<Uint8Array>): ReadableStreamBYOBReader {
  try {
    return body.getReader({ mode: 'byob' })
  } catch {
    // Only scripts create such a body, never a client.
    return body.pipeThrough(new IdentityTransformStream()).getReader({ mode: 'byob' })
  }
}

/** null: the body exceeds the limit. The memory doubles, so it is at most twice the received bytes. */
async function read(
  reader: ReadableStreamBYOBReader,
  { limitBytes, maxBytes, memory }: Reading,
): Promise<Uint8Array | null> {
  // One byte more than allowed shows that the body is too long.
  const mostBytes = Math.min(maxBytes, limitBytes + 1)
  let buffer = new Uint8Array(0)
  let total = 0
  while (total <= limitBytes && total < mostBytes) {
    if (total === buffer.length) {
      const size = Math.min(mostBytes, Math.max(FIRST_BYTES, 2 * total))
      buffer = grownTo(buffer, size)
    }
    const least = Math.min(LEAST_BYTES, buffer.length - total)
    const { value } = await reader.readAtLeast(least, buffer.subarray(total))
    const bytes: number = value?.byteLength ?? 0
    // A read transfers the buffer and returns it with the bytes.
    if (value !== undefined) buffer = new Uint8Array(value.buffer as ArrayBuffer)
    memory?.grow(bytes)
    total += bytes
    if (bytes < least) break
  }
  return total > limitBytes ? null : buffer.subarray(0, total)
}

function grownTo(buffer: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
  const grown = new Uint8Array(size)
  grown.set(buffer)
  return grown
}

interface Waiting extends Timer {
  readonly at: number
  readonly ring: () => void
}

/**
 * All alarms of one request on as few timers as possible: setting and clearing five takes a twentieth of the CPU of a
 * small request in workerd, and hardly any fires. Requests cannot share a timer, because on Workers it belongs to the
 * request that set it.
 */
export class RequestTimers implements Timers {
  readonly #now: () => number
  readonly #alarms = new Set<Waiting>()
  /** Time at which the timer fires. Infinity: no timer is set. */
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
    // The handle that setTimeout returns for clearing costs as much again.
    void scheduler.wait(delayMs).then(() => this.#wake(at))
  }

  #wake(at: number): void {
    // An earlier alarm was set after this timer, and has a timer of its own.
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
    // Any host works here.
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

/** Responses from this status on may be refusals, which other isolates' views count. */
const REFUSED = 400

interface Built {
  readonly config: Config
  readonly gateway: Gateway
  /** null: the deployment is older than the shared state. */
  readonly edge: EdgeClient | null
}

export interface IsolateOptions {
  /** It takes views for the shared object, and is no isolate with requests of its own. Absent: false. */
  readonly isReader?: boolean
  /** Interval, ms, at which the isolate shares its state. Absent: a second. */
  readonly syncMs?: number
}

/** Requests share finished gateways, never pending ones, because a promise may not pass from one request to another. */
export class IsolateGateway {
  readonly #source: ConfigSource
  readonly #log: Log
  readonly #options: { readonly isReader: boolean; readonly syncMs: number }
  #built: Built | null = null

  constructor(source: ConfigSource, { isReader = false, syncMs = SYNC_MS }: IsolateOptions = {}) {
    this.#source = source
    this.#options = { isReader, syncMs }
    this.#log = workersLog(() => this.#built?.config.log.level ?? 'info')
  }

  async fetch(request: Request, env: GatewayEnv, ctx: ExecutionContext): Promise<Response> {
    try {
      const loaded = await this.#source.current(env, (work) => ctx.waitUntil(work))
      if ('problem' in loaded) return refuse(loaded.problem === 'missing' ? MISSING : INVALID)
      const built = await this.#builtOf(loaded.config, env)
      if (built === null) return refuse(NO_VOCABULARY)
      built.gateway.configRefused(this.#source.refusedAt)
      const scope = scopeOf(request, ctx)
      built.edge?.freshen(scope)
      const answer = built.gateway.fetch(collecting(request), scope)
      // A client disconnect would otherwise stop the request's JavaScript before its booking is released.
      ctx.waitUntil(answer)
      const response = await answer
      if (response.status >= REFUSED) built.edge?.touched(scope)
      return response
    } catch (error) {
      // An exception that leaves the handler would close the client's connection without a response.
      this.#log.error('request_failed', { error })
      return refuse(new Failure('internal', 'The gateway failed to handle this request. Its log has the cause.'))
    }
  }

  /** View of the fleet for the live feed. null: there is no usable configuration. */
  async view(env: GatewayEnv): Promise<unknown> {
    const loaded = await this.#source.current(env, () => undefined)
    if ('problem' in loaded) return null
    const built = await this.#builtOf(loaded.config, env)
    await built?.edge?.look()
    built?.gateway.configRefused(this.#source.refusedAt)
    return built?.gateway.view() ?? null
  }

  /**
   * Builds the gateway. A configuration whose vocabularies cannot be loaded does not replace a running one. null: no
   * configuration has ever been usable.
   */
  async #builtOf(config: Config, env: GatewayEnv): Promise<Built | null> {
    if (this.#built?.config === config) return this.#built
    const vocabularies = await this.#vocabularies(config, env)
    if (vocabularies === null) return this.#built
    const vocabularyOf = ({ tokenizer }: { readonly tokenizer: string | null }) =>
      tokenizer === null ? null : (vocabularies.get(tokenizer) ?? null)
    const edge = this.#edgeOf(config, env)
    const gateway = createGateway(config, workersPorts(config, env, this.#log, edge), {
      vocabularyOf,
      assets: boundAssets(env.ASSETS),
      ...(edge === null ? {} : { shared: edge }),
    })
    edge?.count(async () => (await gateway.answer({ about: 'counts' })) as Totals)
    // A promise of another request may not be resolved here, so waiting requests are answered when they get a place.
    this.#built?.gateway.supersede(gateway, false)
    this.#built = { config, gateway, edge }
    return this.#built
  }

  #edgeOf(config: Config, { EDGE }: GatewayEnv): EdgeClient | null {
    if (EDGE === undefined) return null
    return new EdgeClient({
      open: () => EDGE.getByName(EDGE_OBJECT),
      log: this.#log,
      newId: () => crypto.randomUUID(),
      configVersion: config.version,
      ...this.#options,
    })
  }

  /** null: one is missing or invalid; the log names it and the next step. */
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
