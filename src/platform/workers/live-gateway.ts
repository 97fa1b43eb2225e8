/** The gateway of one isolate, rebuilt when its configuration changes. */
import { problemResponse } from '../../api/problem.ts'
import type { Config } from '../../config.ts'
import { Failure } from '../../failure.ts'
import { createGateway, type Gateway } from '../../gateway.ts'
import type { Log, RequestScope } from '../../ports.ts'
import { openVocabularies, type OpenVocabulary } from '../../vocabulary.ts'
import { boundAssets } from './assets.ts'
import { CONFIG_KEY, ConfigSource, type ConfigEnv } from './config-source.ts'
import { workersLog } from './log.ts'
import { workersPorts, type PortsEnv } from './ports.ts'
import { kvVocabularies } from './vocabulary.ts'

export interface GatewayEnv extends ConfigEnv, PortsEnv {
  /** KV namespace of compiled vocabularies, by the names that pools give. */
  readonly VOCABULARIES?: KVNamespace
  /** The dashboard's files. */
  readonly ASSETS?: Fetcher
}

interface Built {
  readonly config: Config
  readonly gateway: Gateway
}

/** Requests share what is built, never what is being built: a promise may not cross from one request to another. */
export class LiveGateway {
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
      return await gateway.fetch(request, scopeOf(request, ctx))
    } catch (error) {
      // An exception that leaves the handler drops the client's connection without a word.
      this.#log.error('request_failed', { error })
      return refuse(new Failure('internal', 'The gateway failed to handle this request. Its log has the cause.'))
    }
  }

  async #gatewayOf(config: Config, env: GatewayEnv): Promise<Gateway> {
    if (this.#built?.config === config) return this.#built.gateway
    const vocabularies = await this.#vocabularies(config, env)
    const vocabularyOf = ({ tokenizer }: { readonly tokenizer: string | null }) => (tokenizer === null ? null : (vocabularies.get(tokenizer) ?? null))
    const gateway = createGateway(config, workersPorts(config, env, this.#log), { vocabularyOf, assets: boundAssets(env.ASSETS) })
    this.#built = { config, gateway }
    return gateway
  }

  /** Without its vocabulary a pool measures prompts in bytes: worse routing, but a running gateway. */
  async #vocabularies(config: Config, { VOCABULARIES }: GatewayEnv): Promise<ReadonlyMap<string, OpenVocabulary>> {
    const names = config.clusters.flatMap(({ pools }) => pools.map(({ tokenizer }) => tokenizer)).filter((name) => name !== null)
    if (names.length === 0) return new Map()
    try {
      if (VOCABULARIES === undefined) throw new Error('no KV namespace is bound as VOCABULARIES')
      return await openVocabularies(names, kvVocabularies(VOCABULARIES))
    } catch (error) {
      this.#log.error('vocabulary_missing', { error })
      return new Map()
    }
  }
}

const MISSING = new Failure(
  'not_configured',
  `This gateway has no configuration: set the variable or secret FIRSTLIGHT_CONFIG, or put the key ${CONFIG_KEY} into a KV namespace bound as CONFIG.`,
)
const INVALID = new Failure('not_configured', 'The configuration of this gateway is not valid. Its log names every problem; `firstlight check` does too.')

function refuse(failure: Failure): Response {
  return problemResponse(failure, 'openai', crypto.randomUUID())
}

function scopeOf(request: Request, ctx: ExecutionContext): RequestScope {
  return { background: (work) => ctx.waitUntil(work), client: ctx, remoteAddress: request.headers.get('cf-connecting-ip') }
}
