/** Reads the configuration of a Worker and detects changes. */
import { sha256 } from '../../sha256.ts'
import type { Config } from '../../config.ts'
import { ConfigError, describeProblem } from '../../config/problem.ts'
import { parseConfigText } from '../../config/parse.ts'
import { logMessage } from '../../ports/log.ts'

/** Bindings for the configuration. */
export interface ConfigEnv {
  /** Variable or secret: the document as YAML or JSON text. */
  readonly FIRSTLIGHT_CONFIG?: string
  /** Cluster that this Worker serves, of one document for an edge and its regions. Absent: it is the edge. */
  readonly FIRSTLIGHT_REGION?: string
  /** KV namespace with the document under `firstlight.yaml`. The variable takes precedence. */
  readonly CONFIG?: KVNamespace
  /** Static assets, with the document that `npm run deploy` has bundled. The namespace takes precedence. */
  readonly ASSETS?: Pick<Fetcher, 'fetch'>
  /** Optional `version_metadata` binding: dates a document without a version. */
  readonly CF_VERSION_METADATA?: { readonly timestamp?: string }
}

export const CONFIG_KEY = 'firstlight.yaml'
/** Time, s, for which KV serves a cached copy; more frequent reads return the same. */
const KV_TTL_S = 60
/** Half of an isolate's 128 MB, because parsing a body takes about as much again. */
const BUFFERED_BYTES = 64 * 1024 * 1024
/** Age, ms, after which a document from KV is read again in the background. */
const FRESH_MS = 30_000

/** @testing */
export type LoadedConfig =
  | { readonly config: Config; readonly text: string }
  /** `missing`: there is no document. Otherwise its error, for the log; it may quote values. */
  | { readonly problem: 'missing' | string }

/** Reads the document once per isolate, and again when it may have changed. Keeps the last valid one. */
export class ConfigSource {
  readonly #now: () => number
  #loaded: LoadedConfig | null = null
  #readAt = 0
  #rereading = false
  #refusedAt: number | null = null

  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  /** When a newer document was refused, ms since the epoch; null: the current one is the newest. */
  get refusedAt(): number | null {
    return this.#refusedAt
  }

  /** Returns the current configuration. `later` keeps a background read alive. */
  async current(env: ConfigEnv, later: (work: Promise<unknown>) => void): Promise<LoadedConfig> {
    if (this.#loaded === null || 'problem' in this.#loaded) return this.#read(env)
    const stale = env.FIRSTLIGHT_CONFIG === undefined && this.#now() - this.#readAt > FRESH_MS
    if (stale && !this.#rereading) {
      this.#rereading = true
      later(this.#read(env).finally(() => (this.#rereading = false)))
    }
    return this.#loaded
  }

  async #read(env: ConfigEnv): Promise<LoadedConfig> {
    const read = await readText(env)
    const found = read?.text ?? null
    this.#readAt = this.#now()
    const before = this.#loaded
    const good = before !== null && 'config' in before ? before : null
    if (read === null || found === null) return (this.#loaded = good ?? { problem: 'missing' })
    if (good !== null && good.text === found) {
      this.#refusedAt = null
      return good
    }
    const loaded = await parse(found, env, (read.isDeployed ? dateOf(env) : null) ?? this.#now())
    const meanwhile = this.#loaded
    // Hashing takes time, and another request may have finished first; a second result for the same text would create a
    // second gateway.
    if (meanwhile !== null && 'config' in meanwhile && meanwhile.text === found) return meanwhile
    this.#refusedAt = 'problem' in loaded && good !== null ? (this.#refusedAt ?? this.#now()) : null
    if ('problem' in loaded) logError('config_invalid', { kept: good !== null, problem: loaded.problem })
    return (this.#loaded = 'problem' in loaded && good !== null ? good : loaded)
  }
}

/** Logs without the level of a configuration, because there is none. */
function logError(event: 'config_invalid' | 'config_unreachable', fields: object): void {
  console.error(JSON.stringify({ level: 'error', event, ...fields, message: logMessage(event) }))
}

/** A document, and whether it changes with the deployment alone. */
interface FoundText {
  readonly text: string
  readonly isDeployed: boolean
}

/** null: there is no document, or KV is unreachable. */
async function readText(env: ConfigEnv): Promise<FoundText | null> {
  if (typeof env.FIRSTLIGHT_CONFIG === 'string') return { text: env.FIRSTLIGHT_CONFIG, isDeployed: true }
  try {
    const text = (await env.CONFIG?.get(CONFIG_KEY, { cacheTtl: KV_TTL_S })) ?? null
    return text === null ? await readBundled(env) : { text, isDeployed: false }
  } catch (error) {
    // A bundled document may be older than the unreachable one.
    logError('config_unreachable', { error: String(error) })
    return null
  }
}

async function readBundled({ ASSETS }: ConfigEnv): Promise<FoundText | null> {
  // Any host works here.
  const response = await ASSETS?.fetch(`https://assets.invalid/${CONFIG_KEY}`)
  if (response === undefined) return null
  if (response.status === 200) return { text: await response.text(), isDeployed: true }
  await response.body?.cancel()
  return null
}

async function parse(text: string, env: ConfigEnv, defaultVersion: number): Promise<LoadedConfig> {
  const hashes = new Map<string, string>()
  const hashOf = (secret: string): string => hashes.get(secret) ?? (hashes.set(secret, secret), secret)
  const read = () =>
    parseConfigText(text, env as Readonly<Record<string, unknown>>, {
      defaultVersion,
      defaultObserveShare: 0.1,
      defaultBufferedBytes: BUFFERED_BYTES,
      listens: false,
      region: env.FIRSTLIGHT_REGION ?? null,
      sha256: hashOf,
    })
  try {
    const config = read()
    if (!text.includes('sha256')) return { config, text }
    // Hashes are asynchronous here, so those that this read needs are computed for the next one.
    for (const secret of hashes.keys()) hashes.set(secret, await sha256(secret))
    return { config: read(), text }
  } catch (error) {
    if (error instanceof ConfigError) return { problem: error.problems.map(describeProblem).join('; ') }
    return { problem: String(error) }
  }
}

/** Upload time of this version of the Worker. null: unknown. */
function dateOf(env: ConfigEnv): number | null {
  const at = Date.parse(env.CF_VERSION_METADATA?.timestamp ?? '')
  return Number.isFinite(at) ? at : null
}
