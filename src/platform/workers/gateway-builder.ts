/** Builds the gateway of the newest usable configuration. */
import type { Config } from '../../config.ts'
import type { Totals } from '../../core/edge/sync.ts'
import { Failure } from '../../failure.ts'
import { createGateway, type Gateway } from '../../gateway.ts'
import type { Log } from '../../ports/log.ts'
import { openVocabularies, type OpenVocabulary, tokenizersOf, vocabularyIn } from '../../vocabulary.ts'
import { CONFIG_KEY, type ConfigEnv, type ConfigSource } from './config-source.ts'
import { boundAssets } from './dashboard-assets.ts'
import type { EdgeAccess } from './edge-access.ts'
import { EDGE_OBJECT, type EdgeViewsParts } from './edge-views.ts'
import { workersLog } from './log.ts'
import { type PortsEnv, workersPorts } from './ports.ts'
import { type VocabularyEnv, vocabularySource } from './vocabulary-bindings.ts'

export interface GatewayEnv extends ConfigEnv, PortsEnv, VocabularyEnv {
  /** The dashboard's files. */
  readonly ASSETS?: Fetcher
}

interface BuiltGateway<Edge> {
  readonly config: Config
  readonly gateway: Gateway
  /** null: the deployment is older than the shared state. */
  readonly edge: Edge | null
}

/** Connects the gateway of a configuration to the shared object. */
type Connect<Edge> = (parts: EdgeViewsParts, config: Config) => Edge

/** Requests share finished gateways, never pending ones, because a promise may not pass from one request to another. */
export class GatewayBuilder<Edge extends EdgeAccess> {
  readonly log: Log
  readonly #source: ConfigSource
  readonly #connect: Connect<Edge>
  #built: BuiltGateway<Edge> | null = null

  constructor(source: ConfigSource, connect: Connect<Edge>) {
    this.#source = source
    this.#connect = connect
    this.log = workersLog(() => this.#built?.config.log.level ?? 'info')
  }

  /**
   * The gateway of the newest usable configuration, or why there is none. A configuration whose vocabularies cannot be
   * loaded does not replace a running one. `later` keeps a background read of the configuration alive.
   */
  async current(env: GatewayEnv, later: (work: Promise<unknown>) => void): Promise<BuiltGateway<Edge> | Failure> {
    const loaded = await this.#source.current(env, later)
    if ('problem' in loaded) return loaded.problem === 'missing' ? MISSING : INVALID
    const built = await this.#builtOf(loaded.config, env)
    if (built === null) return NO_VOCABULARY
    built.gateway.configRefused(this.#source.refusedAt)
    return built
  }

  /** null: no configuration has ever been usable. */
  async #builtOf(config: Config, env: GatewayEnv): Promise<BuiltGateway<Edge> | null> {
    if (this.#built?.config === config) return this.#built
    const vocabularies = await this.#vocabularies(config, env)
    if (vocabularies === null) return this.#built
    const edge = this.#edgeOf(config, env)
    // Without the state of its predecessor: the shared object adds up both, as those of two isolates.
    const gateway = createGateway(config, workersPorts(config, env, this.log, edge), {
      vocabularyOf: vocabularyIn(vocabularies),
      assets: boundAssets(env.ASSETS),
      ...(edge === null ? {} : { workerGroup: edge.views }),
    })
    edge?.client?.setTotals(async () => (await gateway.answer({ about: 'counts' })) as Totals)
    // A promise of another request may not be resolved here, so waiting requests are answered when they get a place.
    this.#built?.gateway.supersede(gateway, false)
    this.#built = { config, gateway, edge }
    return this.#built
  }

  #edgeOf(config: Config, { EDGE }: GatewayEnv): Edge | null {
    if (EDGE === undefined) return null
    return this.#connect({ open: () => EDGE.getByName(EDGE_OBJECT), log: this.log }, config)
  }

  /** null: one is missing or invalid; the log names it and the next step. */
  async #vocabularies(config: Config, env: GatewayEnv): Promise<ReadonlyMap<string, OpenVocabulary> | null> {
    const names = tokenizersOf(config)
    if (names.length === 0) return new Map()
    try {
      return await openVocabularies(names, vocabularySource(env))
    } catch (error) {
      this.log.error('vocabulary_missing', { error })
      return null
    }
  }
}

const NO_VOCABULARY = new Failure(
  'not_configured',
  "A configured vocabulary is missing or invalid. See the Worker's log.",
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
