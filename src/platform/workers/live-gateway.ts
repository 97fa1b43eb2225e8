/** The gateway of one isolate, rebuilt when its configuration changes. */
import { problemResponse } from '../../api/problem.ts'
import type { Config } from '../../config.ts'
import { Failure } from '../../failure.ts'
import { createGateway, type Gateway } from '../../gateway.ts'
import type { Log, RequestScope } from '../../ports.ts'
import { openVocabularies, type OpenVocabulary, tokenizersOf } from '../../vocabulary.ts'
import { boundAssets } from './assets.ts'
import { CONFIG_KEY, ConfigSource, type ConfigEnv } from './config-source.ts'
import { workersLog } from './log.ts'
import { workersPorts, type PortsEnv } from './ports.ts'
import { collecting } from './request-body.ts'
import { RequestAlarms } from './request-alarms.ts'
import { vocabularySource, type VocabularyEnv } from './vocabulary.ts'

export interface GatewayEnv extends ConfigEnv, PortsEnv, VocabularyEnv {
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

  /** A configuration whose vocabularies cannot be had does not start; one that runs goes on. null: none ever started. */
  async #gatewayOf(config: Config, env: GatewayEnv): Promise<Gateway | null> {
    if (this.#built?.config === config) return this.#built.gateway
    const vocabularies = await this.#vocabularies(config, env)
    if (vocabularies === null) return this.#built?.gateway ?? null
    const vocabularyOf = ({ tokenizer }: { readonly tokenizer: string | null }) => (tokenizer === null ? null : (vocabularies.get(tokenizer) ?? null))
    const gateway = createGateway(config, workersPorts(config, env, this.#log), { vocabularyOf, assets: boundAssets(env.ASSETS) })
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

const NO_VOCABULARY = new Failure('not_configured', 'A vocabulary that the configuration of this gateway names is missing or unfit. Its log says which, and what to do.')
const MISSING = new Failure(
  'not_configured',
  `This gateway has no configuration: set the variable or secret FIRSTLIGHT_CONFIG, or put the key ${CONFIG_KEY} into a KV namespace bound as CONFIG.`,
)
const INVALID = new Failure('not_configured', 'The configuration of this gateway is not valid. Its log names every problem; `firstlight check` does too.')

function refuse(failure: Failure): Response {
  return problemResponse(failure, 'openai', crypto.randomUUID())
}

function scopeOf(request: Request, ctx: ExecutionContext): RequestScope {
  return { background: (work) => ctx.waitUntil(work), client: ctx, remoteAddress: request.headers.get('cf-connecting-ip'), alarms: new RequestAlarms() }
}
