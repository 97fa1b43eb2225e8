/** Where a Worker finds its configuration, and how it notices a new one. */
import { sha256 } from '../../api/auth.ts'
import type { Config } from '../../config.ts'
import { ConfigError, describeProblem, parseConfigText } from '../../config/parse.ts'

/** What the Worker may be bound to, as far as configuration goes. */
export interface ConfigEnv {
  /** Var or secret: the document as YAML or JSON text. */
  readonly FIRSTLIGHT_CONFIG?: string
  /** KV namespace whose key `firstlight.yaml` holds the document. The variable wins. */
  readonly CONFIG?: KVNamespace
  /** Optional `version_metadata` binding: dates a document that names no version. */
  readonly CF_VERSION_METADATA?: { readonly timestamp?: string }
}

export const CONFIG_KEY = 'firstlight.yaml'
/** KV serves a colo's copy for this long; asking more often is in vain. */
const KV_TTL_S = 60
/** Half of an isolate's 128 MB: parsing a body takes about as much again. */
const BUFFERED_BYTES = 64 * 1024 * 1024
/** A document from KV older than this is asked for again, behind a response. */
const FRESH_MS = 30_000

export type Loaded =
  | { readonly config: Config; readonly text: string }
  /** `missing`: there is none. Otherwise what is wrong with it, for the log: it may quote values. */
  | { readonly problem: 'missing' | string }

/** Reads the document once per isolate, and again when it may have changed. Keeps the last good one. */
export class ConfigSource {
  readonly #now: () => number
  #loaded: Loaded | null = null
  #readAt = 0
  #rereading = false

  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  /** The configuration now in force. `later` keeps a reading alive that nobody waits for. */
  async current(env: ConfigEnv, later: (work: Promise<unknown>) => void): Promise<Loaded> {
    if (this.#loaded === null || 'problem' in this.#loaded) return this.#read(env)
    const stale = env.FIRSTLIGHT_CONFIG === undefined && this.#now() - this.#readAt > FRESH_MS
    if (stale && !this.#rereading) {
      this.#rereading = true
      later(this.#read(env).finally(() => (this.#rereading = false)))
    }
    return this.#loaded
  }

  async #read(env: ConfigEnv): Promise<Loaded> {
    const found = await readText(env)
    this.#readAt = this.#now()
    const before = this.#loaded
    const good = before !== null && 'config' in before ? before : null
    if (found === null) return (this.#loaded = good ?? { problem: 'missing' })
    if (good !== null && good.text === found) return good
    const loaded = await parse(found, env, dateOf(env) ?? this.#now())
    const meanwhile = this.#loaded
    // Hashes take time, and another request was sooner: a second of the same would be a second gateway.
    if (meanwhile !== null && 'config' in meanwhile && meanwhile.text === found) return meanwhile
    if ('problem' in loaded)
      console.error(
        JSON.stringify({ level: 'error', event: 'config_invalid', kept: good !== null, problem: loaded.problem }),
      )
    return (this.#loaded = 'problem' in loaded && good !== null ? good : loaded)
  }
}

/** null: there is none, or KV cannot be reached. */
async function readText(env: ConfigEnv): Promise<string | null> {
  if (typeof env.FIRSTLIGHT_CONFIG === 'string') return env.FIRSTLIGHT_CONFIG
  try {
    return (await env.CONFIG?.get(CONFIG_KEY, { cacheTtl: KV_TTL_S })) ?? null
  } catch (error) {
    console.error(JSON.stringify({ level: 'error', event: 'config_unreachable', error: String(error) }))
    return null
  }
}

async function parse(text: string, env: ConfigEnv, defaultVersion: number): Promise<Loaded> {
  const hashes = new Map<string, string>()
  const hashOf = (secret: string): string => hashes.get(secret) ?? (hashes.set(secret, secret), secret)
  const read = () =>
    parseConfigText(text, env as Readonly<Record<string, unknown>>, {
      defaultVersion,
      defaultObserveShare: 0.1,
      defaultBufferedBytes: BUFFERED_BYTES,
      listens: false,
      sha256: hashOf,
    })
  try {
    const config = read()
    if (!text.includes('sha256')) return { config, text }
    // Here hashes come later only: those that this reading asked for are there for the next.
    for (const secret of hashes.keys()) hashes.set(secret, await sha256(secret))
    return { config: read(), text }
  } catch (error) {
    if (error instanceof ConfigError) return { problem: error.problems.map(describeProblem).join('; ') }
    return { problem: String(error) }
  }
}

/** When this version of the Worker was uploaded: a variable changes only with it. */
function dateOf(env: ConfigEnv): number | null {
  if (env.FIRSTLIGHT_CONFIG === undefined) return null
  const at = Date.parse(env.CF_VERSION_METADATA?.timestamp ?? '')
  return Number.isFinite(at) ? at : null
}
